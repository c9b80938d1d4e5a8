"""`clearhead eval`: how good a trained model is on labelled data, and how sure that is."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from clearhead.app import load
from clearhead.cli.answers import columns_named, rows_for
from clearhead.cli.faults import told
from clearhead.tasks.answering import task_of


@told
def eval(
    model: Annotated[str, typer.Argument(help="A folder of a trained classifier, tagger or reader.")],
    file: Annotated[Path, typer.Argument(help="Labelled rows, in any format that it could be trained on.")],
    column: Annotated[
        list[str] | None, typer.Option(help="Which column is which: --column text=review. May be repeated.")
    ] = None,
    plot: Annotated[
        Path | None,
        typer.Option(help="Draw which label is taken for which, how well each is told, and how far scores hold."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    dtype: Annotated[
        str, typer.Option(help="float32, bfloat16, or auto: bfloat16 where this machine computes in it.")
    ] = "auto",
    device: Annotated[str, typer.Option(help="cpu, cuda, cuda:1, mps.")] = "cpu",
) -> None:
    """Measure a model: its metrics with the range they lie in for 95 of 100 samples of the rows, and a line a label.

    Example: clearhead eval runs/recipe/model test.csv
    """
    app = load(model, dtype=dtype, device=device)
    task = task_of(app.opened)
    rows = rows_for(task, app.opened, file, columns_named(column), labelled=True)
    judged = task.judged(app.opened, rows)
    if not judged.count:
        raise ValueError(f"{file} has no row to measure. {rows.report()}".strip())
    scores, ranges = judged.scores(), judged.intervals()
    if plot is not None:
        from clearhead.see.judged import drawings
        from clearhead.see.paper import save

        plot.mkdir(parents=True, exist_ok=True)
        for name, figure in drawings(judged, f"{file.name}: {judged.count:,} rows"):
            for path in save(figure, plot / name):
                typer.echo(path, err=True)
    if as_json:
        told_of = {"rows": judged.count, **scores, "intervals": ranges, "labels": [asdict(x) for x in judged.labels]}
        typer.echo(json.dumps(told_of, ensure_ascii=False))
        return
    screen = Console(highlight=False)
    table = Table(box=None, pad_edge=False)
    for name, side in ((f"{judged.count:,} rows", "left"), ("", "right"), ("95 of 100 samples", "left")):
        table.add_column(name, justify=side)  # type: ignore[arg-type]
    for name, value in scores.items():
        low, high = ranges[name]
        table.add_row(name, f"{value:.2f}", f"{low:.2f} to {high:.2f}")
    screen.print(table)
    if judged.labels:
        table = Table(box=None, pad_edge=False)
        table.add_column("label")
        for name in ("rows", "precision", "recall", "F1"):
            table.add_column(name, justify="right")
        for one in judged.labels:
            table.add_row(one.name, f"{one.count:,}", *(f"{x:.1f}" for x in (one.precision, one.recall, one.f1)))
        screen.print()
        screen.print(table)
    if said := rows.report():
        screen.print(f"\n{said}")
