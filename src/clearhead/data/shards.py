"""Shards: a prepared corpus as blocks of tokens with their sentence ends and documents.

A block holds full sentences of consecutive documents, up to a number of tokens. Training examples are made from blocks
when they are read: sequences for masking, sentence pairs, running text. A folder of shards has a manifest with the
SHA-256 and the number of blocks of each shard; blocks can be read in any order.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from clearhead.data.batches import Integers
from clearhead.data.ragged import Columns
from clearhead.files import Manifest, read_manifest, read_parts, safe_join, verify

Sizes = npt.NDArray[np.uint32]

SIZES = ".sizes"  # suffix of the file with the block sizes of a shard
FORMAT = 1
_HEADER = struct.Struct("<BBxxIII")  # format, bytes per token, number of tokens, sentences and documents


@dataclass(frozen=True, eq=False)
class ShardBlock:
    """A block: sentences of consecutive documents."""

    tokens: Integers  # (N,)
    sentences: Integers  # (sentences,) end of each sentence; the last is N
    starts: Integers  # (documents,) first token of each document; the first is 0
    documents: Integers  # (documents,) document numbers within the shard

    def to_bytes(self) -> bytes:
        """Serialize the block as it is stored in a shard."""
        dtype = np.uint32 if self.tokens.max(initial=0) >= 2**16 else np.uint16
        header = _HEADER.pack(FORMAT, dtype().itemsize, len(self.tokens), len(self.sentences), len(self.documents))
        rest = (self.sentences.astype("<u4"), self.starts.astype("<u4"), self.documents.astype("<u8"))
        tokens = self.tokens.astype(np.dtype(dtype).newbyteorder("<")).tobytes()
        return b"".join([header, tokens, *(r.tobytes() for r in rest)])

    @staticmethod
    def from_bytes(data: bytes) -> ShardBlock:
        """Deserialize a block written by `to_bytes`; raises a ValueError for invalid data."""
        if len(data) < _HEADER.size:
            raise ValueError(f"a block of {len(data)} bytes is truncated")
        version, width, tokens, sentences, documents = _HEADER.unpack_from(data)
        expected = _HEADER.size + width * tokens + 4 * (sentences + documents) + 8 * documents
        if version != FORMAT or width not in (2, 4) or len(data) != expected:
            raise ValueError(f"not a block of format {FORMAT}: {len(data)} bytes of format {version}")
        parts, offset = [], _HEADER.size
        for kind, count in ((f"<u{width}", tokens), ("<u4", sentences), ("<u4", documents), ("<u8", documents)):
            parts.append(np.frombuffer(data, kind, count, offset).astype(np.int64))
            offset += np.dtype(kind).itemsize * count
        return ShardBlock(*parts)

    def pieces(self) -> Iterator[tuple[Integers, Integers]]:
        """Yield the tokens of each document and the ends of its sentences."""
        return sentence_pieces(self.tokens, self.sentences, self.starts)


def sentence_pieces(tokens: Integers, ends: Integers, starts: Integers) -> Iterator[tuple[Integers, Integers]]:
    """Yield the tokens from each start to the next, and the ends of sentences in them."""
    for begin, end in pairwise([*starts.tolist(), len(tokens)]):
        yield tokens[begin:end], ends[(ends > begin) & (ends <= end)] - begin


def packed(documents: Iterable[Sequence[Sequence[int]]], size: int) -> Iterator[ShardBlock]:
    """Pack documents, given as lists of tokenized sentences, into blocks of at most `size` tokens.

    A sentence longer than a block is split; one that does not fit starts the next block. Documents are numbered from 0;
    a document without tokens keeps its number but appears in no block.
    """
    tokens: list[int] = []
    ends: list[int] = []
    starts: list[int] = []
    numbers: list[int] = []

    def block() -> ShardBlock:
        full = ShardBlock(*(np.array(part, dtype=np.int64) for part in (tokens, ends, starts, numbers)))
        for part in (tokens, ends, starts, numbers):
            part.clear()
        return full

    for number, sentences in enumerate(documents):
        for sentence in sentences:
            for begin in range(0, len(sentence), size):
                piece = sentence[begin : begin + size]
                if len(tokens) + len(piece) > size:
                    yield block()
                if not numbers or numbers[-1] != number:
                    starts.append(len(tokens))
                    numbers.append(number)
                tokens += piece
                ends.append(len(tokens))
    if tokens:
        yield block()


def write_shard(path: Path, blocks: Iterable[ShardBlock]) -> Sizes:
    """Write blocks to a shard, deterministically; returns the numbers of tokens, sentences and documents, (n, 3)."""
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


class Shards:
    """The blocks of one or more folders of shards as one sequence; blocks are read on demand.

    The block sizes of each shard are in a file of their own, which is memory-mapped.
    """

    def __init__(self, *folders: str | Path, check: bool = True) -> None:
        self.folders = [Path(folder) for folder in folders]
        self._paths: list[Path] = []
        self._ends: list[int] = []  # number of blocks up to the end of each shard
        self._readers: dict[int, Any] = {}
        self._tables: dict[int, Sizes] = {}
        sizes: list[int] = []
        for folder in self.folders:
            manifest = verify(folder) if check else read_manifest(folder)
            self._add(folder, manifest)
            sizes.append(int(manifest.metadata["block"]))
        self.size = max(sizes)  # maximum tokens of a block

    def _add(self, folder: Path, manifest: Manifest) -> None:
        parts = {folder: manifest} | {folder / name: part for name, part in read_parts(folder, manifest).items()}
        blocks = [(path, *one) for path, part in sorted(parts.items()) for one in part.metadata.get("blocks", ())]
        if not blocks and "block" not in manifest.metadata:
            raise ValueError(f"{folder} has no shards: create them with `clearhead prepare`")
        tokenizer: dict[str, str] = manifest.metadata["tokenizer"]
        if self._ends and tokenizer != self.tokenizer:
            raise ValueError(f"{folder} has another tokenizer than {self.folders[0]}: read them separately")
        self.tokenizer = tokenizer  # fingerprint
        for path, name, count in blocks:
            self._paths.append(safe_join(path, name))
            self._ends.append(count + (self._ends[-1] if self._ends else 0))

    def __len__(self) -> int:
        return self._ends[-1] if self._ends else 0

    def __getitem__(self, i: int) -> ShardBlock:
        return self.take([i])[0]

    def take(self, wanted: Sequence[int] | Integers) -> list[ShardBlock]:
        blocks: dict[int, ShardBlock] = {}
        for shard, places, inner in self._by_shard(wanted):
            for place, data in zip(places.tolist(), self._reader(shard).read(inner.tolist()), strict=True):
                blocks[place] = ShardBlock.from_bytes(data)
        return [blocks[place] for place in range(len(wanted))]

    def sizes(self, wanted: Sequence[int] | Integers) -> Integers:
        sizes = np.zeros((len(wanted), 3), dtype=np.int64)
        for shard, places, inner in self._by_shard(wanted):
            sizes[places] = self._table(shard)[inner]
        return sizes

    def _by_shard(self, wanted: Sequence[int] | Integers) -> Iterator[tuple[int, Integers, Integers]]:
        """Yield each shard with the positions of its blocks in `wanted` and their numbers in the shard."""
        numbers = np.asarray(wanted, dtype=np.int64)
        if len(bad := numbers[(numbers < 0) | (numbers >= len(self))]):
            raise IndexError(f"there is no block {bad[0]}: the shards have {len(self):,} blocks")
        shards = np.searchsorted(self._ends, numbers, side="right")
        for shard in np.unique(shards).tolist():
            places = np.flatnonzero(shards == shard)
            yield shard, places, numbers[places] - (self._ends[shard - 1] if shard else 0)

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
class ShardRange:
    """`count` blocks of shards from `first` on, as training or validation examples; an example is a block."""

    shards: Shards
    first: int
    count: int

    def columns(self) -> Columns:
        """Return the columns that a task reads: tokens, sentence ends and document starts."""
        return {name: _ShardColumn(self, index) for index, name in enumerate(SHARD_COLUMNS)}

    def blocks(self, examples: Integers) -> list[ShardBlock]:
        """Return the blocks of these examples; the last result is cached, as the columns are read one by one."""
        cached = self.__dict__.get("_cached")
        key = examples.tobytes()
        if cached is None or cached[0] != key:
            cached = key, self.shards.take(examples + self.first)
            self.__dict__["_cached"] = cached
        return cached[1]


SHARD_COLUMNS = ("ids", "ends", "starts")


@dataclass(frozen=True, eq=False)
class _ShardColumn:
    """One column of a range of blocks."""

    source: ShardRange
    index: int  # in SHARD_COLUMNS, and among the sizes of a block

    def __len__(self) -> int:
        return self.source.count

    def lengths(self, examples: Integers | None = None) -> Integers:
        wanted = np.arange(self.source.count) if examples is None else examples
        return self.source.shards.sizes(wanted + self.source.first)[:, self.index]

    def take(self, examples: Integers) -> tuple[Integers, Integers]:
        parts = [(block.tokens, block.sentences, block.starts)[self.index] for block in self.source.blocks(examples)]
        return np.concatenate([np.zeros(0, dtype=np.int64), *parts]), np.array([len(p) for p in parts], dtype=np.int64)


def block_size_of(columns: Columns) -> int | None:
    """Return the maximum tokens of a block if the columns are those of shards, else None."""
    column = columns.get("ids")
    return column.source.shards.size if isinstance(column, _ShardColumn) else None
