"""Error analysis: rows that a model predicts wrongly, most confident errors first."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from clearhead.data import Row, Rows
from clearhead.hub.folder import LoadedModel
from clearhead.tasks.answer_spans import answers_of, overlap
from clearhead.tasks.labels import parse_labels, parse_number
from clearhead.tasks.tag import spaced

MIN_OVERLAP = 0.5  # word F1 from which a predicted answer counts as right


@dataclass(frozen=True)
class PredictionError:
    """A wrong prediction: the expected and the predicted value, the model's confidence and the input texts.

    `at` is the character offset of the mislabelled word in token classification, otherwise None.
    """

    file: str
    line: int
    expected: str
    predicted: str
    confidence: float
    texts: tuple[str, ...]
    offset: int | None = None


def find_errors(task: Any, loaded: LoadedModel, rows: Rows, limit: int) -> list[PredictionError]:
    """Return the `limit` most confident errors; in regression, those with the largest absolute error."""
    find = {"tag": _tag_errors, "qa": _answer_errors}.get(task.spec.name, _label_errors)
    return sorted(find(task, loaded, list(rows)), key=lambda error: -error.confidence)[:limit]


def _label_errors(task: Any, loaded: LoadedModel, rows: list[Row]) -> Iterator[PredictionError]:
    for row, answer in zip(rows, task.answer(loaded, [task.input_from(row.values) for row in rows]), strict=True):
        expected, predicted = row.values[task.column], answer.answer
        texts = tuple(row.values[name] for name in task.texts)
        if isinstance(predicted, float):
            number = parse_number(expected)
            distance = abs(predicted - number)
            yield PredictionError(row.file, row.line, f"{number:.6g}", f"{predicted:.6g}", distance, texts)
        elif isinstance(predicted, tuple):
            labels = parse_labels(expected)
            wrong = set(predicted) ^ set(labels)
            confidence = max((abs(answer.scores.get(name, 0.0) - 0.5) + 0.5 for name in wrong), default=0.0)
            if wrong:
                yield PredictionError(row.file, row.line, "|".join(labels), "|".join(predicted), confidence, texts)
        elif predicted != expected:
            confidence = answer.scores[predicted]
            yield PredictionError(row.file, row.line, str(expected), str(predicted), confidence, texts)


def _tag_errors(task: Any, loaded: LoadedModel, rows: list[Row]) -> Iterator[PredictionError]:
    for row, answer in zip(rows, task.answer(loaded, [task.input_from(row.values) for row in rows]), strict=True):
        text, spans = spaced(row.values["words"])
        for i, (expected, predicted) in enumerate(zip(row.values["tags"], answer.tags, strict=True)):
            if expected != predicted:
                word, confidence, offset = answer.words[i], answer.scores[i], spans[i][0]
                labels = f"{word}/{expected}", f"{word}/{predicted}"
                yield PredictionError(row.file, row.line, *labels, confidence, (text,), offset)


def _answer_errors(task: Any, loaded: LoadedModel, rows: list[Row]) -> Iterator[PredictionError]:
    for row, answer in zip(rows, task.answer(loaded, [task.input_from(row.values) for row in rows]), strict=True):
        references = [row.values["context"][a:b] for a, b in answers_of(row) or []]
        if max(overlap(answer.text, reference) for reference in references or [""]) < MIN_OVERLAP:
            confidence = answer.no_answer_probability if answer.best is None else answer.best.probability
            expected = references[0] if references else "(none)"
            texts = row.values["question"], row.values["context"]
            yield PredictionError(row.file, row.line, expected, answer.text or "(none)", confidence, texts)
