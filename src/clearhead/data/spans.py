"""Spans: names marked in running text, as doccano, Prodigy, Label Studio and brat write them, as words and tags.

A span whose ends do not fall between words cannot be told by tags of words: its text is left out, and listed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from clearhead.data.lines import blemish, ends_with, read_json_file, text_lines
from clearhead.data.rows import Bad, Fault, Row

WORD = re.compile(r"\w+(?:[-'’]\w+)*|[^\w\s]")  # of a text that nobody has divided
KEYS = ("spans", "label", "labels", "entities")  # where a record has its spans

Span = tuple[int, int, str]  # [start, end) in characters, and the label


def divided(text: str) -> list[tuple[int, int]]:
    """The characters of each word of a text."""
    return [found.span() for found in WORD.finditer(text)]


def tagged(text: str, spans: list[Span]) -> dict[str, list[str]] | Fault:
    """Words and their IOB2 tags, or why the spans cannot be told so."""
    words = divided(text)
    starts = {a: i for i, (a, _) in enumerate(words)}
    ends = {b: i for i, (_, b) in enumerate(words)}
    tags = ["O"] * len(words)
    for start, end, label in sorted(spans):
        if not 0 <= start < end <= len(text):
            return Fault(f"the span {start} to {end} ({label}) is not inside its text of {len(text)} characters")
        inner = text[start:end]
        a, b = start + len(inner) - len(inner.lstrip()), end - len(inner) + len(inner.rstrip())
        if a not in starts or b not in ends:
            return Fault(f"the span {start} to {end} ({label}) begins or ends inside a word")
        covered = range(starts[a], ends[b] + 1)
        if any(tags[i] != "O" for i in covered):
            return Fault(f"the span {start} to {end} ({label}) meets another")
        for i in covered:
            tags[i] = f"{'B' if i == starts[a] else 'I'}-{label}"
    return {"words": [text[a:b] for a, b in words], "tags": tags}


def span_rows(path: Path) -> Iterator[Row | Bad]:
    """The texts of a .jsonl file (doccano, Prodigy), a .json file (Label Studio), a folder of .txt and .ann (brat)."""
    if path.is_dir():
        found: Iterator[tuple[str, int, tuple[str, list[Span]] | Fault]] = _brat(path)
    elif ends_with(path, ".json"):
        found = _studio(path)
    else:
        found = _lines(path)
    for file, number, record in found:
        values = record if isinstance(record, Fault) else tagged(*record)
        if isinstance(values, Fault):
            yield Bad(file, number, values.reason)
        elif values["words"]:
            yield Row(values, file, number)
        else:
            yield Bad(file, number, "no word in it")


def is_span_file(path: Path) -> bool:
    """Does a file hold marked texts, by what its first record looks like?"""
    if path.is_dir():
        return any(path.glob("*.ann"))
    try:
        _, _, record = next(_studio(path) if ends_with(path, ".json") else _lines(path))
    except (StopIteration, ValueError):
        return False
    return not isinstance(record, Fault)


def _lines(path: Path) -> Iterator[tuple[str, int, tuple[str, list[Span]] | Fault]]:
    for number, line in enumerate(text_lines(path), 1):
        if isinstance(line, Fault) or not line.strip():
            yield str(path), number, line if isinstance(line, Fault) else Fault("empty line")
            continue
        try:
            record = json.loads(line)
        except (json.JSONDecodeError, RecursionError) as error:
            yield str(path), number, Fault(f"broken JSON ({error})")
            continue
        yield str(path), number, _record(record)


def _record(record: Any) -> tuple[str, list[Span]] | Fault:
    """A text and its spans: [start, end, label] as in doccano, {start, end, label} as in Prodigy."""
    if not isinstance(record, dict) or not isinstance(text := record.get("text", record.get("data")), str):
        return Fault("there is no 'text'")
    key = next((key for key in KEYS if isinstance(record.get(key), list)), None)
    if key is None:
        return Fault(f"there are no spans: {', '.join(map(repr, KEYS))} is due to be a list")
    spans: list[Span] = []
    for given in record[key]:
        found: Any = given
        if isinstance(given, dict):
            ends = (given.get(a, given.get(f"{a}_offset")) for a in ("start", "end"))
            found = [*ends, given.get("label")]
        if not (isinstance(found, list) and len(found) == 3 and all(type(x) is int for x in found[:2])):
            return Fault("a span is not [start, end, label]")
        spans.append((found[0], found[1], str(found[2])))
    return blemish(text) or (text, spans)


def _studio(path: Path) -> Iterator[tuple[str, int, tuple[str, list[Span]] | Fault]]:
    tasks = read_json_file(path)
    if not isinstance(tasks, list):
        raise ValueError(f"{path} is no export of Label Studio: a list of tasks is due")
    for number, task in enumerate(tasks, 1):
        yield str(path), number, _task(task)


def _task(task: Any) -> tuple[str, list[Span]] | Fault:
    data = task.get("data") if isinstance(task, dict) else None
    texts = [value for value in data.values() if isinstance(value, str)] if isinstance(data, dict) else []
    if not texts:
        return Fault("a task without text in its 'data'")
    text = data["text"] if isinstance(data, dict) and isinstance(data.get("text"), str) else max(texts, key=len)
    spans: list[Span] = []
    done = [a for a in task.get("annotations") or [] if isinstance(a, dict) and not a.get("was_cancelled")]
    for result in done[0].get("result") or [] if done else []:
        value = result.get("value") if isinstance(result, dict) else None
        if isinstance(value, dict) and isinstance(value.get("labels"), list) and value["labels"]:
            spans.append((int(value.get("start", -1)), int(value.get("end", -1)), str(value["labels"][0])))
    return (text, spans) if done else Fault("a task without a finished annotation")


def _brat(folder: Path) -> Iterator[tuple[str, int, tuple[str, list[Span]] | Fault]]:
    for path in sorted(folder.glob("*.txt")):
        marks = path.with_suffix(".ann")
        if not marks.exists():
            yield str(path), 1, Fault(f"there is no {marks.name} beside it")
            continue
        try:
            text, lines = path.read_bytes().decode("utf-8"), marks.read_bytes().decode("utf-8").split("\n")
        except UnicodeDecodeError:
            yield str(path), 1, Fault("not UTF-8")
            continue
        spans: list[Span] | Fault = []
        for number, line in enumerate(lines, 1):
            if line.startswith("T") and isinstance(spans, list):
                parts = line.split("\t")
                found = re.fullmatch(r"(\S+) (\d+) (\d+)", parts[1]) if len(parts) > 2 else None
                if found is None:
                    spans = Fault(f"{marks.name} line {number}: a span in one piece is due")
                else:
                    spans.append((int(found[2]), int(found[3]), found[1]))
        yield str(path), 1, spans if isinstance(spans, Fault) else (text, spans)
