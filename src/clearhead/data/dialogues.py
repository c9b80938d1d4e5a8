"""Dialogue reader: a list of turns per JSON line, or a text line with a separator between turns."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from clearhead.data.lines import ends_with, text_lines
from clearhead.data.rows import Row, RowError, SkippedRow


def dialogue_rows(path: Path, key: str) -> Iterator[Row | SkippedRow]:
    """Yield rows whose "turns" are texts in order.

    For JSON lines `key` names the list: of texts, or of objects with "content" (or "text", "value"), as in chat
    formats. For any other file it is the separator between the turns of a line ("__eou__").
    """
    file, is_json = str(path), ends_with(path, ".jsonl")
    for number, line in enumerate(text_lines(path), 1):
        if isinstance(line, RowError):
            yield SkippedRow(file, number, line.reason)
        elif line.strip():
            texts = _json_turns(line, key) if is_json else line.split(key)
            if isinstance(texts, str):
                yield SkippedRow(file, number, texts)
                continue
            turns = [turn.strip() for turn in texts if turn.strip()]
            if len(turns) < 2:
                yield SkippedRow(file, number, f"has {len(turns)} turn: a dialogue needs at least two")
            else:
                yield Row({"turns": turns}, file, number)


def _json_turns(line: str, key: str) -> list[str] | str:
    """Return the turns of a JSON line, or the reason why there are none."""
    try:
        record = json.loads(line)
    except (json.JSONDecodeError, RecursionError):
        return "broken JSON"
    turns = record.get(key) if isinstance(record, dict) else None
    if not isinstance(turns, list):
        return f"missing list {key!r}"
    texts = [_turn_text(turn) for turn in turns]
    return "a turn without text" if None in texts else [text for text in texts if text is not None]


def _turn_text(turn: Any) -> str | None:
    if isinstance(turn, dict):
        turn = next((turn[name] for name in ("content", "text", "value") if name in turn), None)
    return turn if isinstance(turn, str) else None
