"""Passages: what is read for pre-training. Each is of one document, between marks; in pairs where a recipe asks so.

An example is a passage of a text that was read here, or a block of shards, which holds passages of several documents.
What is random in an example follows from its number and from `draw` alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Literal

import numpy as np

from clearhead.data import Columns, Held, Integers, Ragged, Row, Rows
from clearhead.data.readers import TABLES
from clearhead.data.shards import packed, pieces_of
from clearhead.text import Tokenizer, tokens_of

Pairs = Literal["none", "next", "order"]
CHUNK = 200  # documents turned into tokens at once
FOLLOWS, OTHER = 0, 1

_NONE = np.zeros(0, dtype=np.int64)


@dataclass(frozen=True, eq=False)
class Example:
    """All passages of an example, one after another."""

    ids: Integers  # (n,)
    sizes: list[int]  # tokens of each
    segments: Integers  # (n,): which of the two texts of a pair a token is of
    follows: list[int]  # of each: does its second text follow the first? FOLLOWS without pairs


@dataclass(frozen=True, eq=False)
class Passages:
    """How documents are cut and framed."""

    tokenizer: Tokenizer
    max_len: int = 128
    pairs: Pairs = "none"
    language: str = "en"

    def __post_init__(self) -> None:
        if self.max_len <= self.marks:
            raise ValueError(f"max_len is {self.max_len}, of which marks take {self.marks}: raise data.max_len")

    @property
    def marks(self) -> int:
        """Special tokens of a passage."""
        return 2 if self.pairs == "none" else 3

    @property
    def room(self) -> int:
        """The most words of a passage, in tokens."""
        return self.max_len - self.marks

    @property
    def ends(self) -> tuple[int, int]:
        """The marks before and behind a passage."""
        first, last = self.tokenizer.bos_id, self.tokenizer.eos_id
        if first is None or last is None:
            raise ValueError("this tokenizer has no marks around a text: learn one with BERT's template")
        return first, last

    def encode(self, rows: Rows) -> Held:
        """Passages of whole sentences of one document each, and where the sentences end."""
        ids: list[Integers] = []
        ends: list[Integers] = []
        stream = documents_of(rows)
        while chunk := list(islice(stream, CHUNK)):
            for document in tokens_of(chunk, self.tokenizer, self.language):
                for block in packed([document], self.room):
                    ids.append(block.tokens)
                    ends.append(block.sentences)
        return {"ids": Ragged.of(ids), "ends": Ragged.of(ends)}

    def lengths(self, columns: Columns, examples: Integers | None = None) -> Integers:
        """All tokens of an example; what another text brings is never longer than what it replaces."""
        marks = self.marks * columns["starts"].lengths(examples) if "starts" in columns else self.marks
        return columns["ids"].lengths(examples) + marks

    def each(self, columns: Columns, examples: Integers, draw: int) -> Iterator[tuple[int, Example]]:
        """These examples by number, framed."""
        whole = {name: _split(*columns[name].take(examples)) for name in ("ids", "ends", "starts") if name in columns}
        for n, number in enumerate(examples.tolist()):
            ids, ends = whole["ids"][n], whole["ends"][n]
            starts = whole["starts"][n] if "starts" in whole else np.zeros(1, dtype=np.int64)
            source = np.random.Generator(np.random.Philox(np.random.SeedSequence([draw, number, 1])))
            pieces = (piece for piece in pieces_of(ids, ends, starts) for piece in _cut(*piece, self.room))
            yield number, self._framed(pieces, columns, number, source)

    def _framed(
        self, pieces: Iterable[tuple[Integers, Integers]], columns: Columns, number: int, source: np.random.Generator
    ) -> Example:
        first, last = self.ends
        parts: list[Integers] = [_NONE]
        segments: list[Integers] = [_NONE]
        follows: list[int] = []
        for ids, ends in pieces:
            if self.pairs == "none":
                parts.append(np.concatenate([[first], ids, [last]]))
                segments.append(np.zeros(len(ids) + 2, dtype=np.int64))
                follows.append(FOLLOWS)
                continue
            a, b, kind = self._paired(ids, ends, columns, number, source)
            parts.append(np.concatenate([[first], a, [last], b, [last]]))
            segments.append(np.repeat([0, 1], [len(a) + 2, len(b) + 1]))
            follows.append(kind)
        return Example(np.concatenate(parts), [len(part) for part in parts[1:]], np.concatenate(segments), follows)

    def _paired(
        self, ids: Integers, ends: Integers, columns: Columns, number: int, source: np.random.Generator
    ) -> tuple[Integers, Integers, int]:
        """A passage in two, at the end of a sentence where it has several; in half of the time, not as they stood."""
        cut = int(source.choice(ends[:-1])) if len(ends) > 1 else len(ids) // 2
        a, b = ids[:cut], ids[cut:]
        if source.random() < 0.5:
            return a, b, FOLLOWS
        if self.pairs == "order":
            return b, a, OTHER
        return a, self._another(columns, number, len(b), source), OTHER

    def _another(self, columns: Columns, number: int, room: int, source: np.random.Generator) -> Integers:
        """A stretch of another example, of just as many tokens where it has them."""
        count = len(columns["ids"])
        other = int(source.integers(count - 1)) if count > 1 else number
        other += other >= number and count > 1
        ids = columns["ids"].take(np.array([other]))[0]
        start = int(source.integers(max(len(ids) - room, 0) + 1))
        return ids[start : start + room]


def documents_of(rows: Rows) -> Iterator[str]:
    """Rows of a table are documents; lines of a text are, up to an empty one."""
    held: list[str] = []
    last: Row | None = None
    for row in rows:
        table = bool({*TABLES, ".json"} & set(Path(row.file).suffixes))
        runs_on = last is not None and not table and row.file == last.file and row.line == last.line + 1
        if held and not runs_on:
            yield "\n".join(held)
            held = []
        held.append(row.values["text"])
        last = row
    if held:
        yield "\n".join(held)


def _split(flat: Integers, sizes: Integers) -> list[Integers]:
    return np.split(flat, np.cumsum(sizes)[:-1]) if len(sizes) else []


def _cut(ids: Integers, ends: Integers, room: int) -> Iterator[tuple[Integers, Integers]]:
    """A document in passages of at most `room` tokens, at the ends of sentences where they allow it."""
    begin = 0
    while len(ids) - begin > room:
        fit = ends[(ends > begin) & (ends <= begin + room)]
        end = int(fit[-1]) if len(fit) else begin + room
        yield ids[begin:end], (fit - begin if len(fit) else np.array([end - begin]))
        begin = end
    yield ids[begin:], ends[ends > begin] - begin
