"""`clearhead prove`: kill a run at random points and show that it resumes to the bit."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from clearhead.cli.faults import told


@told
def prove(
    recipe: Annotated[Path, typer.Argument(help="The recipe that is to be proved.")],
    kills: Annotated[int, typer.Option(help="How often the run is killed, by SIGKILL.")] = 6,
    steps: Annotated[int, typer.Option(help="Steps of the run; checkpoints are written every eighth of them.")] = 40,
    seed: Annotated[int, typer.Option(help="Of the random moments.")] = 1,
    change: Annotated[list[str] | None, typer.Option("--set", help="Change a setting, as in `train`.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="The result as JSON.")] = False,
) -> None:
    """Prove that a run of this recipe, killed anywhere, goes on to the same bits.

    It trains a little once through, then again while it is killed at random points (starting, training, in the
    middle of a save), and compares weights, optimiser, sample order, losses and the final model. The exit code is 1
    at the first difference.

    Example: clearhead prove recipe.yaml --kills 10
    """
    from clearhead.train import read_recipe
    from clearhead.train.prove import Kill, shortened
    from clearhead.train.prove import prove as run

    settings = shortened(read_recipe(recipe, change or []), steps)
    console = Console(stderr=True)

    def heard(event: Kill | str) -> None:
        if isinstance(event, str):
            console.print(event, highlight=False)
        else:
            console.print(f"killed while {event.moment}, after step {event.step}; goes on from step {event.resumed}")

    with TemporaryDirectory() as folder:
        proof = run(settings, recipe.parent, Path(folder), kills=kills, seed=seed, heard=heard)
    if as_json:
        typer.echo(json.dumps({**asdict(proof), "holds": proof.holds}))
    else:
        table = Table(title=f"{len(proof.kills)} kills, {steps} steps", title_justify="left")
        for name in ("compared", "how many", "equal to the bit"):
            table.add_column(name, justify="right" if name == "how many" else "left")
        for check in proof.checks:
            table.add_row(
                check.what, f"{check.count:,}", "yes" if check.difference is None else f"NO: {check.difference}"
            )
        Console().print(table)
    raise typer.Exit(0 if proof.holds else 1)
