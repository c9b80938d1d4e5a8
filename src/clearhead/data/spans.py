"""Span annotations of doccano, Prodigy, Label Studio and brat, converted to words and IOB2 tags.

A span that begins or ends inside a word cannot be represented by word tags: its text is skipped and reported.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from clearhead.data.lines import check_text, ends_with, read_json_file, text_lines
from clearhead.data.rows import Row, RowError, SkippedRow

WORD = re.compile(r"\w+(?:[-'’]\w+)*|[^\w\s]")  # for text that is not split into words
KEYS = ("spans", "label", "labels", "entities")  # keys under which a record may have its spans

Span = tuple[int, int, str]  # [start, end) in characters, and the label


def divided(text: str) -> list[tuple[int, int]]:
    """Return the character span of each word of a text."""
    return [match.span() for match in WORD.finditer(text)]


def tagged(text: str, spans: list[Span]) -> dict[str, list[str]] | RowError:
    """Return words and their IOB2 tags, or the reason why the spans cannot be converted."""
    words = divided(text)
    starts = {a: i for i, (a, _) in enumerate(words)}
    ends = {b: i for i, (_, b) in enumerate(words)}
    tags = ["O"] * len(words)
    for start, end, label in sorted(spans):
        if not 0 <= start < end <= len(text):
            return RowError(f"the span {start} to {end} ({label}) is outside its text of {len(text)} characters")
        inner = text[start:end]
        a, b = start + len(inner) - len(inner.lstrip()), end - len(inner) + len(inner.rstrip())
        if a not in starts or b not in ends:
            return RowError(f"the span {start} to {end} ({label}) begins or ends inside a word")
        covered = range(starts[a], ends[b] + 1)
        if any(tags[i] != "O" for i in covered):
            return RowError(f"the span {start} to {end} ({label}) overlaps another span")
        for i in covered:
            tags[i] = f"{'B' if i == starts[a] else 'I'}-{label}"
    return {"words": [text[a:b] for a, b in words], "tags": tags}


def span_rows(path: Path) -> Iterator[Row | SkippedRow]:
    """Read a .jsonl file (doccano, Prodigy), a .json file (Label Studio) or a folder of .txt and .ann files (brat)."""
    if path.is_dir():
        records: Iterator[tuple[str, int, tuple[str, list[Span]] | RowError]] = _brat(path)
    elif ends_with(path, ".json"):
        records = _label_studio(path)
    else:
        records = _json_lines(path)
    for file, number, record in records:
        values = record if isinstance(record, RowError) else tagged(*record)
        if isinstance(values, RowError):
            yield SkippedRow(file, number, values.reason)
        elif values["words"]:
            yield Row(values, file, number)
        else:
            yield SkippedRow(file, number, "no words")


def is_span_file(path: Path) -> bool:
    """Return whether a file holds span annotations, judged by its first record."""
    if path.is_dir():
        return any(path.glob("*.ann"))
    try:
        _, _, record = next(_label_studio(path) if ends_with(path, ".json") else _json_lines(path))
    except (StopIteration, ValueError):
        return False
    return not isinstance(record, RowError)


def _json_lines(path: Path) -> Iterator[tuple[str, int, tuple[str, list[Span]] | RowError]]:
    for number, line in enumerate(text_lines(path), 1):
        if isinstance(line, RowError) or not line.strip():
            yield str(path), number, line if isinstance(line, RowError) else RowError("empty line")
            continue
        try:
            record = json.loads(line)
        except (json.JSONDecodeError, RecursionError) as error:
            yield str(path), number, RowError(f"broken JSON ({error})")
            continue
        yield str(path), number, _record(record)


def _record(record: Any) -> tuple[str, list[Span]] | RowError:
    """Return a text and its spans: [start, end, label] as in doccano, {start, end, label} as in Prodigy."""
    if not isinstance(record, dict) or not isinstance(text := record.get("text", record.get("data")), str):
        return RowError("missing 'text'")
    key = next((key for key in KEYS if isinstance(record.get(key), list)), None)
    if key is None:
        return RowError(f"no spans: one of {', '.join(map(repr, KEYS))} must be a list")
    spans: list[Span] = []
    for item in record[key]:
        span: Any = item
        if isinstance(item, dict):
            ends = (item.get(a, item.get(f"{a}_offset")) for a in ("start", "end"))
            span = [*ends, item.get("label")]
        if not (isinstance(span, list) and len(span) == 3 and all(type(x) is int for x in span[:2])):
            return RowError("a span is not [start, end, label]")
        spans.append((span[0], span[1], str(span[2])))
    return check_text(text) or (text, spans)


def _label_studio(path: Path) -> Iterator[tuple[str, int, tuple[str, list[Span]] | RowError]]:
    tasks = read_json_file(path)
    if not isinstance(tasks, list):
        raise ValueError(f"{path} is not a Label Studio export: it must be a list of tasks")
    for number, task in enumerate(tasks, 1):
        yield str(path), number, _task(task)


def _task(task: Any) -> tuple[str, list[Span]] | RowError:
    data = task.get("data") if isinstance(task, dict) else None
    texts = [value for value in data.values() if isinstance(value, str)] if isinstance(data, dict) else []
    if not texts:
        return RowError("a task without text in its 'data'")
    text = data["text"] if isinstance(data, dict) and isinstance(data.get("text"), str) else max(texts, key=len)
    spans: list[Span] = []
    done = [a for a in task.get("annotations") or [] if isinstance(a, dict) and not a.get("was_cancelled")]
    for result in done[0].get("result") or [] if done else []:
        value = result.get("value") if isinstance(result, dict) else None
        if isinstance(value, dict) and isinstance(value.get("labels"), list) and value["labels"]:
            spans.append((int(value.get("start", -1)), int(value.get("end", -1)), str(value["labels"][0])))
    return (text, spans) if done else RowError("a task without a finished annotation")


def _brat(folder: Path) -> Iterator[tuple[str, int, tuple[str, list[Span]] | RowError]]:
    for path in sorted(folder.glob("*.txt")):
        annotations = path.with_suffix(".ann")
        if not annotations.exists():
            yield str(path), 1, RowError(f"missing {annotations.name} in the same folder")
            continue
        try:
            text, lines = path.read_bytes().decode("utf-8"), annotations.read_bytes().decode("utf-8").split("\n")
        except UnicodeDecodeError:
            yield str(path), 1, RowError("not UTF-8")
            continue
        spans: list[Span] | RowError = []
        for number, line in enumerate(lines, 1):
            if line.startswith("T") and isinstance(spans, list):
                parts = line.split("\t")
                match = re.fullmatch(r"(\S+) (\d+) (\d+)", parts[1]) if len(parts) > 2 else None
                if match is None:
                    spans = RowError(f"{annotations.name} line {number}: expected a label and one contiguous span")
                else:
                    spans.append((int(match[2]), int(match[3]), match[1]))
        yield str(path), 1, spans if isinstance(spans, RowError) else (text, spans)
