"""`clearhead prove`: kill a run at random points and verify that it resumes bit for bit."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated

import typer

from clearhead.cli.command import report_errors
from clearhead.cli.options import JsonOption, RecipeArgument, SetOption

if TYPE_CHECKING:
    from clearhead.train.verify_resume import InjectedKill


@report_errors
def prove(
    recipe: RecipeArgument,
    kills: Annotated[int, typer.Option(help="Number of times the run is killed, with SIGKILL.")] = 6,
    steps: Annotated[int, typer.Option(help="Steps of the run; a checkpoint is saved every eighth of them.")] = 40,
    seed: Annotated[int, typer.Option(help="Random seed of the kill times.")] = 1,
    change: SetOption = None,
    as_json: JsonOption = False,
) -> None:
    """Verify that a killed training run resumes bit for bit.

    The recipe is trained for a few steps without interruption, then again while it is killed at random points: at
    startup, during training, while a checkpoint is saved. Weights, optimizer state, sample order, losses and the final
    model of both runs are compared. The exit code is 1 at the first difference.

    Example: clearhead prove recipe.yaml --kills 10
    """
    from rich.console import Console
    from rich.table import Table

    from clearhead.train import read_recipe
    from clearhead.train.verify_resume import prove as run
    from clearhead.train.verify_resume import shortened

    settings = shortened(read_recipe(recipe, change or []), steps)
    console = Console(stderr=True)

    def on_progress(event: InjectedKill | str) -> None:
        if isinstance(event, str):
            console.print(event, highlight=False)
        else:
            console.print(f"killed while {event.moment}, after step {event.step}; resumes from step {event.resumed}")

    with TemporaryDirectory() as folder:
        proof = run(settings, recipe.parent, Path(folder), kills=kills, seed=seed, on_progress=on_progress)
    if as_json:
        typer.echo(json.dumps({**asdict(proof), "holds": proof.holds}))
    else:
        table = Table(title=f"{len(proof.kills)} kills, {steps} steps", title_justify="left")
        for name in ("compared", "count", "bit-identical"):
            table.add_column(name, justify="right" if name == "count" else "left")
        for check in proof.checks:
            verdict = "yes" if check.difference is None else f"NO: {check.difference}"
            table.add_row(check.what, f"{check.count:,}", verdict)
        Console().print(table)
    raise typer.Exit(0 if proof.holds else 1)
