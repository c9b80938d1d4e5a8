"""Shards: a prepared corpus in blocks: tokens, where sentences end in them, and which documents they are of.

A block holds whole sentences of one document after another, up to a number of tokens. What is trained is made of blocks
when they are read: sequences for masking, pairs of sentences, running text. A folder of shards has a manifest with the
SHA-256 and the number of blocks of each; any block is read without those before it.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from clearhead.files import read_manifest, verify

Integers = npt.NDArray[np.int64]

FORMAT = 1
_HEAD = struct.Struct("<BBxxIII")  # format, bytes of a token, then how many tokens, sentences and documents


@dataclass(frozen=True, eq=False)
class Block:
    """Sentences of one document after another."""

    tokens: Integers  # (N,)
    sentences: Integers  # (sentences,) the end of each, in tokens; the last is N
    starts: Integers  # (documents,) the first token of each; the first is 0
    documents: Integers  # (documents,) their numbers in the shard

    def to_bytes(self) -> bytes:
        """The block as it stands in a shard."""
        wide = np.uint32 if self.tokens.max(initial=0) >= 2**16 else np.uint16
        head = _HEAD.pack(FORMAT, wide().itemsize, len(self.tokens), len(self.sentences), len(self.documents))
        rest = (self.sentences.astype("<u4"), self.starts.astype("<u4"), self.documents.astype("<u8"))
        return b"".join(
            [head, self.tokens.astype(np.dtype(wide).newbyteorder("<")).tobytes(), *(r.tobytes() for r in rest)]
        )

    @staticmethod
    def from_bytes(data: bytes) -> Block:
        """A block as `to_bytes` wrote it; a ValueError where it is none."""
        if len(data) < _HEAD.size:
            raise ValueError(f"a block of {len(data)} bytes: it is cut off")
        form, width, tokens, sentences, documents = _HEAD.unpack_from(data)
        due = _HEAD.size + width * tokens + 4 * (sentences + documents) + 8 * documents
        if form != FORMAT or width not in (2, 4) or len(data) != due:
            raise ValueError(f"no block of format {FORMAT}: {len(data)} bytes, of format {form}")
        parts, at = [], _HEAD.size
        for kind, count in ((f"<u{width}", tokens), ("<u4", sentences), ("<u4", documents), ("<u8", documents)):
            parts.append(np.frombuffer(data, kind, count, at).astype(np.int64))
            at += np.dtype(kind).itemsize * count
        return Block(*parts)

    def pieces(self) -> Iterator[tuple[Integers, Integers]]:
        """The tokens of each document, and the ends of its sentences in them."""
        edges = [*self.starts.tolist(), len(self.tokens)]
        for begin, end in pairwise(edges):
            ends = self.sentences[(self.sentences > begin) & (self.sentences <= end)]
            yield self.tokens[begin:end], ends - begin


def packed(documents: Iterable[Sequence[Sequence[int]]], size: int) -> Iterator[Block]:
    """Documents, each a sequence of sentences in tokens, in blocks of at most `size` tokens.

    A sentence that is longer than a block is cut; one that does not fit any more begins the next block. Documents are
    counted from 0; one without a token has a number, and no place.
    """
    tokens: list[int] = []
    ends: list[int] = []
    starts: list[int] = []
    numbers: list[int] = []

    def block() -> Block:
        held = Block(*(np.array(part, dtype=np.int64) for part in (tokens, ends, starts, numbers)))
        for part in (tokens, ends, starts, numbers):
            part.clear()
        return held

    for number, sentences in enumerate(documents):
        for sentence in sentences:
            for at in range(0, len(sentence), size):
                piece = sentence[at : at + size]
                if len(tokens) + len(piece) > size:
                    yield block()
                if not numbers or numbers[-1] != number:
                    starts.append(len(tokens))
                    numbers.append(number)
                tokens += piece
                ends.append(len(tokens))
    if tokens:
        yield block()


def write_shard(path: Path, blocks: Iterable[Block]) -> tuple[int, int, int]:
    """Write blocks to a shard; returns how many there were, their tokens and their sentences.

    The same blocks give the same bytes.
    """
    from array_record.python.array_record_module import ArrayRecordWriter

    writer = ArrayRecordWriter(str(path), "group_size:1,zstd:3")
    count = tokens = sentences = 0
    try:
        for block in blocks:
            writer.write(block.to_bytes())
            count, tokens, sentences = count + 1, tokens + len(block.tokens), sentences + len(block.sentences)
    finally:
        writer.close()
    return count, tokens, sentences


class Shards(Sequence[Block]):
    """The blocks of a folder of shards, one after another, each read when it is asked for."""

    def __init__(self, folder: str | Path, *, check: bool = True) -> None:
        self.folder = Path(folder)
        manifest = verify(self.folder) if check else read_manifest(self.folder)
        self.facts: dict[str, Any] = dict(manifest.facts)
        if "blocks" not in self.facts:
            raise ValueError(f"{self.folder} holds no shards: `clearhead prepare` makes them")
        self.names = [name for name, _ in self.facts["blocks"]]
        self._behind = list(accumulate(count for _, count in self.facts["blocks"]))
        self._readers: dict[int, Any] = {}

    def __len__(self) -> int:
        return self._behind[-1] if self._behind else 0

    @cached_property
    def size(self) -> int:
        """The most tokens of a block."""
        return int(self.facts["block"])

    def __getitem__(self, i: int) -> Block:  # type: ignore[override]
        return self.take([i])[0]

    def take(self, wanted: Sequence[int]) -> list[Block]:
        """The blocks with these numbers, in this order."""
        found: dict[int, Block] = {}
        by_shard: dict[int, list[int]] = {}
        for i in wanted:
            if not 0 <= i < len(self):
                raise IndexError(f"there is no block {i}: the shards have {len(self):,}")
            by_shard.setdefault(bisect_right(self._behind, i), []).append(i)
        for shard, numbers in by_shard.items():
            first = self._behind[shard - 1] if shard else 0
            for i, data in zip(numbers, self._reader(shard).read([i - first for i in numbers]), strict=True):
                found[i] = Block.from_bytes(data)
        return [found[i] for i in wanted]

    def _reader(self, shard: int) -> Any:
        if shard not in self._readers:
            from array_record.python.array_record_module import ArrayRecordReader

            self._readers[shard] = ArrayRecordReader(str(self.folder / self.names[shard]))
        return self._readers[shard]
