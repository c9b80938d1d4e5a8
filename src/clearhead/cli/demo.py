"""`clearhead demo`: a lecture in three minutes."""

from __future__ import annotations

import json
import shlex
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Table

from clearhead.cli.faults import told
from clearhead.tasks import unknown

if TYPE_CHECKING:
    from clearhead.studies.demo import Outcome

DEMOS = ("dates",)


@told
def demo(
    name: Annotated[str, typer.Argument(help="The demo: dates.")] = "dates",
    out: Annotated[
        Path | None, typer.Option("--out", help="Where models, results and pictures go; demo-NAME by default.")
    ] = None,
    seconds: Annotated[
        float, typer.Option(min=1.0, help="About how long, on two quiet cores: it sets the number of steps.")
    ] = 150.0,
    seed: Annotated[int, typer.Option(min=0, help="Of data and models.")] = 1,
    as_json: Annotated[bool, typer.Option("--json", help="The results as JSON on stdout.")] = False,
) -> None:
    """Train three tiny translators on the same dates, and see the bottleneck and what attention does about it.

    "the 3rd of May 1998, then 5/4/2001" becomes "1998-05-03 2001-05-04". A recurrent net has to carry all the dates of
    a source in one vector; with attention, or as a Transformer, it looks back. Models are kept: the same command again
    shows the same results at once.

    Example: clearhead demo dates --out lecture
    """
    from clearhead.cli.watch import watched
    from clearhead.see import save
    from clearhead.see.paper import can_draw
    from clearhead.studies import demo as dates
    from clearhead.studies.record import record, write_record

    if name not in DEMOS:
        raise ValueError(f"demo {name!r}: {unknown(name, DEMOS)}")
    folder = out or Path(f"demo-{name}")
    begin = time.perf_counter()
    with watched() as heard:
        outcome = dates.measure(folder, seconds=seconds, seed=seed, heard=heard)
    facts = record(outcome, command=command(), seed=seed, seconds=time.perf_counter() - begin)
    write_record(facts, folder / f"{name}.json")
    pictures = [p for n, f in dates.draw(outcome).items() for p in save(f, folder / n)] if can_draw() else []
    if as_json:
        typer.echo(json.dumps(facts))
        return
    show(Console(highlight=False), outcome)
    if pictures:
        typer.echo("pictures: " + ", ".join(map(str, pictures)))
    else:
        typer.echo("no pictures: they need matplotlib, pip install 'clearhead[see]'")


def show(console: Console, outcome: Outcome) -> None:
    """Print the table and the alignments for a person."""
    from clearhead.see import blocks

    table = Table(box=None, header_style="bold", pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column("model", no_wrap=True)
    lengths = list(outcome.learners[0].by_length)
    for title in ("parameters", "seconds", "right", *(f"of {n}" for n in lengths)):
        table.add_column(title, justify="right", no_wrap=True)
    for x in outcome.learners:
        shares = (x.accuracy, *x.by_length.values())
        table.add_row(x.label, f"{x.parameters:,}", f"{x.seconds:.0f}", *(f"{share:.0%}" for share in shares))
    console.print(table)
    console.print(f"\nright: answers without a fault, of {outcome.tested}, to days that were never trained on;")
    console.print(f"of 1 to {lengths[-1]}: by how many dates there are in a source. One of 3:")
    console.print(f"\n{outcome.example}\n{outcome.right}  (right)", markup=False)
    for x in outcome.learners:
        console.print(f"{x.answer}  ({x.label})", markup=False)
    for x in outcome.learners:
        if x.alignment is not None:
            console.print(f"\n[bold]{x.label}[/bold]: what was read (across) for each token written (down)")
            console.print(blocks(x.alignment.weights, x.alignment.written, x.alignment.read))


def command() -> str:
    """What was typed."""
    return shlex.join(["clearhead", *sys.argv[1:]])
