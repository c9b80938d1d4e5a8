"""`clearhead plan`: what a run on many processors takes, before it is started."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from clearhead.cli.command import report_errors
from clearhead.cli.options import RecipeArgument, SetOption


@report_errors
def plan(
    recipe: RecipeArgument,
    ranks: Annotated[int, typer.Option(help="Number of processes, one for each processor.")] = 1,
    gpu: Annotated[str, typer.Option(help="a100-80, h100 or cpu (this machine, measured now).")] = "a100-80",
    efficiency: Annotated[float, typer.Option(help="Fraction of the roofline that the run will reach.")] = 0.5,
    price: Annotated[float | None, typer.Option(help="Price of a processor for an hour, in any currency.")] = None,
    change: SetOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the plan as one JSON object.")] = False,
) -> None:
    """Plan a run on many processors: memory, communication, time and cost.

    No data is read and no number is computed: the model of the recipe is sharded over processes that are not there, and
    one step is run on tensors without values. The exit code is 1 if the run does not fit.

    Example: clearhead plan recipe.yaml --ranks 1024 --gpu h100 --price 2.5
    """
    from clearhead.plan import find_hardware, make_plan, plan_lines
    from clearhead.train import read_recipe

    settings = read_recipe(recipe, change or [])
    result = make_plan(settings, recipe.parent, ranks, find_hardware(gpu), efficiency=efficiency, price=price)
    if as_json:
        typer.echo(json.dumps(result.to_dict()))
    else:
        typer.echo("\n".join(plan_lines(result)))
    raise typer.Exit(0 if result.fits else 1)
