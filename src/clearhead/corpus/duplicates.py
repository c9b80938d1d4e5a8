"""Duplicates among the documents of all tasks: equal hashes, and clusters of near duplicates.

A task that compares reads its range of hashes of every signature file, one file after another. So neither its memory
nor its open files grow with the corpus: more documents are more tasks.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clearhead.files import write_atomic

NUM_BUCKETS, HASHES_PER_BUCKET = 14, 8  # of MinHash
HASH = np.dtype([("hash", "<u8"), ("document", "<u4")])
SIGNATURE = np.dtype([("hashes", "<u8", (HASHES_PER_BUCKET,)), ("document", "<u4")])  # as datatrove writes them
PLACE = np.dtype([("task", "<u4"), ("document", "<u4")])  # a document: its task, and its number among those of the task
MAX_MINHASH = 2**61 - 1
MAX_PAIRS = 2**31 - 1  # that scipy's clusters can hold
SAMPLE_FILES, SAMPLES = 256, 64  # whose hashes divide a bucket into ranges of equal size


def hash_path(folder: Path | str, rank: int) -> Path:
    """Return the file with the sorted hashes of the documents of a task."""
    return Path(folder) / f"{rank:05d}.hashes"


def signature_path(folder: Path | str, bucket: int, rank: int) -> Path:
    """Return the file with the sorted MinHash signatures of a task in a bucket."""
    return Path(folder) / f"bucket_{bucket:03d}" / f"{rank:05d}.minhash.sig"


@dataclass(frozen=True)
class HashDocuments:
    """Write the sorted hashes of the documents of a task; documents that differ in whitespace and case are equal."""

    folder: str

    def __call__(self, data: Iterable[Any], rank: int, world_size: int) -> None:
        digests = [blake2b(_normalized(document.text).encode(), digest_size=8).digest() for document in data]
        rows = np.empty(len(digests), HASH)
        rows["hash"], rows["document"] = np.frombuffer(b"".join(digests), "<u8"), np.arange(len(digests))
        path = hash_path(self.folder, rank)
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(path, np.sort(rows, order=["hash", "document"]).tobytes())


@dataclass(frozen=True)
class FindEqual:
    """Write the places of all documents but the first of each hash, in one part of the range of hashes."""

    hashes: str
    found: str
    tasks: int  # that wrote hashes

    def __call__(self, data: object, rank: int, world_size: int) -> None:
        low, high = 2**64 * rank // world_size, 2**64 * (rank + 1) // world_size
        paths = [hash_path(self.hashes, task) for task in range(self.tasks)]
        rows, tasks = _read_range(paths, HASH, "hash", low, high)
        order = np.argsort(rows["hash"], kind="stable")  # equal hashes stay in the order of tasks and documents
        hashes = rows["hash"][order]
        repeated = order[1:][hashes[1:] == hashes[:-1]]
        _write_places(Path(self.found) / f"{rank:05d}", tasks[repeated], rows["document"][repeated])


@dataclass(frozen=True)
class ComparePairs:
    """Write pairs of documents with equal signatures in a bucket, in one part of the range of its hashes."""

    signatures: str
    pairs: str
    tasks: int  # that wrote signatures

    def __call__(self, data: object, rank: int, world_size: int) -> None:
        bucket, part = divmod(rank, world_size // NUM_BUCKETS)
        paths = [signature_path(self.signatures, bucket, task) for task in range(self.tasks)]
        edges = _equal_parts(paths, world_size // NUM_BUCKETS)
        rows, tasks = _read_range(paths, SIGNATURE, "hashes", edges[part], edges[part + 1])
        order = np.lexsort([rows["hashes"][:, i] for i in reversed(range(HASHES_PER_BUCKET))])
        hashes = rows["hashes"][order]
        equal = (hashes[1:] == hashes[:-1]).all(1)
        pairs = np.empty((int(equal.sum()), 2), PLACE)
        for side, chosen in enumerate((order[:-1][equal], order[1:][equal])):
            pairs["task"][:, side], pairs["document"][:, side] = tasks[chosen], rows["document"][chosen]
        path = Path(self.pairs) / f"{rank:05d}"
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(path, pairs.tobytes())


@dataclass(frozen=True)
class ClusterPairs:
    """Write the places of all documents but the first of each cluster; a pair connects two documents."""

    pairs: str
    found: str

    def __call__(self, data: object, rank: int, world_size: int) -> None:
        from scipy.sparse import coo_array
        from scipy.sparse.csgraph import connected_components

        read = [np.fromfile(path, PLACE) for path in sorted(Path(self.pairs).iterdir())]
        places = np.concatenate([np.empty(0, PLACE), *read])
        if len(places) // 2 > MAX_PAIRS:
            raise ValueError(
                f"{len(places) // 2:,} pairs of near duplicates are too many for one cluster task, which takes "
                f"{MAX_PAIRS:,}: prepare the corpus in several folders, and train on a list of them"
            )
        names, numbers = np.unique(places["task"].astype(np.uint64) << 32 | places["document"], return_inverse=True)
        first, second = numbers.reshape(-1, 2).T
        graph = coo_array((np.ones(len(first), bool), (first, second)), shape=(len(names), len(names)))
        _, clusters = connected_components(graph, directed=False)
        dropped = np.delete(names, np.unique(clusters, return_index=True)[1])
        _write_places(Path(self.found) / "00000", dropped >> 32, dropped & np.uint64(2**32 - 1))


@dataclass(frozen=True)
class DropFound:
    """Drop the documents of a task whose places were written."""

    found: str

    def __call__(self, data: Iterable[Any], rank: int, world_size: int) -> Iterator[Any]:
        dropped: set[int] = set()
        for path in sorted(Path(self.found).iterdir()):
            places = _open(path, PLACE)
            tasks = places["task"]
            dropped.update(places["document"][bisect_left(tasks, rank) : bisect_left(tasks, rank + 1)].tolist())
        return (document for number, document in enumerate(data) if number not in dropped)


def _normalized(text: str) -> str:
    """Return the text that is compared: case-folded, with single spaces."""
    return " ".join(text.casefold().split())


def _open(path: Path, dtype: np.dtype[Any]) -> NDArray[Any]:
    return np.memmap(path, dtype, "r") if path.stat().st_size else np.empty(0, dtype)


def _read_range(
    paths: list[Path], dtype: np.dtype[Any], field: str, low: int, high: int
) -> tuple[NDArray[Any], NDArray[np.uint32]]:
    """Return the rows of sorted files whose first hash is in [low, high), and the number of the file of each row."""
    parts: list[NDArray[Any]] = [np.empty(0, dtype)]
    for path in paths:
        rows = _open(path, dtype)
        start, end = (bisect_left(rows, bound, key=lambda row: _first(row, field)) for bound in (low, high))
        parts.append(np.array(rows[start:end]))
    files = np.repeat(np.arange(len(paths), dtype=np.uint32), [len(part) for part in parts[1:]])
    return np.concatenate(parts), files


def _first(row: Any, field: str) -> int:
    return int(np.ravel(row[field])[0])


def _equal_parts(paths: list[Path], parts: int) -> list[int]:
    """Return bounds of the first hash that divide the signatures of these files into parts of about equal size."""
    if parts == 1:
        return [0, MAX_MINHASH + 1]
    some = (_open(path, SIGNATURE) for path in paths[:: max(1, len(paths) // SAMPLE_FILES)])
    sample = np.sort(np.concatenate([rows["hashes"][:: max(1, len(rows) // SAMPLES), 0] for rows in some]))
    inner = [int(sample[len(sample) * i // parts]) if len(sample) else 0 for i in range(1, parts)]
    return [0, *inner, MAX_MINHASH + 1]


def _write_places(path: Path, tasks: NDArray[Any], documents: NDArray[Any]) -> None:
    """Write places in the order of tasks and documents."""
    places = np.empty(len(tasks), PLACE)
    places["task"], places["document"] = tasks, documents
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(path, np.sort(places, order=["task", "document"]).tobytes())
