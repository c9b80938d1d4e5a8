"""TSV and CSV: a record a line, or several lines where CSV quotes a line end."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from clearhead.data.lines import LONGEST, TOO_LONG, blemish, read_lines, text_lines
from clearhead.data.rows import Fault

Records = Iterator[tuple[int, list[str] | Fault]]  # the line a record begins at, and its fields


def tsv(path: Path) -> Records:
    """Fields parted by tabs. A quote is a character like any other."""
    for number, line in enumerate(text_lines(path), 1):
        yield number, line if isinstance(line, Fault) else line.split("\t")


def comma(path: Path) -> Records:
    """Fields parted by commas, quoted where they hold commas, quotes or line ends (RFC 4180)."""
    csv.field_size_limit(max(csv.field_size_limit(), LONGEST))
    lines = _Lines(path)
    reader = csv.reader(lines, strict=True)
    while True:
        lines.room = LONGEST
        first = lines.number + 1
        try:
            fields = next(reader)  # after an error it begins a new record with the next line
            fault = TOO_LONG if lines.room < 0 else blemish("".join(fields))
        except StopIteration:
            return
        except csv.Error as error:
            fields, fault = [], Fault(f"broken quotes ({error})")
        if fault and lines.number > first:
            fault = Fault(f"{fault.reason}, down to line {lines.number:,}")
        yield first, fault or fields


class _Lines:
    """The lines of a file for the csv module, which takes as many as a record has.

    Of a record that is too long only the quotes are given on, and of these only an odd one, so that it ends where it
    should and takes no memory until then.
    """

    def __init__(self, path: Path) -> None:
        self._lines = read_lines(path)
        self.number = 0  # of lines taken
        self.room = 0  # bytes that the record may still take; below 0 it is too long

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        line = next(self._lines)
        self.number += 1
        self.room -= LONGEST + 1 if isinstance(line, int) else len(line)
        if isinstance(line, int) or self.room < 0:
            quotes = line if isinstance(line, int) else line.count(b'"')
            return '"' * (quotes % 2)
        return line.decode("utf-8", "surrogateescape")  # a bad byte must not tear a record that has several lines


def delimited_names(read: Callable[[Path], Records], path: Path, header: bool) -> list[str]:
    """The names in the first line; without a header numbers from 1, for as many fields as the first good line has."""
    for line, fields in read(path):
        if not isinstance(fields, Fault):
            return fields if header else [str(i) for i in range(1, len(fields) + 1)]
        if header:
            raise ValueError(f"{path}, line {line}: {fields.reason}, and it says what the columns are")
    raise ValueError(f"{path} is empty" if header else f"{path} has no line that can be read")


def delimited_records(
    read: Callable[[Path], Records], path: Path, wanted: Mapping[str, str], header: bool
) -> Iterator[tuple[int, dict[str, str] | Fault]]:
    """The fields of the wanted columns by our names for them.

    Every record must be as wide as the header; without one, wide enough, and what stands further on is not looked at.
    """
    names = delimited_names(read, path, header)
    places = {ours: names.index(theirs) for ours, theirs in wanted.items()}
    records = read(path)
    if header:
        next(records)
    for line, fields in records:
        if isinstance(fields, Fault):
            yield line, fields
        elif len(fields) == len(names) or (not header and len(fields) > max(places.values())):
            yield line, {ours: fields[place] for ours, place in places.items()}
        elif not any(fields):
            yield line, Fault("empty line")
        else:
            yield line, Fault(f"has {len(fields)} columns where {len(names)} are due")
