"""`clearhead calibrate`: fits an index to questions with known answers."""

import json
from pathlib import Path
from typing import Annotated

import typer

from clearhead.cli.command import report_errors
from clearhead.cli.options import ColumnOption, JsonOption


@report_errors
def calibrate(
    index: Annotated[str, typer.Argument(help="Index made by `clearhead index`.")],
    file: Annotated[Path, typer.Argument(help="Questions with their answers: a table or SQuAD JSON.")],
    column: ColumnOption = None,
    reader: Annotated[str | None, typer.Option(help="Another reader than that of the index.")] = None,
    precision: Annotated[
        float | None,
        typer.Option(
            min=0.0, max=1.0, help="Give an answer only if this share of such answers is right. Default: p >= 0.5."
        ),
    ] = None,
    max_queries: Annotated[int | None, typer.Option(min=1, help="Use a sample of so many questions.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Fit an index to questions with known answers, and keep the result with it.

    Fitted are the weights of vectors against words, of the relevance of a passage and of its rank in the search, and
    the probability that an answer is right. Rows without an answer are questions that the documents do not answer.
    Measure with other questions: `clearhead eval`.

    Example: clearhead calibrate my-index questions.csv --precision 0.9
    """
    from rich.console import Console
    from rich.table import Table

    from clearhead.cli.progress import show_progress
    from clearhead.cli.task_rows import parse_columns, question_rows, question_values
    from clearhead.data.split import spread
    from clearhead.search import Answerer, Index
    from clearhead.search.calibrate_index import calibrate_index

    opened = Index.open(index)
    answerer = Answerer.find(opened, reader)
    rows = question_rows(file, parse_columns(column))
    questions = spread([question_values(row.values) for row in rows], max_queries)
    with show_progress() as on_progress:
        fitted = calibrate_index(
            opened, answerer, questions, precision=precision,
            log=lambda what, done: on_progress(what, done, len(questions)),
        )  # fmt: skip
    of_reader = None if answerer is None else fitted.of(answerer.fingerprint)
    if as_json:
        typer.echo(json.dumps(fitted.to_dict()))
        return
    console = Console(highlight=False)
    console.print(f"{fitted.questions:,} questions; weight of the vectors {fitted.vector_weight:g}")
    if of_reader is not None:
        console.print(f"answers are given from a probability of {of_reader.threshold:.2f} on")
        table = Table("answered", "right", "probability from", box=None, pad_edge=False)
        for point in of_reader.curve:
            table.add_row(f"{point.coverage:.0%}", f"{point.precision:.1%}", f"{point.threshold:.2f}")
        console.print(table)
    if report := rows.report():
        console.print(f"\n{report}")
