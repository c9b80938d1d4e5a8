"""`clearhead heads`: statistics of every attention head over a corpus, and the effect of removing it."""

from __future__ import annotations

import json
import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from clearhead.cli.command import report_errors
from clearhead.cli.options import JsonOption, ModelArgument

if TYPE_CHECKING:
    from rich.table import Table

    from clearhead.analysis.head_statistics import HeadRow, HeadSums

MAX_HEADS = 12  # listed in the terminal
TITLES = {"same": "itself"}  # a head's attention to the token itself


@report_errors
def heads(
    model: ModelArgument,
    file: Annotated[Path, typer.Argument(help='Corpus: JSONL with a "text" field, or a text file, one text per line.')],
    out: Annotated[Path, typer.Option("--out", "-o", help="Output table, as Parquet.")] = Path("heads.parquet"),
    effects: Annotated[int, typer.Option(min=0, help="Documents on which each head is ablated in turn; 0: none.")] = 64,
    as_json: JsonOption = False,
) -> None:
    """Compute statistics of every attention head over a corpus.

    For each head: entropy, mean distance, and the attention to the first, previous and next token, to the token itself
    and to special tokens, averaged over all words; and its effect: the increase of the loss without the head (of an
    encoder: 1 - cosine of the text's vector). An interrupted run resumes where it stopped.

    Example: clearhead heads minilm articles.jsonl --out heads.parquet
    """
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    from clearhead.analysis.corpus_io import read_texts, write_parquet
    from clearhead.analysis.head_statistics import head_rows, head_statistics
    from clearhead.pipeline import load
    from clearhead.viz.head_plots import draw_head_statistics
    from clearhead.viz.style import can_draw, save

    if not file.is_file():
        raise ValueError(f"{file} does not exist or is not a file")
    console = Console(stderr=True, highlight=False)
    loaded = load(model).loaded
    state = out.with_name(out.name + ".state")
    with file.open(encoding="utf-8") as lines:
        total = sum(1 for line in lines if line.strip())
    begin = time.perf_counter()
    columns = TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn()
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task("reading", total=total)

        def show(sums: HeadSums) -> None:
            rate = sums.tokens / (time.perf_counter() - begin)
            text = f"{sums.documents:,} documents, {rate:,.0f} tokens/s"
            progress.update(task, completed=sums.documents, description=text)

        names, sums = head_statistics(loaded, read_texts(file), state, effects=effects, on_progress=show)
    rows = head_rows(names, sums)
    write_parquet(rows, out)
    state.unlink(missing_ok=True)
    written = [str(out)]
    if can_draw():
        title = f"{loaded.architecture}: {sums.documents:,} documents, {sums.queries:,} words"
        written += [str(path) for path in save(draw_head_statistics(rows, title), out.with_suffix(""))]
    if as_json:
        summary = {"documents": sums.documents, "words": sums.queries, "files": written}
        typer.echo(json.dumps({**summary, "heads": [asdict(row) for row in rows]}))
        return
    Console(highlight=False).print(_table(rows))
    console.print(f"{sums.documents:,} documents, {sums.queries:,} words: {', '.join(written)}")


def _table(rows: list[HeadRow]) -> Table:
    """Return a table of the heads with the largest effect or, where that is not measured, the lowest entropy."""
    from rich.table import Table

    from clearhead.analysis.head_statistics import STATISTICS

    measured = rows[0].effect is not None
    order = sorted(rows, key=lambda h: -h.effect if h.effect is not None else h.entropy)
    title = f"the {min(MAX_HEADS, len(order))} heads with the {'largest effect' if measured else 'lowest entropy'}"
    table = Table(title=title, title_justify="left")
    for name in ("layer", "head", *STATISTICS, *(["effect"] if measured else [])):
        table.add_column(TITLES.get(name, name), justify="left" if name == "layer" else "right")
    for row in order[:MAX_HEADS]:
        statistics = [f"{getattr(row, name):.2f}" for name in STATISTICS]
        effect = [f"{row.effect:.4f}"] if row.effect is not None else []
        table.add_row(row.layer, str(row.head), *statistics, *effect)
    return table
