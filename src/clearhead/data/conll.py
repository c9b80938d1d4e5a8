"""CoNLL: sentences as blocks of lines, a word a line, its columns beside it; those of CoNLL-U have names."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from clearhead.data.lines import blemish, text_lines
from clearhead.data.rows import Bad, Fault, Row

NAMED = ("id", "form", "lemma", "upos", "xpos", "feats", "head", "deprel", "deps", "misc")  # CoNLL-U, in this order
_RANGE = re.compile(r"\d+[-.]\d+")  # several words written as one, and words that are not written
_BREAK = "-DOCSTART-"

Line = tuple[int, list[str] | Fault]


def conll_names(path: Path) -> list[str]:
    """The columns of the first sentence: CoNLL-U's names, or "1", "2" and so on."""
    for block in _blocks(path):
        for _, fields in block:
            if not isinstance(fields, Fault):
                return list(NAMED) if _universal(path) else [str(i) for i in range(1, len(fields) + 1)]
    raise ValueError(f"{path} has no word in it: a word a line, an empty line after a sentence")


def conll_rows(path: Path, columns: dict[str, int]) -> Iterator[Row | Bad]:
    """The sentences: a list for each of the columns, which are counted from 0. Further columns are not looked at.

    Comments, document breaks, ranges of words (3-4) and words that are not written (8.1) are passed over. A sentence
    with a line that cannot be used is left out as a whole.
    """
    file = str(path)
    for block in _blocks(path):
        values: dict[str, list[str]] = {name: [] for name in columns}
        for number, fields in block:
            fault = fields if isinstance(fields, Fault) else _fault(fields, columns)
            if fault is not None:
                yield Bad(file, number, fault.reason)
                break
            for name, place in columns.items():
                values[name].append(fields[place])  # type: ignore[index]
        else:
            yield Row(values, file, block[0][0])


def _fault(fields: list[str], columns: dict[str, int]) -> Fault | None:
    """Why a line cannot be used."""
    most = max(columns.values()) + 1
    if len(fields) < most:
        return Fault(f"has {len(fields)} columns where at least {most} are due")
    if empty := [name for name, place in columns.items() if not fields[place].strip()]:
        return Fault(f"{empty[0]!r} is empty")
    return blemish("".join(fields))


def _blocks(path: Path) -> Iterator[list[Line]]:
    """The words of each sentence: their line and their fields."""
    block: list[Line] = []
    width, tabs = 0, False
    for number, line in enumerate(text_lines(path), 1):
        if isinstance(line, Fault):
            block.append((number, line))
        elif not line.strip() or line.startswith(_BREAK):
            if block:
                yield block
            block = []
        else:
            fields = line.split("\t") if "\t" in line else line.split()
            if line.startswith("#") and "\t" not in line and (tabs or len(fields) != width):
                continue  # a comment; a word "#" has as many columns as any other
            tabs = tabs or "\t" in line
            if _RANGE.fullmatch(fields[0]) and len(fields) > 2:
                continue
            width = width or len(fields)
            block.append((number, fields))
    if block:
        yield block


def _universal(path: Path) -> bool:
    return ".conllu" in path.suffixes


def place(path: Path, name: str, names: list[str]) -> int:
    """Where a column stands, from 0; a ValueError that says which there are."""
    if name not in names:
        raise ValueError(f"{path} has no column {name!r}: there are {', '.join(map(repr, names))}")
    return names.index(name)
