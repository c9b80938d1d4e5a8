"""Ragged arrays: the tokens of many examples in one flat array, in memory or memory-mapped from disk."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from clearhead.data.batches import Integers
from clearhead.files import new_folder, read_manifest, safe_join, verify, write_manifest


@dataclass(frozen=True, eq=False)
class Ragged:
    """Sequences of different lengths in one array; example i is `ids[offsets[i] : offsets[i + 1]]`."""

    ids: npt.NDArray[Any]  # (N,) the smallest unsigned dtype that holds the vocabulary, or float32 values
    offsets: Integers  # (examples + 1,)

    @staticmethod
    def from_lists(examples: Iterable[Iterable[int]]) -> Ragged:
        """Concatenate lists of token ids; uint16 where the ids fit, else uint32."""
        arrays = [np.asarray(list(e), dtype=np.uint32) for e in examples]
        offsets = np.concatenate([[0], np.cumsum([len(a) for a in arrays])]).astype(np.int64)
        ids = np.concatenate(arrays) if arrays else np.zeros(0, dtype=np.uint32)
        return Ragged(ids.astype(np.uint16) if ids.max(initial=0) < 2**16 else ids, offsets)

    @staticmethod
    def from_numbers(numbers: Iterable[float]) -> Ragged:
        """One float per example, as for regression targets."""
        values = np.asarray(list(numbers), dtype=np.float32)
        return Ragged(values, np.arange(len(values) + 1, dtype=np.int64))

    @staticmethod
    def from_rows(rows: npt.NDArray[Any]) -> Ragged:
        """Rows of one length, (n, length), as examples: the inverse of `stack`."""
        return Ragged(rows.reshape(-1), np.arange(len(rows) + 1, dtype=np.int64) * rows.shape[1])

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def lengths(self, examples: Integers | None = None) -> Integers:
        """Return the lengths of these examples, or of all examples without an argument."""
        return np.diff(self.offsets) if examples is None else self.offsets[examples + 1] - self.offsets[examples]

    def take(self, examples: Integers) -> tuple[Integers, Integers]:
        """Return the concatenated tokens of these examples, (N,), and their lengths."""
        starts, sizes = self.offsets[examples], self.lengths(examples)
        shift = np.repeat(starts - (np.cumsum(sizes) - sizes), sizes)
        values = self.ids[np.arange(len(shift)) + shift]
        return values if values.dtype.kind == "f" else values.astype(np.int64), sizes

    def stack(self, examples: Integers) -> npt.NDArray[Any]:
        """Return examples of one length as rows, (n, length), in their own dtype."""
        length = int(self.offsets[1]) if len(self) else 0
        return np.asarray(self.ids.reshape(len(self), length)[examples])


class Column(Protocol):
    """One list of numbers per example, in memory or on disk."""

    def __len__(self) -> int: ...

    def lengths(self, examples: Integers | None = None) -> Integers:
        """The number of values of each example."""
        ...

    def take(self, examples: Integers) -> tuple[Integers, Integers]:
        """The values of some examples, concatenated, and their lengths."""
        ...


Columns = Mapping[str, Column]
"""Columns of a data set by name, such as source and target."""
InMemoryColumns = Mapping[str, Ragged]
"""Columns as ragged arrays, in memory or memory-mapped."""


def save_columns(columns: InMemoryColumns, folder: Path, metadata: Mapping[str, Any]) -> None:
    """Write the columns and their metadata to a new folder, atomically."""
    with new_folder(folder) as target:
        for name, column in columns.items():
            np.save(target / f"{name}.ids.npy", column.ids)
            np.save(target / f"{name}.offsets.npy", column.offsets)
        write_manifest(target, {**metadata, "columns": list(columns)})


def open_columns(folder: Path) -> tuple[InMemoryColumns, Mapping[str, Any]]:
    """Open columns written by `save_columns`; returns the memory-mapped columns and their metadata."""
    verify(folder)
    metadata = read_manifest(folder).metadata
    columns = {
        name: Ragged(
            np.load(safe_join(folder, f"{name}.ids.npy"), mmap_mode="r", allow_pickle=False),
            np.load(safe_join(folder, f"{name}.offsets.npy"), allow_pickle=False),
        )
        for name in metadata["columns"]
    }
    return columns, metadata
