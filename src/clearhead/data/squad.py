"""SQuAD's JSON: articles, their paragraphs, and questions with the answers that stand in them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from clearhead.data.lines import read_json_file
from clearhead.data.rows import Bad, Row

NAMES = ["question", "context", "answers", "id"]


def squad_rows(path: Path) -> Iterator[Row | Bad]:
    """Questions in the order of the file; `line` is the number of the question.

    `answers` are {"text", "start"}, none where the file says that it cannot be answered. A start that does not fit its
    text is moved to the nearest place where the text stands; where it stands nowhere, the question is left out.
    """
    file, number = str(path), 0
    for entry in _entries(path):
        for paragraph in _list(entry, "paragraphs"):
            context = paragraph.get("context") if isinstance(paragraph, dict) else None
            for asked in _list(paragraph, "qas"):
                number += 1
                found = _row(asked, context)
                yield Bad(file, number, found) if isinstance(found, str) else Row(found, file, number)


def paragraph_rows(name: str, path: Path) -> Iterator[Row | Bad]:
    """The paragraphs themselves, each once, in the order of the file."""
    number = 0
    for entry in _entries(path):
        for paragraph in _list(entry, "paragraphs"):
            number += 1
            text = paragraph.get("context") if isinstance(paragraph, dict) else None
            if isinstance(text, str) and text.strip():
                yield Row({name: text}, str(path), number)
            else:
                yield Bad(str(path), number, "no context")


def _row(asked: Any, context: Any) -> dict[str, Any] | str:
    """A question's values, or why it cannot be used."""
    if not isinstance(context, str) or not context.strip():
        return "its paragraph has no context"
    if not isinstance(asked, dict) or not str(asked.get("question") or "").strip():
        return "no question"
    given = asked.get("answers") or []
    if asked.get("is_impossible"):
        given = []
    elif not given and "is_impossible" not in asked:
        return "no answer, and nothing says that there is none"
    answers: list[dict[str, Any]] = []
    for one in given:
        text = one.get("text") if isinstance(one, dict) else None
        if not isinstance(text, str) or not text.strip():
            return "an answer without text"
        start = nearest(context, text, one.get("answer_start"))
        if start is None:
            return "the answer does not stand in its context"
        answers.append({"text": text, "start": start})
    return {"question": asked["question"], "context": context, "answers": answers, "id": str(asked.get("id", ""))}


def nearest(context: str, text: str, hint: Any = None) -> int | None:
    """Where a text stands: the place nearest to the hint, the first without one; None where it does not stand."""
    where = hint if isinstance(hint, int) else 0
    if context.startswith(text, max(where, 0)):
        return max(where, 0)
    places: list[int] = []
    at = context.find(text)
    while at >= 0:
        places.append(at)
        at = context.find(text, at + 1)
    return min(places, key=lambda p: abs(p - where), default=None)


def _entries(path: Path) -> list[Any]:
    content = read_json_file(path)
    if not isinstance(content, dict) or not isinstance(content.get("data"), list):
        raise ValueError(f"{path} is not SQuAD's JSON: its `data` is due to be a list of articles")
    return content["data"]


def _list(holder: Any, name: str) -> list[Any]:
    found = holder.get(name) if isinstance(holder, dict) else None
    return found if isinstance(found, list) else []
