"""`clearhead predict`: predictions of a trained model, in the order of the input."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from clearhead.cli.command import LineBatches, ignore_broken_pipe, report_errors
from clearhead.cli.options import ColumnOption, DeviceOption, DtypeOption, TaskModelArgument

if TYPE_CHECKING:
    from clearhead.tasks import Classification, QaResult, TagResult

BATCH_ROWS = 256  # predicted before they are written


@report_errors
@ignore_broken_pipe
def predict(
    model: TaskModelArgument,
    file: Annotated[
        Path, typer.Argument(help="Table (.csv, .tsv, .jsonl, .parquet) or text file, one text per line; - is stdin.")
    ] = Path("-"),
    question: Annotated[
        str | None, typer.Option(help="Question answering: the question; the content of FILE is the context.")
    ] = None,
    column: ColumnOption = None,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Output file. Default: standard output.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object per line, with all scores.")] = False,
    dtype: DtypeOption = "auto",
    device: DeviceOption = "cpu",
) -> None:
    """Run a trained classifier, tagger or question answerer.

    Prints one line per input: a label, several labels or a number; the tag of each word; or the answer and its position
    in the context. Texts longer than the model's limit are split into windows. Table rows that cannot be read are
    skipped and reported at the end.

    Example: clearhead predict runs/recipe/model new.csv --json
    """
    from clearhead.cli.task_rows import parse_columns, rows_for
    from clearhead.pipeline import load
    from clearhead.tasks.registry import task_of

    pipeline = load(model, dtype=dtype, device=device)
    task: Any = task_of(pipeline.loaded)
    rows = None
    if question is not None:
        text = sys.stdin.read() if str(file) == "-" else file.read_text(encoding="utf-8")
        batches: Iterator[list[dict[str, Any]]] = iter([[{"question": question, "context": text}]])
    elif file.suffix.lower() in (".txt", "") and task.spec.name in ("classify", "tag"):
        name = "text" if task.spec.name == "classify" else "words"
        lines = LineBatches(None if str(file) == "-" else file, BATCH_ROWS)
        batches = ([{name: line} for line in batch] for batch in lines)
    else:
        rows = rows_for(task, pipeline.loaded, file, parse_columns(column), labeled=False)
        batches = _batched(iter(row.values for row in rows))
    partial = None if out is None else out.with_name(out.name + ".partial")
    with ExitStack() as stack:
        target = sys.stdout if partial is None else stack.enter_context(partial.open("w", encoding="utf-8"))
        for batch in batches:
            for answer in task.answer(pipeline.loaded, [task.input_from(row) for row in batch]):
                target.write((json.dumps(asdict(answer), ensure_ascii=False) if as_json else _line(answer)) + "\n")
            target.flush()
    if partial is not None and out is not None:
        partial.replace(out)
    if rows is not None and (report := rows.report()):
        typer.echo(report, err=True)


def _batched(values: Iterator[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    while batch := list(islice(values, BATCH_ROWS)):
        yield batch


def _line(answer: Classification | TagResult | QaResult) -> str:
    from clearhead.tasks import QaResult, TagResult

    if isinstance(answer, QaResult):
        best = answer.best
        if best is None:
            return ""
        return f"{' '.join(best.text.split())}\t{best.start}\t{best.end}\t{best.probability:.4f}"
    if isinstance(answer, TagResult):
        return " ".join(f"{word}/{tag}" for word, tag in zip(answer.words, answer.tags, strict=True))
    if isinstance(answer.answer, float):
        return f"{answer.answer:.6g}"
    if isinstance(answer.answer, tuple):
        return "|".join(answer.answer)
    return f"{answer.answer}\t{answer.scores[str(answer.answer)]:.4f}"
