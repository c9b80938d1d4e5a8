"""Shards: a prepared corpus as blocks of tokens with their sentence ends and documents.

A block holds full sentences of consecutive documents, up to a number of tokens. Training examples are made from blocks
when they are read: sequences for masking, sentence pairs, running text. A folder of shards has a manifest with the
SHA-256 and the number of blocks of each shard; blocks can be read in any order.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from clearhead.data.batches import Integers
from clearhead.data.ragged import Columns
from clearhead.data.remote_shards import RemoteShard, cached_table, reading_pool
from clearhead.files import FileEntry, Manifest, read_manifest, read_parts, safe_join, verify
from clearhead.files.manifest import Folder
from clearhead.files.record_chunks import ChunkTable, chunk_table
from clearhead.files.s3_path import S3Path, folder_at

Sizes = npt.NDArray[np.uint32]

SIZES = ".sizes"  # suffix of the file with the block sizes of a shard
INDEX = ".index"  # suffix of the file with the places of its blocks
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


def write_shard(path: Path, blocks: Iterable[ShardBlock]) -> tuple[Sizes, ChunkTable]:
    """Write blocks to a shard, deterministically; returns two tables with a row for each block.

    The first has the numbers of tokens, sentences and documents, (n, 3), the second the places in the file.
    """
    from array_record.python.array_record_module import ArrayRecordWriter

    writer = ArrayRecordWriter(str(path), "group_size:1,zstd:3")
    sizes: list[tuple[int, int, int]] = []
    checksums: list[int] = []
    try:
        for block in blocks:
            record = block.to_bytes()
            writer.write(record)
            checksums.append(zlib.crc32(record))
            sizes.append((len(block.tokens), len(block.sentences), len(block.documents)))
    finally:
        writer.close()
    return np.array(sizes, dtype="<u4").reshape(-1, 3), chunk_table(path, checksums)


class Shards:
    """The blocks of one or more folders of shards as one sequence; blocks are read on demand.

    The block sizes of each shard are in a file of their own, which is memory-mapped. A folder may be in an object
    store: then this file is copied to the cache when the shard is first used, as is that with the places of blocks.
    """

    def __init__(self, *folders: str | Folder, check: bool = True) -> None:
        self.folders = [folder_at(folder) for folder in folders]
        self._paths: list[Folder] = []
        self._entries: list[Mapping[str, FileEntry]] = []  # of the files beside each shard
        self._pool = reading_pool() if any(isinstance(folder, S3Path) for folder in self.folders) else None
        self._ends: list[int] = []  # number of blocks up to the end of each shard
        self._readers: dict[int, Any] = {}
        self._tables: dict[int, Sizes] = {}
        sizes: list[int] = []
        for folder in self.folders:
            manifest = verify(folder) if check else read_manifest(folder)
            self._add(folder, manifest)
            sizes.append(int(manifest.metadata["block"]))
        self.size = max(sizes)  # maximum tokens of a block

    def _add(self, folder: Folder, manifest: Manifest) -> None:
        parts = {"": manifest} | read_parts(folder, manifest)
        blocks = [
            (folder / name if name else folder, part.files, *one)
            for name, part in sorted(parts.items())
            for one in part.metadata.get("blocks", ())
        ]
        if not blocks and "block" not in manifest.metadata:
            raise ValueError(f"{folder} has no shards: create them with `clearhead prepare`")
        tokenizer: dict[str, str] = manifest.metadata["tokenizer"]
        if self._ends and tokenizer != self.tokenizer:
            raise ValueError(f"{folder} has another tokenizer than {self.folders[0]}: read them separately")
        self.tokenizer = tokenizer  # fingerprint
        for path, files, name, count in blocks:
            self._paths.append(safe_join(path, name))
            self._entries.append(files)
            self._ends.append(count + (self._ends[-1] if self._ends else 0))

    def __len__(self) -> int:
        return self._ends[-1] if self._ends else 0

    def __getitem__(self, i: int) -> ShardBlock:
        return self.take([i])[0]

    @property
    def is_remote(self) -> bool:
        """Whether there are blocks in an object store."""
        return self._pool is not None

    def request(self, wanted: Sequence[int] | Integers) -> None:
        """Begin to read the blocks of these numbers that are in an object store."""
        for shard, _, inner in self._by_shard(wanted):
            reader = self._reader(shard)
            if isinstance(reader, RemoteShard):
                reader.request(inner.tolist())

    def take(self, wanted: Sequence[int] | Integers) -> list[ShardBlock]:
        if self.is_remote:
            self.request(wanted)
        blocks: dict[int, ShardBlock] = {}
        for shard, places, inner in self._by_shard(wanted):
            for place, data in zip(places.tolist(), self._reader(shard).read(inner.tolist()), strict=True):
                blocks[place] = ShardBlock.from_bytes(data)
        return [blocks[place] for place in range(len(wanted))]

    def sizes(self, wanted: Sequence[int] | Integers) -> Integers:
        sizes = np.zeros((len(wanted), 3), dtype=np.int64)
        parts = list(self._by_shard(wanted))
        if self._pool is not None:  # many tables may have to be copied
            list(self._pool.map(self._table, (shard for shard, _, _ in parts if shard not in self._tables)))
        for shard, places, inner in parts:
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
            path = self._paths[shard].with_name(_beside(self._paths[shard], SIZES))
            if isinstance(path, S3Path):
                self._tables[shard] = cached_table(path, self._entries[shard].get(path.name), "<u4")
            else:
                self._tables[shard] = np.memmap(path, "<u4", "r").reshape(-1, 3)
        return self._tables[shard]

    def _reader(self, shard: int) -> Any:
        if shard not in self._readers:
            path = self._paths[shard]
            if isinstance(path, S3Path) and self._pool is not None:
                self._readers[shard] = self._remote(shard, path, self._pool)
            else:
                from array_record.python.array_record_module import ArrayRecordReader

                self._readers[shard] = ArrayRecordReader(str(path))
        return self._readers[shard]

    def _remote(self, shard: int, path: S3Path, pool: ThreadPoolExecutor) -> RemoteShard:
        index = path.with_name(_beside(path, INDEX))
        return RemoteShard(path, index, self._entries[shard].get(index.name), pool)


def _beside(path: Folder, suffix: str) -> str:
    """Return the name of a file beside a shard."""
    return path.name.rpartition(".")[0] + suffix


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


def remote_range(columns: Columns) -> ShardRange | None:
    """Return the blocks of the columns if some are in an object store, else None."""
    column = columns.get("ids")
    return column.source if isinstance(column, _ShardColumn) and column.source.shards.is_remote else None
