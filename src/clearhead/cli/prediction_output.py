"""The output of `clearhead predict`: a line per text, or a table with a line per row."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict
from itertools import islice
from typing import Any, TextIO

from clearhead.data import Row, SkippedRow
from clearhead.decode import Caption
from clearhead.tasks import Classification, QaResult, ReaderResult, TagResult

TaskAnswer = Classification | TagResult | QaResult | ReaderResult | Caption
BATCH_ROWS = 256  # predicted before they are written
Predict = Callable[[list[dict[str, Any]]], Iterator[TaskAnswer]]
RowWriter = Callable[[int, Row | SkippedRow, TaskAnswer | None], None]


def write_rows(
    target: TextIO, rows: Iterator[Row | SkippedRow], fields: Sequence[str], predict: Predict, write: RowWriter
) -> int:
    """Predict all rows that have the input fields, batch by batch, and write every row; return the number of others."""
    num_errors, records = 0, enumerate(rows, 1)
    while batch := list(islice(records, BATCH_ROWS)):
        readable = [_is_readable(row, fields) for _, row in batch]
        answers = predict([row.values for (_, row), good in zip(batch, readable, strict=True) if good])
        for (number, row), good in zip(batch, readable, strict=True):
            write(number, row, next(answers) if good else None)
        num_errors += readable.count(False)
        target.flush()
    return num_errors


def _is_readable(row: Row | SkippedRow, fields: Sequence[str]) -> bool:
    """Return whether the row has all input fields; an empty id does not matter."""
    return isinstance(row, Row) or all(str(row.values.get(name, "")).strip() for name in fields)


def write_lines(target: TextIO, answers: Iterable[TaskAnswer], as_json: bool) -> None:
    """Write one line per answer."""
    for answer in answers:
        line = json.dumps(asdict(answer), ensure_ascii=False) if as_json else "\t".join(_values(answer))
        target.write(line + "\n")
    target.flush()


def json_writer(target: TextIO, id_column: str | None) -> RowWriter:
    """Return a function that writes a row as a JSON object."""

    def write(number: int, row: Row | SkippedRow, answer: TaskAnswer | None) -> None:
        result: dict[str, Any] = {"row": number}
        if id_column is not None:
            result["id"] = row.values.get("id")
        if answer is not None:
            result |= asdict(answer)
        elif isinstance(row, SkippedRow):
            result |= {"error": row.reason, "line": row.line}
        target.write(json.dumps(result, ensure_ascii=False) + "\n")

    return write


def table_writer(target: TextIO, task: Any, id_column: str | None, delimiter: str) -> RowWriter:
    """Write the header; return a function that writes a row."""
    columns = _columns(task)
    table = csv.writer(target, delimiter=delimiter, lineterminator="\n")
    table.writerow(["row", *([] if id_column is None else [id_column]), *columns, "error"])

    def write(number: int, row: Row | SkippedRow, answer: TaskAnswer | None) -> None:
        identity = [] if id_column is None else [row.values.get("id", "")]
        values = [""] * len(columns) if answer is None else _values(answer)
        error = f"line {row.line}: {row.reason}" if answer is None and isinstance(row, SkippedRow) else ""
        table.writerow([number, *identity, *values, error])

    return write


def _columns(task: Any) -> tuple[str, ...]:
    """Return the names of `_values`."""
    if task.spec.name == "qa":
        return "answer", "start", "end", "score"
    if task.spec.name == "answer":
        return "answer", "passage", "start", "end", "probability"
    if task.spec.name == "tag":
        return ("tags",)
    if task.spec.name == "rerank":
        return ("relevance",)
    if task.spec.name == "caption":
        return "caption", "score"
    return {"single_label": ("label", "score"), "multi_label": ("labels",), "regression": ("value",)}[task.labels.kind]


def _values(answer: TaskAnswer) -> list[str]:
    """Return an answer as columns: label and score, labels, value, tags, caption and score, or answer and its place."""
    if isinstance(answer, QaResult):
        best = answer.best
        if best is None:
            return [""] * 4
        return [" ".join(best.text.split()), str(best.start), str(best.end), f"{best.probability:.4f}"]
    if isinstance(answer, ReaderResult):
        span = answer.best
        if span is None:
            return [""] * 4 + [f"{answer.probability:.4f}"]
        text = " ".join(span.text.split())
        return [text, str(span.passage), str(span.start), str(span.end), f"{answer.probability:.4f}"]
    if isinstance(answer, TagResult):
        return [" ".join(f"{word}/{tag}" for word, tag in zip(answer.words, answer.tags, strict=True))]
    if isinstance(answer, Caption):
        return [answer.text, f"{answer.score:.4f}"]
    if isinstance(answer.answer, float):
        return [f"{answer.answer:.6g}"]
    if isinstance(answer.answer, tuple):
        return ["|".join(answer.answer)]
    return [str(answer.answer), f"{answer.scores[str(answer.answer)]:.4f}"]
