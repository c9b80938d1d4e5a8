"""Shards in an object store: each block is read as a range of its shard, many at a time, and ahead of its use."""

from collections.abc import Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from clearhead.files import FileEntry, IntegrityError, sha256, write_atomic
from clearhead.files.cache import cache_home
from clearhead.files.record_chunks import ChunkTable, record_of
from clearhead.files.s3_path import S3Path

PARALLEL_READS = 16


def reading_pool() -> ThreadPoolExecutor:
    """Return the threads that read blocks."""
    return ThreadPoolExecutor(PARALLEL_READS, thread_name_prefix="blocks")


def cached_table(path: S3Path, entry: FileEntry | None, dtype: str) -> npt.NDArray[Any]:
    """Return a table of a shard, (n, 3), memory-mapped from a verified copy in the cache."""
    if entry is None:
        raise ValueError(
            f"{path} is missing: the shards were prepared by an earlier version. Run `clearhead prepare` again"
        )
    copy = cache_home() / "tables" / entry.sha256
    if not copy.exists():
        copy.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(copy, path.read_bytes())
        if sha256(copy) != entry.sha256:
            copy.unlink()
            raise IntegrityError(path.parent, {path.name: "was changed: its SHA-256 differs"})
    if entry.size == 0:
        return np.zeros((0, 3), dtype)
    return np.memmap(copy, dtype, "r").reshape(-1, 3)


class RemoteShard:
    """The blocks of one shard."""

    def __init__(self, path: S3Path, index: S3Path, entry: FileEntry | None, pool: ThreadPoolExecutor) -> None:
        self._path, self._index, self._entry, self._pool = path, index, entry, pool
        self._ahead: dict[int, Future[bytes]] = {}

    def request(self, numbers: Iterable[int]) -> None:
        """Begin to read these blocks."""
        for number in numbers:
            if number not in self._ahead:
                self._ahead[number] = self._pool.submit(self._read, number)

    def read(self, numbers: Sequence[int]) -> list[bytes]:
        """Return these blocks; those that were not requested before are read now."""
        self.request(numbers)
        records = {number: self._ahead.pop(number).result() for number in dict.fromkeys(numbers)}
        return [records[number] for number in numbers]

    @cached_property
    def _table(self) -> ChunkTable:
        return cached_table(self._index, self._entry, "<u8")

    def _read(self, number: int) -> bytes:
        place = self._table[number].tolist()
        try:
            return record_of(self._path.read_bytes(place[0], place[1]), place)
        except ValueError as error:
            raise ValueError(f"block {number:,} of {self._path} cannot be read: {error}") from None
