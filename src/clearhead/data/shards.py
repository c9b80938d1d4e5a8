"""Shards: a prepared corpus in blocks: tokens, where sentences end in them, and which documents they are of.

A block holds whole sentences of one document after another, up to a number of tokens. What is trained is made of blocks
when they are read: sequences for masking, pairs of sentences, running text. A folder of shards has a manifest with the
SHA-256 and the number of blocks of each; any block is read without those before it.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from clearhead.data.batches import Integers
from clearhead.data.ragged import Columns
from clearhead.files import inside, read_manifest, verify

Sizes = npt.NDArray[np.uint32]

SIZES = ".sizes"  # ends the name of the file beside a shard
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
        return pieces_of(self.tokens, self.sentences, self.starts)


def pieces_of(tokens: Integers, ends: Integers, starts: Integers) -> Iterator[tuple[Integers, Integers]]:
    """The tokens from each start on, and the ends of sentences in them."""
    for begin, end in pairwise([*starts.tolist(), len(tokens)]):
        yield tokens[begin:end], ends[(ends > begin) & (ends <= end)] - begin


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


def write_shard(path: Path, blocks: Iterable[Block]) -> Sizes:
    """Write blocks to a shard; returns the tokens, sentences and documents of each. The same blocks, the same bytes."""
    from array_record.python.array_record_module import ArrayRecordWriter

    writer = ArrayRecordWriter(str(path), "group_size:1,zstd:3")
    sizes: list[tuple[int, int, int]] = []
    try:
        for block in blocks:
            writer.write(block.to_bytes())
            sizes.append((len(block.tokens), len(block.sentences), len(block.documents)))
    finally:
        writer.close()
    return np.array(sizes, dtype="<u4").reshape(-1, 3)


class Shards(Sequence[Block]):
    """The blocks of folders of shards, one after another, each read when it is asked for.

    Beside each shard stands how many tokens, sentences and documents its blocks have, which is mapped, not read.
    """

    def __init__(self, *folders: str | Path, check: bool = True) -> None:
        self.folders = [Path(folder) for folder in folders]
        self._paths: list[Path] = []
        self._behind: list[int] = []
        self._readers: dict[int, Any] = {}
        self._tables: dict[int, Sizes] = {}
        sizes: list[int] = []
        for folder in self.folders:
            manifest = verify(folder) if check else read_manifest(folder)
            if "blocks" not in manifest.facts:
                raise ValueError(f"{folder} holds no shards: `clearhead prepare` makes them")
            self._add(folder, manifest.facts)
            sizes.append(int(manifest.facts["block"]))
        self.size = max(sizes)  # the most tokens of a block

    def _add(self, folder: Path, facts: Mapping[str, Any]) -> None:
        words: dict[str, str] = facts["tokenizer"]
        if self._behind and words != self.tokenizer:
            raise ValueError(f"{folder} was prepared with another tokenizer than {self.folders[0]}: read them apart")
        self.tokenizer = words  # its fingerprint
        for name, count in facts["blocks"]:
            self._paths.append(inside(folder, name))
            self._behind.append(count + (self._behind[-1] if self._behind else 0))

    def __len__(self) -> int:
        return self._behind[-1] if self._behind else 0

    def __getitem__(self, i: int) -> Block:  # type: ignore[override]
        return self.take([i])[0]

    def take(self, wanted: Sequence[int] | Integers) -> list[Block]:
        """The blocks with these numbers, in this order."""
        found: dict[int, Block] = {}
        for shard, places, inner in self._by_shard(wanted):
            for place, data in zip(places.tolist(), self._reader(shard).read(inner.tolist()), strict=True):
                found[place] = Block.from_bytes(data)
        return [found[place] for place in range(len(wanted))]

    def sizes(self, wanted: Sequence[int] | Integers) -> Integers:
        """Tokens, sentences and documents of the blocks with these numbers, (n, 3)."""
        found = np.zeros((len(wanted), 3), dtype=np.int64)
        for shard, places, inner in self._by_shard(wanted):
            found[places] = self._table(shard)[inner]
        return found

    def _by_shard(self, wanted: Sequence[int] | Integers) -> Iterator[tuple[int, Integers, Integers]]:
        """A shard, which of the wanted blocks are in it, and their numbers there."""
        numbers = np.asarray(wanted, dtype=np.int64)
        if len(bad := numbers[(numbers < 0) | (numbers >= len(self))]):
            raise IndexError(f"there is no block {bad[0]}: the shards have {len(self):,}")
        shards = np.searchsorted(self._behind, numbers, side="right")
        for shard in np.unique(shards).tolist():
            places = np.flatnonzero(shards == shard)
            yield shard, places, numbers[places] - (self._behind[shard - 1] if shard else 0)

    def _table(self, shard: int) -> Sizes:
        if shard not in self._tables:
            path = self._paths[shard].with_suffix(SIZES)
            self._tables[shard] = np.memmap(path, "<u4", "r").reshape(-1, 3)
        return self._tables[shard]

    def _reader(self, shard: int) -> Any:
        if shard not in self._readers:
            from array_record.python.array_record_module import ArrayRecordReader

            self._readers[shard] = ArrayRecordReader(str(self._paths[shard]))
        return self._readers[shard]


@dataclass(frozen=True, eq=False)
class Stretch:
    """Some blocks of shards, from `first` on: what a run trains on, or what it keeps aside. An example is a block."""

    shards: Shards
    first: int
    count: int

    def columns(self) -> Columns:
        """Tokens, the ends of sentences and the starts of documents, as a task reads them."""
        return {name: _Part(self, place) for place, name in enumerate(PARTS)}

    def blocks(self, examples: Integers) -> list[Block]:
        """The blocks of these examples; those of the last call are at hand, as one column after another is read."""
        kept = self.__dict__.get("_kept")
        key = examples.tobytes()
        if kept is None or kept[0] != key:
            kept = key, self.shards.take(examples + self.first)
            self.__dict__["_kept"] = kept
        return kept[1]


PARTS = ("ids", "ends", "starts")


@dataclass(frozen=True, eq=False)
class _Part:
    """One column of a stretch of blocks."""

    stretch: Stretch
    place: int  # in PARTS, and among the sizes of a block

    def __len__(self) -> int:
        return self.stretch.count

    def lengths(self, examples: Integers | None = None) -> Integers:
        """How many there are in these blocks; without any, in all."""
        wanted = np.arange(self.stretch.count) if examples is None else examples
        return self.stretch.shards.sizes(wanted + self.stretch.first)[:, self.place]

    def take(self, examples: Integers) -> tuple[Integers, Integers]:
        """Those of these blocks one after another, and how many each has."""
        parts = [(block.tokens, block.sentences, block.starts)[self.place] for block in self.stretch.blocks(examples)]
        return np.concatenate([np.zeros(0, dtype=np.int64), *parts]), np.array([len(p) for p in parts], dtype=np.int64)


def size_of(columns: Columns) -> int | None:
    """The most tokens of a block, where the columns are those of shards."""
    column = columns.get("ids")
    return column.stretch.shards.size if isinstance(column, _Part) else None
