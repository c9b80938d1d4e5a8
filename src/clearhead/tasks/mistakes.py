"""Mistakes: rows whose answer is not what was due, those first of which the model was surest."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from clearhead.data import Row, Rows
from clearhead.models.store import Opened
from clearhead.tasks.labels import names_of, number_of
from clearhead.tasks.qa import answers_of, overlap
from clearhead.tasks.tag import spaced


@dataclass(frozen=True)
class Mistake:
    """What was due and what was said of a row, how sure the model was, and what it read.

    `at` is the character of the word that is told wrong, where it is a word.
    """

    file: str
    line: int
    due: str
    said: str
    sure: float
    texts: tuple[str, ...]
    at: int | None = None


def mistakes(task: Any, opened: Opened, rows: Rows, most: int) -> list[Mistake]:
    """The `most` mistakes of which the model was surest; of numbers, the farthest off."""
    find = {"tag": _tags, "qa": _answers}.get(task.name, _labels)
    return sorted(find(task, opened, list(rows)), key=lambda mistake: -mistake.sure)[:most]


def _labels(task: Any, opened: Opened, rows: list[Row]) -> Iterator[Mistake]:
    texts = [[row.values[name] for row in rows] for name in task.texts]
    for row, answer in zip(rows, task.answers(opened.model, texts), strict=True):
        due, said = row.values[task.column], answer.answer
        read = tuple(row.values[name] for name in task.texts)
        if isinstance(said, float):
            off = abs(said - number_of(due))
            yield Mistake(row.file, row.line, f"{number_of(due):.6g}", f"{said:.6g}", off, read)
        elif isinstance(said, tuple):
            wrong = set(said) ^ set(names_of(due))
            sure = max((abs(answer.scores.get(name, 0.0) - 0.5) + 0.5 for name in wrong), default=0.0)
            if wrong:
                yield Mistake(row.file, row.line, "|".join(names_of(due)), "|".join(said), sure, read)
        elif said != due:
            yield Mistake(row.file, row.line, str(due), str(said), answer.scores[said], read)


def _tags(task: Any, opened: Opened, rows: list[Row]) -> Iterator[Mistake]:
    for row, answer in zip(rows, task.answers(opened.model, [row.values["words"] for row in rows]), strict=True):
        text, spans = spaced(row.values["words"])
        for i, (due, said) in enumerate(zip(row.values["tags"], answer.tags, strict=True)):
            if due != said:
                word = answer.words[i]
                yield Mistake(
                    row.file, row.line, f"{word}/{due}", f"{word}/{said}", answer.scores[i], (text,), spans[i][0]
                )


def _answers(task: Any, opened: Opened, rows: list[Row]) -> Iterator[Mistake]:
    asked = [[row.values[name] for row in rows] for name in ("question", "context")]
    for row, answer in zip(rows, task.answers(opened.model, *asked), strict=True):
        golds = [row.values["context"][a:b] for a, b in answers_of(row) or []]
        if max(overlap(answer.text, gold) for gold in golds or [""]) < 0.5:
            sure = answer.none_share if answer.best is None else answer.best.share
            read = (row.values["question"], row.values["context"])
            yield Mistake(row.file, row.line, golds[0] if golds else "(none)", answer.text or "(none)", sure, read)
