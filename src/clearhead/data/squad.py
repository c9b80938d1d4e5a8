"""SQuAD JSON reader: articles, paragraphs, and questions with answer spans."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from clearhead.data.lines import read_json_file
from clearhead.data.rows import Row, SkippedRow

SQUAD_COLUMNS = ["question", "context", "answers", "id", "title"]


def squad_rows(path: Path) -> Iterator[Row | SkippedRow]:
    """Yield questions in file order; `line` is the number of the question.

    `answers` are {"text", "start"}, empty for unanswerable questions. A start that does not match its text is moved to
    the nearest occurrence; without any occurrence the question is skipped.
    """
    file, number = str(path), 0
    for entry in _entries(path):
        for paragraph in _list(entry, "paragraphs"):
            context = paragraph.get("context") if isinstance(paragraph, dict) else None
            for question in _list(paragraph, "qas"):
                number += 1
                values = _row(question, context, str(entry.get("title", "")) if isinstance(entry, dict) else "")
                yield SkippedRow(file, number, values) if isinstance(values, str) else Row(values, file, number)


def paragraph_rows(name: str, path: Path) -> Iterator[Row | SkippedRow]:
    for number, (_, text) in enumerate(squad_contexts(path), 1):
        yield SkippedRow(str(path), number, "no context") if text is None else Row({name: text}, str(path), number)


def squad_contexts(path: Path) -> Iterator[tuple[str, str | None]]:
    """Yield the title and the text of each paragraph; None where it has no text."""
    for entry in _entries(path):
        for paragraph in _list(entry, "paragraphs"):
            text = paragraph.get("context") if isinstance(paragraph, dict) else None
            title = str(entry.get("title") or "") if isinstance(entry, dict) else ""
            yield title.replace("_", " "), text if isinstance(text, str) and text.strip() else None


def _row(question: Any, context: Any, title: str) -> dict[str, Any] | str:
    """Return the values of a question, or the reason why it cannot be used."""
    if not isinstance(context, str) or not context.strip():
        return "its paragraph has no context"
    if not isinstance(question, dict) or not str(question.get("question") or "").strip():
        return "no question"
    given = question.get("answers") or []
    if question.get("is_impossible"):
        given = []
    elif not given and "is_impossible" not in question:
        return "no answer, and is_impossible is not set"
    answers = answer_spans(context, given)
    if isinstance(answers, str):
        return answers
    text, id = question["question"], str(question.get("id", ""))
    return {"question": text, "context": context, "answers": answers, "id": id, "title": title}


def answer_spans(context: str, given: list[Any]) -> list[dict[str, Any]] | str:
    """Return answers {"text", "answer_start"} as {"text", "start"}, each in its place; or why they cannot be used."""
    answers: list[dict[str, Any]] = []
    for answer in given:
        text = answer.get("text") if isinstance(answer, dict) else None
        if not isinstance(text, str) or not text.strip():
            return "an answer without text"
        start = nearest(context, text, answer.get("answer_start"))
        if start is None:
            return "the answer does not occur in its context"
        answers.append({"text": text, "start": start})
    return answers


def nearest(context: str, text: str, hint: Any = None) -> int | None:
    """Return the occurrence of `text` nearest to `hint`, the first one without a hint, or None."""
    expected = hint if isinstance(hint, int) else 0
    if context.startswith(text, max(expected, 0)):
        return max(expected, 0)
    occurrences: list[int] = []
    at = context.find(text)
    while at >= 0:
        occurrences.append(at)
        at = context.find(text, at + 1)
    return min(occurrences, key=lambda p: abs(p - expected), default=None)


def _entries(path: Path) -> list[Any]:
    content = read_json_file(path)
    if not isinstance(content, dict) or not isinstance(content.get("data"), list):
        raise ValueError(f"{path} is not SQuAD's JSON: its `data` must be a list of articles")
    return content["data"]


def _list(parent: Any, name: str) -> list[Any]:
    value = parent.get(name) if isinstance(parent, dict) else None
    return value if isinstance(value, list) else []
