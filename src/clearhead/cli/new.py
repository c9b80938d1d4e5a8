"""`clearhead new`: a commented recipe for your own files."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from clearhead.cli.faults import told
from clearhead.tasks import TASKS


@told
def new(
    task: Annotated[str, typer.Argument(help=f"{', '.join(TASKS)}.")],
    data: Annotated[
        list[Path], typer.Option(help="The training text: a file a column (source, then target), or one table.")
    ],
    more: Annotated[list[Path] | None, typer.Argument(help="Further files of --data.", show_default=False)] = None,
    start: Annotated[str | None, typer.Option(help="A model folder to begin with.", show_default=False)] = None,
    out: Annotated[Path, typer.Option(help="The recipe to write.")] = Path("recipe.yaml"),
) -> None:
    """Write a recipe for your data, with sizes that fit it and a word on every choice.

    Example: clearhead new classify --data reviews.csv
    """
    from clearhead.train.draft import draft
    from clearhead.train.tuned import TITLES

    if out.exists():
        raise ValueError(f"{out} is there already: give another name with --out")
    text = draft(task, [*data, *(more or [])], out, start)
    out.write_text(text, encoding="utf-8")
    then = "check" if task in TITLES else "train"
    typer.echo(f"{out} written; read it, then: clearhead {then} {out}")
