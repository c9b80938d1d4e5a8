"""`clearhead new`: a commented recipe for your own files."""

from pathlib import Path
from typing import Annotated

import typer

from clearhead.cli.command import report_errors
from clearhead.cli.new_search import new_search
from clearhead.cli.options import TASK_NAMES, ColumnOption


@report_errors
def new(
    task: Annotated[
        str,
        typer.Argument(
            help=f"Task: {', '.join(TASK_NAMES)}; or search: retriever and reader for a folder of documents."
        ),
    ],
    data: Annotated[
        list[Path] | None,
        typer.Option(
            help="Training data: one table, one text file per column (source, then target; repeatable), or a folder or "
            "tar file of images in folders named by their label.",
            show_default=False,
        ),
    ] = None,
    more: Annotated[list[Path] | None, typer.Argument(help="More files for --data.", show_default=False)] = None,
    base_model: Annotated[
        str | None, typer.Option(help="Model folder to fine-tune. Default: chosen by the task.", show_default=False)
    ] = None,
    docs: Annotated[Path | None, typer.Option(help="search: folder or file of documents.", show_default=False)] = None,
    questions: Annotated[
        Path | None,
        typer.Option(help="search: questions with their answers, a table or SQuAD JSON.", show_default=False),
    ] = None,
    generator: Annotated[
        str | None,
        typer.Option(help="search: without questions, a model that writes some about passages.", show_default=False),
    ] = None,
    column: ColumnOption = None,
    out: Annotated[
        Path | None,
        typer.Option(help="Recipe file to write; search: folder. Default: recipe.yaml, search.", show_default=False),
    ] = None,
) -> None:
    """Write a commented recipe for your data.

    Columns are detected, sizes fit the data, and every setting has a comment. `clearhead new search` writes a folder:
    rows mined from the documents, a recipe for the retriever, with questions one for the reader, and the commands.

    Example: clearhead new classify --data reviews.csv
    Example: clearhead new classify --data photos/
    Example: clearhead new search --docs manual/ --questions asked.csv
    """
    from clearhead.cli.task_rows import parse_columns
    from clearhead.train.recipe_finetune import TITLES
    from clearhead.train.recipe_scratch import scratch_recipe

    out = out or Path("search" if task == "search" else "recipe.yaml")
    if out.exists():
        raise ValueError(f"{out} exists already: choose another name with --out")
    if task == "search":
        if docs is None:
            raise ValueError("new search needs documents: give a folder or file with --docs")
        if questions is not None and generator is not None:
            raise ValueError("--generator writes questions where there are none: leave it out, or --questions")
        new_search(docs, questions, out, parse_columns(column), base_model, generator)
        return
    if not data:
        raise ValueError("a recipe needs training data: give a file with --data")
    if docs or questions or column or generator:
        raise ValueError("--docs, --questions, --generator and --column belong to `clearhead new search`: remove them")
    text = scratch_recipe(task, [*data, *(more or [])], out, base_model)
    out.write_text(text, encoding="utf-8")
    next_command = "check" if task in TITLES else "train"
    typer.echo(f"{out} written; read it, then run: clearhead {next_command} {out}")
