"""Rows: what a reader gives, one example at a time, and what it had to leave out."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

KEPT = 100  # bad rows that are kept to be shown; all are counted
TOLD = 3  # bad rows that a report names


@dataclass(frozen=True)
class Row:
    """One example: what its columns hold, of which text is never empty and words and tags are lists; and its place."""

    values: dict[str, Any]
    file: str
    line: int  # from 1, the header included; in Parquet the number of the row


@dataclass(frozen=True)
class Bad:
    """A row that was left out, and why."""

    file: str
    line: int
    reason: str


@dataclass(frozen=True)
class Fault:
    """Why a line or a record cannot be used; stands where its text would."""

    reason: str


@dataclass
class _Tally:
    bad: list[Bad] = field(default_factory=list[Bad])
    num_bad: int = 0
    num_good: int = 0


class Rows:
    """The rows of a source, read anew from its files each time they are gone through.

    `bad`, `num_bad` and `num_good` speak of the last time, as far as it went.
    """

    def __init__(self, read: Callable[[], Iterator[Row | Bad]]) -> None:
        self._read = read
        self._tally = _Tally()

    @property
    def bad(self) -> list[Bad]:
        """The first hundred rows that were left out."""
        return self._tally.bad

    @property
    def num_bad(self) -> int:
        """How many rows were left out."""
        return self._tally.num_bad

    @property
    def num_good(self) -> int:
        """How many rows were given."""
        return self._tally.num_good

    def __iter__(self) -> Iterator[Row]:
        self._tally = _Tally()
        return self._rows(self._tally)

    def raw(self) -> Iterator[Row | Bad]:
        """The rows and, where they stand, those that are left out; for who gives them on."""
        return self._read()

    def _rows(self, tally: _Tally) -> Iterator[Row]:
        for row in self._read():
            if isinstance(row, Row):
                tally.num_good += 1
                yield row
            else:
                tally.num_bad += 1
                if len(tally.bad) < KEPT:
                    tally.bad.append(row)

    def report(self) -> str:
        """One sentence on what was left out; empty if nothing was."""
        if not self.num_bad:
            return ""
        told = [f"{bad.file} line {bad.line:,}: {bad.reason}" for bad in self.bad[:TOLD]]
        more = [f"and {self.num_bad - TOLD:,} more"] if self.num_bad > TOLD else []
        was = "row was" if self.num_bad + self.num_good == 1 else "rows was" if self.num_bad == 1 else "rows were"
        return f"{self.num_bad:,} of {self.num_bad + self.num_good:,} {was} left out: {'; '.join(told + more)}"
