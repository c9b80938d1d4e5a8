"""TSV, CSV and labeled-line readers: one record per line, or several lines where CSV quotes a line end."""

import csv
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from clearhead.data.lines import MAX_LINE_BYTES, TOO_LONG, check_text, read_lines, text_lines
from clearhead.data.rows import RowError

LABELED_COLUMNS = ("label", "coarse", "text")  # first word, the same up to a colon, rest of the line
FASTTEXT_PREFIX = "__label__"

Records = Iterator[tuple[int, list[str] | RowError]]  # first line of a record, and its fields


def tsv_records(path: Path) -> Records:
    for number, line in enumerate(text_lines(path), 1):
        yield number, line if isinstance(line, RowError) else line.split("\t")


def csv_records(path: Path) -> Records:
    """Yield comma-separated fields, quoted where they hold commas, quotes or line ends (RFC 4180)."""
    csv.field_size_limit(max(csv.field_size_limit(), MAX_LINE_BYTES))
    lines = _CsvLines(path)
    reader = csv.reader(lines, strict=True)
    while True:
        lines.bytes_left = MAX_LINE_BYTES
        first = lines.number + 1
        try:
            fields = next(reader)  # after an error the csv module starts a new record at the next line
            problem = TOO_LONG if lines.bytes_left < 0 else check_text("".join(fields))
        except StopIteration:
            return
        except csv.Error as error:
            fields, problem = [], RowError(f"broken quotes ({error})")
        if problem and lines.number > first:
            problem = RowError(f"{problem.reason}, through line {lines.number:,}")
        yield first, problem or fields


class _CsvLines:
    """Lines of a file for the csv module, which consumes as many as a record needs.

    For a record that is too long only the parity of its quotes is passed on, so that it ends at the right line without
    being held in memory.
    """

    def __init__(self, path: Path) -> None:
        self._lines = read_lines(path)
        self.number = 0  # lines consumed
        self.bytes_left = 0  # for the current record; below 0 it is too long

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        line = next(self._lines)
        self.number += 1
        self.bytes_left -= MAX_LINE_BYTES + 1 if isinstance(line, int) else len(line)
        if isinstance(line, int) or self.bytes_left < 0:
            quotes = line if isinstance(line, int) else line.count(b'"')
            return '"' * (quotes % 2)
        return line.decode("utf-8", "surrogateescape")  # a bad byte must not split a multi-line record


def delimited_names(read: Callable[[Path], Records], path: Path, header: bool) -> list[str]:
    """Return the header, or "1", "2", ... for the fields of the first readable line where there is no header."""
    for line, fields in read(path):
        if not isinstance(fields, RowError):
            return fields if header else [str(i) for i in range(1, len(fields) + 1)]
        if header:
            raise ValueError(f"{path}, line {line}: {fields.reason}; this header line must name the columns")
    raise ValueError(f"{path} is empty" if header else f"{path} has no readable line")


def delimited_records(
    read: Callable[[Path], Records], path: Path, wanted: Mapping[str, str], header: bool
) -> Iterator[tuple[int, dict[str, str] | RowError]]:
    """Yield the line number and the wanted columns of each record, under our names for them.

    With a header every record must have as many fields; without one, enough fields, and further fields are ignored.
    """
    names = delimited_names(read, path, header)
    indices = {ours: names.index(theirs) for ours, theirs in wanted.items()}
    records = read(path)
    if header:
        next(records)
    for line, fields in records:
        if isinstance(fields, RowError):
            yield line, fields
        elif len(fields) == len(names) or (not header and len(fields) > max(indices.values())):
            yield line, {ours: fields[index] for ours, index in indices.items()}
        elif not any(fields):
            yield line, RowError("empty line")
        else:
            yield line, RowError(f"has {len(fields)} columns, expected {len(names)}")


def labeled_records(path: Path, wanted: Mapping[str, str]) -> Iterator[tuple[int, dict[str, str] | RowError]]:
    """Yield lines whose first word is the label and whose rest is the text (`DESC:manner How did it begin ?`)."""
    for number, line in enumerate(text_lines(path), 1):
        if isinstance(line, RowError):
            yield number, line
            continue
        label, _, text = line.strip().partition(" ")
        label = label.removeprefix(FASTTEXT_PREFIX)
        values = {"label": label, "coarse": label.partition(":")[0], "text": text.strip()}
        yield (
            number,
            {ours: values[theirs] for ours, theirs in wanted.items()} if line.strip() else RowError("empty line"),
        )
