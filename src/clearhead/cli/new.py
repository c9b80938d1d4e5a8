"""`clearhead new`: a commented recipe for your own files."""

from pathlib import Path
from typing import Annotated

import typer

from clearhead.cli.command import report_errors
from clearhead.cli.options import TASK_NAMES


@report_errors
def new(
    task: Annotated[str, typer.Argument(help=f"Task: {', '.join(TASK_NAMES)}.")],
    data: Annotated[
        list[Path],
        typer.Option(help="Training data: one table, or one text file per column (source, then target). Repeatable."),
    ],
    more: Annotated[list[Path] | None, typer.Argument(help="More files for --data.", show_default=False)] = None,
    base_model: Annotated[
        str | None, typer.Option(help="Model folder to fine-tune. Default: chosen by the task.", show_default=False)
    ] = None,
    out: Annotated[Path, typer.Option(help="Recipe file to write.")] = Path("recipe.yaml"),
) -> None:
    """Write a commented recipe for your data.

    Columns are detected, sizes fit the data, and every setting has a comment.

    Example: clearhead new classify --data reviews.csv
    """
    from clearhead.train.recipe_finetune import TITLES
    from clearhead.train.recipe_scratch import scratch_recipe

    if out.exists():
        raise ValueError(f"{out} exists already: choose another file with --out")
    text = scratch_recipe(task, [*data, *(more or [])], out, base_model)
    out.write_text(text, encoding="utf-8")
    next_command = "check" if task in TITLES else "train"
    typer.echo(f"{out} written; read it, then run: clearhead {next_command} {out}")
