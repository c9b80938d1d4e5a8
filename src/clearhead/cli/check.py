"""`clearhead check`: check the data of a recipe and estimate the training time."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from clearhead.cli.command import report_errors
from clearhead.cli.options import JsonOption, RecipeArgument, SetOption

if TYPE_CHECKING:
    from rich.console import Console

    from clearhead.train.data_check import DataCheck

MAX_LABELS = 20  # shown
BAR_WIDTH = 24


@report_errors
def check(
    recipe: RecipeArgument,
    change: SetOption = None,
    time: Annotated[bool, typer.Option(help="Measure a few steps to estimate the training time.")] = True,
    as_json: JsonOption = False,
) -> None:
    """Check labeled data before training: labels, lengths, leaks.

    Reports label counts, token lengths, unreadable rows, duplicates, contradicting labels and rows that leak from one
    split into another; of images also those that look alike, and labels that look wrong. Rows are named by file and
    line; their text is not shown. Nothing is written.

    Example: clearhead check recipe.yaml
    """
    from rich.console import Console

    from clearhead.train.data_check import check_data, supported
    from clearhead.train.recipe import read_recipe

    settings = read_recipe(recipe, change or [])
    if not supported(settings.task):
        raise ValueError(
            f"task {settings.task!r} has no labels to check: run `clearhead train`, which reports the rows it skips"
        )
    result = check_data(settings, recipe.parent, timed=time)
    if as_json:
        typer.echo(json.dumps(asdict(result), ensure_ascii=False))
    else:
        show(Console(highlight=False), result)


def show(console: Console, result: DataCheck) -> None:
    from rich.table import Table

    from clearhead.train.tracking import duration

    table = Table(box=None, pad_edge=False)
    columns = ("tokens: median", "p95", "max", f"longer than {result.max_len}") if result.max_len is not None else ()
    for name in ("split", "rows", *columns):
        table.add_column(name, justify="left" if name == "split" else "right")
    for part in result.parts:
        lengths = ("", "", "", "") if part.tokens is None else tuple(f"{n:,}" for n in (*part.tokens, part.over))
        table.add_row(part.name, f"{part.rows:,}", *(lengths if columns else ()))
    console.print(table)
    labels = dict(result.parts[0].labels)
    if labels:
        console.print()
        table = Table(box=None, pad_edge=False)
        table.add_column("label")
        for part in result.parts:
            table.add_column(part.name, justify="right")
        table.add_column("")
        maximum = max(labels.values())
        for label in list(labels)[:MAX_LABELS]:
            bar = "█" * max(1, round(BAR_WIDTH * labels[label] / maximum))
            counts = (f"{dict(part.labels).get(label, 0):,}" for part in result.parts)
            table.add_row(label, *counts, f"[blue]{bar}[/blue]")
        console.print(table)
        if len(labels) > MAX_LABELS:
            console.print(f"and {len(labels) - MAX_LABELS:,} more labels")
    console.print()
    for finding in result.findings:
        console.print(f"[yellow]![/yellow] {finding.what}: {finding.count:,}")
        for place in finding.places:
            console.print(f"    {place}", markup=False)
    if not result.findings:
        console.print("[green]✓[/green] no unreadable rows, duplicates, contradicting labels or leaks")
    if result.seconds is not None:
        console.print(f"\n{result.steps:,} steps: about {duration(result.seconds)} on this machine, without evaluation")
