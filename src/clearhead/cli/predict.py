"""`clearhead predict`: predictions of a trained model, in the order of the input."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from clearhead.cli.command import LineBatches, ignore_broken_pipe, open_output, report_errors
from clearhead.cli.options import ColumnOption, DeviceOption, DtypeOption, TaskModelArgument

if TYPE_CHECKING:
    from clearhead.cli.prediction_output import TaskAnswer


@report_errors
@ignore_broken_pipe
def predict(
    model: TaskModelArgument,
    file: Annotated[
        Path,
        typer.Argument(
            help="Table (.csv, .tsv, .jsonl, .parquet) or text file, one text per line; - is stdin. Of an image "
            "model: an image, or a folder, a tar file or a table of images."
        ),
    ] = Path("-"),
    question: Annotated[
        str | None, typer.Option(help="Question answering: the question; the content of FILE is the context.")
    ] = None,
    column: ColumnOption = None,
    id_column: Annotated[
        str | None, typer.Option("--id", help="Column that identifies a row of a table. Default: id, if there is one.")
    ] = None,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Output file. Default: standard output.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object per line, with all scores.")] = False,
    dtype: DtypeOption = "auto",
    device: DeviceOption = "auto",
) -> None:
    """Run a trained classifier, tagger, question answerer or captioner.

    For a table, the output is a table with a header and one line per row, in order: the row number, the id column, the
    prediction and an error for rows that cannot be read. It is tab-separated, or a CSV with --out FILE.csv. For a text
    file, the output is one line per line. Texts longer than the model's limit are split into windows.

    Example: clearhead predict runs/recipe/model new.csv --out predictions.csv
    """
    from clearhead.cli.prediction_output import BATCH_ROWS, json_writer, table_writer, write_lines, write_rows
    from clearhead.cli.task_rows import columns_in_table, inputs_of, parse_columns, reads_images, rows_for
    from clearhead.data import columns_of
    from clearhead.data.lines import ends_with
    from clearhead.data.readers import TABLES
    from clearhead.pipeline import load
    from clearhead.tasks.registry import task_of

    pipeline = load(model, dtype=dtype, device=device)
    task: Any = task_of(pipeline.loaded)
    if task.spec.name == "embed":
        raise ValueError(f"{model} computes vectors: write them with `clearhead embed {model} {file}`")

    def answers(batch: list[dict[str, Any]]) -> Iterator[TaskAnswer]:
        return iter(task.answer(pipeline.loaded, [task.input_from(values) for values in batch]))

    with open_output(out) as target:
        if question is not None:
            text = sys.stdin.read() if str(file) == "-" else file.read_text(encoding="utf-8")
            write_lines(target, answers([{"question": question, "context": text}]), as_json)
        elif file.suffix.lower() in (".txt", "") and task.spec.name in ("classify", "tag") and not reads_images(task):
            field = "text" if task.spec.name == "classify" else "words"
            for lines in LineBatches(None if str(file) == "-" else file, BATCH_ROWS):
                write_lines(target, answers([{field: line} for line in lines]), as_json)
        else:
            if id_column is None and ends_with(file, *TABLES, ".json") and "id" in columns_of(file):
                id_column = "id"
            rows = rows_for(task, pipeline.loaded, file, parse_columns(column), labeled=False, id_column=id_column)
            if reads_images(task) and not columns_in_table(file):
                id_column = "image"
            delimiter = "," if out is not None and out.suffix.lower() == ".csv" else "\t"
            write = json_writer(target, id_column) if as_json else table_writer(target, task, id_column, delimiter)
            if num_errors := write_rows(target, rows.raw(), inputs_of(task), answers, write):
                was = "row was" if num_errors == 1 else "rows were"
                typer.echo(f"{num_errors:,} {was} not predicted: see `error` in the output", err=True)
