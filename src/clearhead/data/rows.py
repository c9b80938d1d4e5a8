"""Rows: the examples that a reader yields, and the rows that it skips."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

MAX_RECORDED = 100  # skipped rows that are recorded; all are counted
MAX_REPORTED = 3  # skipped rows that a report names


@dataclass(frozen=True)
class Row:
    """One example: its columns by name, and its file and line. Text is never empty; words and tags are lists."""

    values: dict[str, Any]
    file: str
    line: int  # from 1, including the header; in Parquet the row number


@dataclass(frozen=True)
class SkippedRow:
    """A row that was skipped, and the reason."""

    file: str
    line: int
    reason: str


@dataclass(frozen=True)
class RowError:
    """Why a line or a record cannot be used; yielded in place of its text."""

    reason: str


@dataclass
class _Tally:
    bad: list[SkippedRow] = field(default_factory=list[SkippedRow])
    num_bad: int = 0
    num_good: int = 0


class Rows:
    """The rows of a source; every iteration reads its files again.

    `bad`, `num_bad` and `num_good` describe the last iteration, as far as it got.
    """

    def __init__(self, read: Callable[[], Iterator[Row | SkippedRow]]) -> None:
        self._read = read
        self._tally = _Tally()

    @property
    def bad(self) -> list[SkippedRow]:
        return self._tally.bad

    @property
    def num_bad(self) -> int:
        return self._tally.num_bad

    @property
    def num_good(self) -> int:
        return self._tally.num_good

    def __iter__(self) -> Iterator[Row]:
        self._tally = _Tally()
        return self._rows(self._tally)

    def raw(self) -> Iterator[Row | SkippedRow]:
        """Iterate over all rows in file order, including the skipped ones."""
        return self._read()

    def _rows(self, tally: _Tally) -> Iterator[Row]:
        for row in self._read():
            if isinstance(row, Row):
                tally.num_good += 1
                yield row
            else:
                tally.num_bad += 1
                if len(tally.bad) < MAX_RECORDED:
                    tally.bad.append(row)

    def report(self) -> str:
        """Return one sentence about the skipped rows; empty if there are none."""
        if not self.num_bad:
            return ""
        reported = [f"{bad.file} line {bad.line:,}: {bad.reason}" for bad in self.bad[:MAX_REPORTED]]
        more = [f"and {self.num_bad - MAX_REPORTED:,} more"] if self.num_bad > MAX_REPORTED else []
        was = "row was" if self.num_bad + self.num_good == 1 else "rows was" if self.num_bad == 1 else "rows were"
        return f"{self.num_bad:,} of {self.num_bad + self.num_good:,} {was} skipped: {'; '.join(reported + more)}"
