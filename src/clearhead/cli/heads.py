"""`clearhead heads`: what every head of a model looks at, over a corpus, and what is lost without it."""

from __future__ import annotations

import json
import time
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from clearhead.app import load
from clearhead.cli.faults import told
from clearhead.see.heads import FIGURES, Head, Sums, draw_survey, survey, table, texts_of, write_parquet
from clearhead.see.paper import can_draw, save

SHOWN = 12  # heads that the terminal lists


@told
def heads(
    model: Annotated[str, typer.Argument(help="A model folder, or a name on the Hugging Face hub.")],
    file: Annotated[Path, typer.Argument(help='A JSONL file, a "text" a line; any other file: a text a line.')],
    out: Annotated[Path, typer.Option("--out", "-o", help="The table, as Parquet.")] = Path("heads.parquet"),
    effects: Annotated[
        int, typer.Option(min=0, help="Documents that are also read without each head in turn; 0: none.")
    ] = 64,
    as_json: Annotated[bool, typer.Option("--json", help="Write the table as JSON, too.")] = False,
) -> None:
    """Survey the heads of an encoder or a language model over any number of documents.

    For each head: entropy, distance, the share of attention on the first token, on the one before, the one after, on
    itself and on special tokens, averaged over all words; and what its absence adds to the loss (of an encoder: 1 -
    cosine of the text's vector). A run that is stopped goes on where it was.

    Example: clearhead heads minilm articles.jsonl --out heads.parquet
    """
    if not file.is_file():
        raise ValueError(f"there is no file {file}")
    screen = Console(stderr=True, highlight=False)
    app = load(model)
    state = out.with_name(out.name + ".state")
    with file.open(encoding="utf-8") as lines_of_file:
        total = sum(1 for line in lines_of_file if line.strip())
    begin = time.perf_counter()
    columns = TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn()
    with Progress(*columns, console=screen, transient=True, disable=not screen.is_terminal) as progress:
        task = progress.add_task("reading", total=total)

        def show(sums: Sums) -> None:
            rate = sums.tokens / (time.perf_counter() - begin)
            text = f"{sums.documents:,} documents, {rate:,.0f} tokens/s"
            progress.update(task, completed=sums.documents, description=text)

        names, sums = survey(app.opened, texts_of(file), state, effects=effects, told=show)
    lines = table(names, sums)
    write_parquet(lines, out)
    state.unlink(missing_ok=True)
    written = [str(out)]
    if can_draw():
        title = f"{app.opened.architecture}: {sums.documents:,} documents, {sums.queries:,} words"
        written += [str(path) for path in save(draw_survey(lines, title), out.with_suffix(""))]
    if as_json:
        facts = {"documents": sums.documents, "words": sums.queries, "files": written}
        typer.echo(json.dumps({**facts, "heads": [asdict(line) for line in lines]}))
        return
    Console(highlight=False).print(_table(lines))
    screen.print(f"{sums.documents:,} documents, {sums.queries:,} words: {', '.join(written)}")


def _table(lines: list[Head]) -> Table:
    """The heads that matter most, or where that was not measured, the most decided."""
    measured = lines[0].effect is not None
    order = sorted(lines, key=lambda h: -h.effect if h.effect is not None else h.entropy)
    title = f"the {min(SHOWN, len(order))} heads {'that matter most' if measured else 'with the least entropy'}"
    shown = Table(title=title, title_justify="left")
    for name in ("layer", "head", *FIGURES, *(["effect"] if measured else [])):
        shown.add_column(name, justify="left" if name == "layer" else "right")
    for line in order[:SHOWN]:
        figures = [f"{getattr(line, name):.2f}" for name in FIGURES]
        effect = [f"{line.effect:.4f}"] if line.effect is not None else []
        shown.add_row(line.layer, str(line.head), *figures, *effect)
    return shown
