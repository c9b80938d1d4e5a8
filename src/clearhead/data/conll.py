"""CoNLL reader: one word per line with its columns, sentences separated by empty lines; CoNLL-U columns have names."""

import re
from collections.abc import Iterator
from pathlib import Path

from clearhead.data.lines import check_text, text_lines
from clearhead.data.rows import Row, RowError, SkippedRow

CONLLU_COLUMNS = ("id", "form", "lemma", "upos", "xpos", "feats", "head", "deprel", "deps", "misc")  # in this order
_RANGE_OR_EMPTY = re.compile(r"\d+[-.]\d+")  # multiword tokens (3-4) and empty nodes (8.1)
_DOCUMENT_BREAK = "-DOCSTART-"

Line = tuple[int, list[str] | RowError]


def conll_names(path: Path) -> list[str]:
    """Return CoNLL-U's column names, or "1", "2", ... for the columns of the first sentence."""
    for block in _blocks(path):
        for _, fields in block:
            if not isinstance(fields, RowError):
                if ".conllu" in path.suffixes:
                    return list(CONLLU_COLUMNS)
                return [str(i) for i in range(1, len(fields) + 1)]
    raise ValueError(f"{path} has no words: write one word per line, and an empty line after each sentence")


def conll_rows(path: Path, columns: dict[str, int]) -> Iterator[Row | SkippedRow]:
    """Yield sentences with one list per column; `columns` maps names to indices from 0, other columns are ignored.

    Comments, document breaks, multiword tokens (3-4) and empty nodes (8.1) are ignored. A sentence with an unusable
    line is skipped as a whole.
    """
    file = str(path)
    for block in _blocks(path):
        values: dict[str, list[str]] = {name: [] for name in columns}
        for number, line in block:
            fields = line if isinstance(line, RowError) else _check(line, columns)
            if isinstance(fields, RowError):
                yield SkippedRow(file, number, fields.reason)
                break
            for name, index in columns.items():
                values[name].append(fields[index])
        else:
            yield Row(values, file, block[0][0])


def _check(fields: list[str], columns: dict[str, int]) -> list[str] | RowError:
    """Return the fields of a line, or why it cannot be used."""
    minimum = max(columns.values()) + 1
    if len(fields) < minimum:
        return RowError(f"has {len(fields)} columns, expected at least {minimum}")
    if empty := [name for name, index in columns.items() if not fields[index].strip()]:
        return RowError(f"{empty[0]!r} is empty")
    return check_text("".join(fields)) or fields


def _blocks(path: Path) -> Iterator[list[Line]]:
    """Yield the words of each sentence as (line number, fields)."""
    block: list[Line] = []
    width, tabs = 0, False
    for number, line in enumerate(text_lines(path), 1):
        if isinstance(line, RowError):
            block.append((number, line))
        elif not line.strip() or line.startswith(_DOCUMENT_BREAK):
            if block:
                yield block
            block = []
        else:
            fields = line.split("\t") if "\t" in line else line.split()
            if line.startswith("#") and "\t" not in line and (tabs or len(fields) != width):
                continue  # a comment; the word "#" has as many columns as other words
            tabs = tabs or "\t" in line
            if _RANGE_OR_EMPTY.fullmatch(fields[0]) and len(fields) > 2:
                continue
            width = width or len(fields)
            block.append((number, fields))
    if block:
        yield block


def column_index(path: Path, name: str, names: list[str]) -> int:
    """Return the index of a column, from 0; a ValueError lists the columns if there is none."""
    if name not in names:
        raise ValueError(f"{path} has no column {name!r}: the columns are {', '.join(map(repr, names))}")
    return names.index(name)
