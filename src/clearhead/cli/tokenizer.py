"""`clearhead tokenizer train`: train a tokenizer on text files."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from clearhead.cli.command import report_errors
from clearhead.cli.options import TEMPLATE_NAMES, TOKENIZER_KINDS, TYPER_OPTIONS, JsonOption

if TYPE_CHECKING:
    from rich.console import Console

    from clearhead.text import Tokenizer


tokenizer = typer.Typer(
    add_completion=False, help="Train a tokenizer on text files.", no_args_is_help=True, **TYPER_OPTIONS
)


@tokenizer.callback()
def group() -> None:
    """Train a tokenizer on text files."""


@tokenizer.command()
@report_errors
def train(
    files: Annotated[list[Path], typer.Argument(help="UTF-8 text files, one text per line: plain, .gz or .xz.")],
    template: Annotated[str, typer.Option(help=f"Model family: {', '.join(TEMPLATE_NAMES)}.")],
    vocab_size: Annotated[int, typer.Option(help="Vocabulary size, including special tokens.")],
    out: Annotated[Path, typer.Option(help="Folder to write.")],
    kind: Annotated[
        str | None, typer.Option(help=f"Algorithm: {', '.join(TOKENIZER_KINDS)}. Default: the family's.")
    ] = None,
    lowercase: Annotated[bool, typer.Option("--lowercase", help="Convert text to lower case.")] = False,
    special: Annotated[list[str] | None, typer.Option(help="Additional special token. Repeatable.")] = None,
    max_len: Annotated[int | None, typer.Option(help="Maximum sequence length of the model.")] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an existing tokenizer in OUT.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Train a tokenizer on text files.

    The folder can be opened by clearhead and transformers. The same files give the same tokenizer. Files are streamed;
    WordPiece reads them twice.

    Example: clearhead tokenizer train corpus.txt.gz --template gpt2 --vocab-size 8000 --out my-tokenizer
    """
    from rich.console import Console

    from clearhead.text import TEMPLATES, train_tokenizer

    begin = time.perf_counter()
    if (out / "tokenizer.json").exists() and not overwrite:
        raise ValueError(f"{out} contains a tokenizer already: choose another folder, or pass --overwrite")
    extra = special or ()
    trained = train_tokenizer(
        files, template=template, vocab_size=vocab_size, kind=kind, lowercase=lowercase, extra=extra, max_len=max_len
    )
    trained.save(out)
    if as_json:
        result = {"folder": str(out), "kind": kind or TEMPLATES[template].kind, "template": template}
        result |= {"vocab_size": trained.vocab_size, "specials": trained.specials, "fingerprint": trained.fingerprint()}
        typer.echo(json.dumps(result))
    else:
        show(Console(highlight=False), trained, out, time.perf_counter() - begin)


def show(console: Console, trained: Tokenizer, out: Path, seconds: float) -> None:
    from rich.markup import escape

    roles = "  ".join(f"[dim]{role}[/dim] {escape(token)}" for role, token in trained.specials.items())
    size = f"[green]{trained.vocab_size:,} tokens[/green]"
    console.print(f"{size} in {escape(str(out))}, trained in {seconds:.1f} s", soft_wrap=True)
    console.print(roles, soft_wrap=True)
