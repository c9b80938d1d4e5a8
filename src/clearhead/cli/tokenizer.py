"""`clearhead tokenizer`: a tokenizer from text files."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape

from clearhead.text import KINDS, TEMPLATES, Tokenizer, train_tokenizer


def tokenizer(
    files: Annotated[list[Path], typer.Argument(help="Text files, one text a line: plain, .gz or .xz, in UTF-8.")],
    template: Annotated[str, typer.Option(help=f"The family it is for: {', '.join(TEMPLATES)}.")],
    vocab_size: Annotated[int, typer.Option(help="How many tokens, special ones included.")],
    out: Annotated[Path, typer.Option(help="The folder to write.")],
    kind: Annotated[str | None, typer.Option(help=f"{', '.join(KINDS)}; by default the family's own.")] = None,
    lowercase: Annotated[bool, typer.Option("--lowercase", help="Make no difference between A and a.")] = False,
    special: Annotated[list[str] | None, typer.Option(help="A further special token; may be repeated.")] = None,
    max_len: Annotated[int | None, typer.Option(help="The longest sequence its model will take.")] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the tokenizer in OUT.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of the summary.")] = False,
) -> None:
    """Learn a tokenizer from text files and write it as clearhead and transformers open it.

    The same files give the same tokenizer. Files are streamed; WordPiece reads them twice.

    Example: clearhead tokenizer corpus.txt.gz --template gpt2 --vocab-size 8000 --out my-tokenizer
    """
    begun = time.perf_counter()
    try:
        if (out / "tokenizer.json").exists() and not overwrite:
            raise ValueError(f"{out} has a tokenizer already: choose another folder, or say --overwrite")
        made = train_tokenizer(
            files,
            template=template,
            vocab_size=vocab_size,
            kind=kind,
            lowercase=lowercase,
            extra=special or (),
            max_len=max_len,
        )
        made.save(out)
    except (ValueError, OSError) as error:
        typer.echo(f"clearhead tokenizer: {error}", err=True)
        raise typer.Exit(2) from error
    if as_json:
        facts = {"folder": str(out), "kind": kind or TEMPLATES[template].kind, "template": template}
        facts |= {"vocab_size": made.vocab_size, "specials": made.specials, "fingerprint": made.fingerprint()}
        typer.echo(json.dumps(facts))
    else:
        show(Console(highlight=False), made, out, time.perf_counter() - begun)


def show(console: Console, made: Tokenizer, out: Path, seconds: float) -> None:
    """Print what was made, for a person."""
    roles = "  ".join(f"[dim]{role}[/dim] {escape(token)}" for role, token in made.specials.items())
    console.print(
        f"[green]{made.vocab_size:,} tokens[/green] in {escape(str(out))}, learnt in {seconds:.1f} s", soft_wrap=True
    )
    console.print(roles, soft_wrap=True)
