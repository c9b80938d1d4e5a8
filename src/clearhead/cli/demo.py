"""`clearhead demo`: attention against the bottleneck, in three minutes."""

from __future__ import annotations

import json
import shlex
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from clearhead.cli.command import report_errors
from clearhead.cli.options import JsonOption

if TYPE_CHECKING:
    from rich.console import Console

    from clearhead.studies.demo import DemoResult

DEMOS = ("dates",)


@report_errors
def demo(
    name: Annotated[str, typer.Argument(help="Demo to run: dates.")] = "dates",
    out: Annotated[
        Path | None, typer.Option("--out", help="Output folder for models, results and figures. Default: demo-NAME.")
    ] = None,
    seconds: Annotated[
        float, typer.Option(min=1.0, help="Approximate time on two idle cores; sets the number of steps.")
    ] = 150.0,
    seed: Annotated[int, typer.Option(min=0, help="Random seed of the data and the models.")] = 1,
    as_json: JsonOption = False,
) -> None:
    """Train three small translators and compare their attention.

    "the 3rd of May 1998, then 5/4/2001" becomes "1998-05-03 2001-05-04". A recurrent encoder-decoder without attention
    must store all dates of a source in one vector; with attention, or as a Transformer, it reads the source again for
    each token. Models are saved: a second run of the command shows the results at once.

    Example: clearhead demo dates --out lecture
    """
    from rich.console import Console

    from clearhead.cli.progress import show_progress
    from clearhead.studies import demo as dates
    from clearhead.studies.study_results import record, write_record
    from clearhead.tasks import did_you_mean
    from clearhead.viz import save
    from clearhead.viz.style import can_draw

    if name not in DEMOS:
        raise ValueError(f"demo {name!r}: {did_you_mean(name, DEMOS)}")
    folder = out or Path(f"demo-{name}")
    begin = time.perf_counter()
    with show_progress() as on_progress:
        outcome = dates.measure(folder, seconds=seconds, seed=seed, on_progress=on_progress)
    results = record(outcome, command=command_line(), seed=seed, seconds=time.perf_counter() - begin)
    write_record(results, folder / f"{name}.json")
    figures = [p for n, f in dates.draw(outcome).items() for p in save(f, folder / n)] if can_draw() else []
    if as_json:
        typer.echo(json.dumps(results))
        return
    show(Console(highlight=False), outcome)
    if figures:
        typer.echo("figures: " + ", ".join(map(str, figures)))
    else:
        typer.echo("no figures: they need matplotlib, pip install 'clearhead[see]'")


def show(console: Console, outcome: DemoResult) -> None:
    from rich.table import Table

    from clearhead.viz import draw_blocks

    table = Table(box=None, header_style="bold", pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column("model", no_wrap=True)
    lengths = list(outcome.learners[0].by_length)
    for title in ("parameters", "seconds", "accuracy", *(f"n = {n}" for n in lengths)):
        table.add_column(title, justify="right", no_wrap=True)
    for x in outcome.learners:
        accuracies = (x.accuracy, *x.by_length.values())
        table.add_row(x.label, f"{x.parameters:,}", f"{x.seconds:.0f}", *(f"{value:.0%}" for value in accuracies))
    console.print(table)
    console.print(
        f"\naccuracy: exact matches of {outcome.tested} test sources, with days that are not in the training data;"
    )
    console.print("n: the number of dates in the source. An example with n = 3:")
    console.print(f"\n{outcome.example}\n{outcome.right}  (expected)", markup=False)
    for x in outcome.learners:
        console.print(f"{x.answer}  ({x.label})", markup=False)
    for x in outcome.learners:
        if x.alignment is not None:
            console.print(f"\n[bold]{x.label}[/bold]: attention of each output token (rows) to the source (columns)")
            console.print(draw_blocks(x.alignment.weights, x.alignment.written, x.alignment.read))


def command_line() -> str:
    return shlex.join(["clearhead", *sys.argv[1:]])
