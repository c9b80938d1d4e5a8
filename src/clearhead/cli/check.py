"""`clearhead check`: what is in the data of a recipe, and how long training will take."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from clearhead.cli.faults import told

MOST = 20  # labels that are shown


@told
def check(
    recipe: Annotated[Path, typer.Argument(help="The recipe, a YAML file; `clearhead new` writes one.")],
    change: Annotated[
        list[str] | None, typer.Option("--set", help="Change a setting: --set data.max_len=64. May be repeated.")
    ] = None,
    time: Annotated[bool, typer.Option(help="Measure a few steps for the time that training will take.")] = True,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Look at labelled data before training: labels, lengths, rows that come twice, contradict each other or leak.

    Nothing is kept. Rows are named by file and line; their text is not shown.

    Example: clearhead check recipe.yaml
    """
    from clearhead.train.recipe import read_recipe
    from clearhead.train.survey import supported, survey
    from clearhead.train.tracking import duration

    settings = read_recipe(recipe, change or [])
    if not supported(settings.task):
        raise ValueError(f"{settings.task} has no labels to check: `clearhead train` tells what it leaves out")
    found = survey(settings, recipe.parent, timed=time)
    if as_json:
        typer.echo(json.dumps(asdict(found), ensure_ascii=False))
        return
    screen = Console(highlight=False)
    table = Table(box=None, pad_edge=False)
    for name in ("part", "rows", "tokens: half", "95 of 100", "longest", f"over {found.max_len}"):
        table.add_column(name, justify="left" if name == "part" else "right")
    for part in found.parts:
        sizes = ("", "", "") if part.tokens is None else tuple(f"{n:,}" for n in part.tokens)
        table.add_row(part.name, f"{part.rows:,}", *sizes, f"{part.over:,}" if part.tokens else "")
    screen.print(table)
    labels = dict(found.parts[0].labels)
    if labels:
        screen.print()
        table = Table(box=None, pad_edge=False)
        table.add_column("label")
        for part in found.parts:
            table.add_column(part.name, justify="right")
        table.add_column("")
        most = max(labels.values())
        for label in list(labels)[:MOST]:
            bar = "█" * max(1, round(24 * labels[label] / most))
            table.add_row(
                label, *(f"{dict(part.labels).get(label, 0):,}" for part in found.parts), f"[blue]{bar}[/blue]"
            )
        screen.print(table)
        if len(labels) > MOST:
            screen.print(f"and {len(labels) - MOST:,} more labels")
    screen.print()
    for finding in found.findings:
        screen.print(f"[yellow]![/yellow] {finding.what}: {finding.count:,}")
        for place in finding.places:
            screen.print(f"    {place}", markup=False)
    if not found.findings:
        screen.print("[green]✓[/green] every row can be read; none comes twice, contradicts another, or leaks")
    if found.seconds is not None:
        screen.print(f"\n{found.steps:,} steps: about {duration(found.seconds)} on this machine, evaluation aside")
