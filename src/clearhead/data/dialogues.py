"""Dialogues: what was said, turn by turn: a list in a line of JSON, or a line of text with a mark between turns."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from clearhead.data.lines import ends_with, text_lines
from clearhead.data.rows import Bad, Fault, Row


def dialogue_rows(path: Path, named: str) -> Iterator[Row | Bad]:
    """Rows whose "turns" are texts in their order.

    Of JSON lines `named` is the key of the list: of texts, or of objects with "content" (or "text", "value"), as chats
    are written. Of any other file it is the mark that parts the turns of a line ("__eou__").
    """
    file, chat = str(path), ends_with(path, ".jsonl")
    for number, line in enumerate(text_lines(path), 1):
        if isinstance(line, Fault):
            yield Bad(file, number, line.reason)
        elif line.strip():
            found = _listed(line, named) if chat else line.split(named)
            if isinstance(found, str):
                yield Bad(file, number, found)
                continue
            turns = [turn.strip() for turn in found if turn.strip()]
            if len(turns) < 2:
                yield Bad(file, number, f"{len(turns)} turn: nobody answers")
            else:
                yield Row({"turns": turns}, file, number)


def _listed(line: str, key: str) -> list[str] | str:
    """The turns of a line of JSON, or why there are none."""
    try:
        record = json.loads(line)
    except (json.JSONDecodeError, RecursionError):
        return "broken JSON"
    turns = record.get(key) if isinstance(record, dict) else None
    if not isinstance(turns, list):
        return f"there is no list {key!r}"
    said = [_said(turn) for turn in turns]
    return "a turn without text" if None in said else [text for text in said if text is not None]


def _said(turn: Any) -> str | None:
    if isinstance(turn, dict):
        turn = next((turn[name] for name in ("content", "text", "value") if name in turn), None)
    return turn if isinstance(turn, str) else None
