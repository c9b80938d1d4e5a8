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
    weight: float = 1.0  # of its loss in training


@dataclass(frozen=True)
class SkippedRow:
    """A row that was skipped, the reason, and its values as far as they could be read."""

    file: str
    line: int
    reason: str
    values: dict[str, Any] = field(default_factory=dict[str, Any])


@dataclass(frozen=True)
class RowError:
    """Why a line or a record cannot be used; yielded in place of its text."""

    reason: str


@dataclass
class _Tally:
    skipped: list[SkippedRow] = field(default_factory=list[SkippedRow])
    num_skipped: int = 0
    num_rows: int = 0


class Rows:
    """The rows of a source; every iteration reads its files again.

    `skipped`, `num_skipped` and `num_rows` describe the last iteration, as far as it got.
    """

    def __init__(self, read: Callable[[], Iterator[Row | SkippedRow]]) -> None:
        self._read = read
        self._tally = _Tally()

    @property
    def skipped(self) -> list[SkippedRow]:
        """The first hundred skipped rows."""
        return self._tally.skipped

    @property
    def num_skipped(self) -> int:
        """Number of skipped rows."""
        return self._tally.num_skipped

    @property
    def num_rows(self) -> int:
        """Number of rows yielded."""
        return self._tally.num_rows

    def __iter__(self) -> Iterator[Row]:
        self._tally = _Tally()
        return self._rows(self._tally)

    def raw(self) -> Iterator[Row | SkippedRow]:
        """Iterate over all rows in file order, including the skipped ones."""
        return self._read()

    def _rows(self, tally: _Tally) -> Iterator[Row]:
        for row in self._read():
            if isinstance(row, Row):
                tally.num_rows += 1
                yield row
            else:
                tally.num_skipped += 1
                if len(tally.skipped) < MAX_RECORDED:
                    tally.skipped.append(row)

    def notes(self) -> list[str]:
        """Return sentences on what was added to the rows of the last iteration, and how they are weighted."""
        return []

    def report(self) -> str:
        """Return one sentence about the skipped rows; empty if there are none."""
        if not self.num_skipped:
            return ""
        reported = [f"{bad.file} line {bad.line:,}: {bad.reason}" for bad in self.skipped[:MAX_REPORTED]]
        more = [f"and {self.num_skipped - MAX_REPORTED:,} more"] if self.num_skipped > MAX_REPORTED else []
        was = (
            "row was" if self.num_skipped + self.num_rows == 1 else "rows was" if self.num_skipped == 1 else "rows were"
        )
        return (
            f"{self.num_skipped:,} of {self.num_skipped + self.num_rows:,} {was} skipped: {'; '.join(reported + more)}"
        )
