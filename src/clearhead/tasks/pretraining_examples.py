"""Pre-training examples: passages of one document each between special tokens, or pairs of segments.

An example is a passage of a text, or a block of shards, which holds passages of several documents. Randomness depends
on an example's number and on `draw` only.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Literal

import numpy as np

from clearhead.data import Columns, InMemoryColumns, Integers, Ragged, Row, Rows
from clearhead.data.readers import TABLES
from clearhead.data.shards import packed, sentence_pieces
from clearhead.text import Tokenizer, tokenize_sentences

Pairs = Literal["none", "nsp", "sop"]
CHUNK = 200  # documents tokenized at a time
FOLLOWS, OTHER = 0, 1

_EMPTY = np.zeros(0, dtype=np.int64)


@dataclass(frozen=True, eq=False)
class PretrainingExample:
    """All passages of an example, concatenated."""

    ids: Integers  # (n,)
    sizes: list[int]  # tokens of each passage
    segments: Integers  # (n,): which segment of a pair a token belongs to
    follows: list[int]  # of each passage: FOLLOWS or OTHER; FOLLOWS without pairs


@dataclass(frozen=True, eq=False)
class PretrainingExamples:
    """Cuts documents into passages and adds special tokens."""

    tokenizer: Tokenizer
    max_len: int = 128
    pairs: Pairs = "none"
    language: str = "en"

    def __post_init__(self) -> None:
        if self.max_len <= self.marks:
            raise ValueError(f"max_len is {self.max_len}, but special tokens take {self.marks}: raise data.max_len")

    @property
    def marks(self) -> int:
        return 2 if self.pairs == "none" else 3

    @property
    def room(self) -> int:
        return self.max_len - self.marks

    @property
    def ends(self) -> tuple[int, int]:
        first, last = self.tokenizer.bos_id, self.tokenizer.eos_id
        if first is None or last is None:
            raise ValueError("this tokenizer has no special tokens around a text: train one with BERT's template")
        return first, last

    def encode(self, rows: Rows) -> InMemoryColumns:
        """Tokenize documents into passages of complete sentences, with the sentence ends."""
        ids: list[Integers] = []
        ends: list[Integers] = []
        stream = documents_of(rows)
        while chunk := list(islice(stream, CHUNK)):
            for document in tokenize_sentences(chunk, self.tokenizer, self.language):
                for block in packed([document], self.room):
                    ids.append(block.tokens)
                    ends.append(block.sentences)
        return {"ids": Ragged.from_lists(ids), "ends": Ragged.from_lists(ends)}

    def lengths(self, columns: Columns, examples: Integers | None = None) -> Integers:
        """Return the number of tokens of each example; a segment of another text is never longer than the original."""
        marks = self.marks * columns["starts"].lengths(examples) if "starts" in columns else self.marks
        return columns["ids"].lengths(examples) + marks

    def each(self, columns: Columns, examples: Integers, draw: int) -> Iterator[tuple[int, PretrainingExample]]:
        parts = {name: _split(*columns[name].take(examples)) for name in ("ids", "ends", "starts") if name in columns}
        for n, number in enumerate(examples.tolist()):
            ids, ends = parts["ids"][n], parts["ends"][n]
            starts = parts["starts"][n] if "starts" in parts else np.zeros(1, dtype=np.int64)
            source = np.random.Generator(np.random.Philox(np.random.SeedSequence([draw, number, 1])))
            pieces = (piece for piece in sentence_pieces(ids, ends, starts) for piece in _cut(*piece, self.room))
            yield number, self._example(pieces, columns, number, source)

    def _example(
        self, pieces: Iterable[tuple[Integers, Integers]], columns: Columns, number: int, source: np.random.Generator
    ) -> PretrainingExample:
        first, last = self.ends
        parts: list[Integers] = [_EMPTY]
        segments: list[Integers] = [_EMPTY]
        follows: list[int] = []
        for ids, ends in pieces:
            if self.pairs == "none":
                parts.append(np.concatenate([[first], ids, [last]]))
                segments.append(np.zeros(len(ids) + 2, dtype=np.int64))
                follows.append(FOLLOWS)
                continue
            a, b, kind = self._pair(ids, ends, columns, number, source)
            parts.append(np.concatenate([[first], a, [last], b, [last]]))
            segments.append(np.repeat([0, 1], [len(a) + 2, len(b) + 1]))
            follows.append(kind)
        sizes = [len(part) for part in parts[1:]]
        return PretrainingExample(np.concatenate(parts), sizes, np.concatenate(segments), follows)

    def _pair(
        self, ids: Integers, ends: Integers, columns: Columns, number: int, source: np.random.Generator
    ) -> tuple[Integers, Integers, int]:
        """Split a passage at a sentence end where it has several; half of the time, replace or swap the segments."""
        cut = int(source.choice(ends[:-1])) if len(ends) > 1 else len(ids) // 2
        a, b = ids[:cut], ids[cut:]
        if source.random() < 0.5:
            return a, b, FOLLOWS
        if self.pairs == "sop":
            return b, a, OTHER
        return a, self._other_segment(columns, number, len(b), source), OTHER

    def _other_segment(self, columns: Columns, number: int, room: int, source: np.random.Generator) -> Integers:
        """Return a segment of another example, of `room` tokens where it is long enough."""
        count = len(columns["ids"])
        other = int(source.integers(count - 1)) if count > 1 else number
        other += other >= number and count > 1
        ids = columns["ids"].take(np.array([other]))[0]
        start = int(source.integers(max(len(ids) - room, 0) + 1))
        return ids[start : start + room]


def documents_of(rows: Rows) -> Iterator[str]:
    """Yield documents: the rows of a table, or the lines of a text file up to an empty line."""
    lines: list[str] = []
    last: Row | None = None
    for row in rows:
        table = bool({*TABLES, ".json"} & set(Path(row.file).suffixes))
        continues = last is not None and not table and row.file == last.file and row.line == last.line + 1
        if lines and not continues:
            yield "\n".join(lines)
            lines = []
        lines.append(row.values["text"])
        last = row
    if lines:
        yield "\n".join(lines)


def _split(flat: Integers, sizes: Integers) -> list[Integers]:
    return np.split(flat, np.cumsum(sizes)[:-1]) if len(sizes) else []


def _cut(ids: Integers, ends: Integers, room: int) -> Iterator[tuple[Integers, Integers]]:
    """Split a document into passages of at most `room` tokens, at sentence ends where possible."""
    begin = 0
    while len(ids) - begin > room:
        fit = ends[(ends > begin) & (ends <= begin + room)]
        end = int(fit[-1]) if len(fit) else begin + room
        yield ids[begin:end], (fit - begin if len(fit) else np.array([end - begin]))
        begin = end
    yield ids[begin:], ends[ends > begin] - begin
