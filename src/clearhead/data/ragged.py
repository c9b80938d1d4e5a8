"""Ragged: the tokens of many examples in one flat array, in memory or mapped from disk."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from clearhead.data.batches import Integers
from clearhead.files import inside, new_folder, read_manifest, verify, write_manifest


@dataclass(frozen=True, eq=False)
class Ragged:
    """Example i is `ids[offsets[i] : offsets[i + 1]]`."""

    ids: npt.NDArray[Any]  # (N,) the smallest unsigned integers that hold the vocabulary; or numbers, as float32
    offsets: Integers  # (examples + 1,)

    @staticmethod
    def of(examples: Iterable[Iterable[int]]) -> Ragged:
        """The examples one after another."""
        arrays = [np.asarray(list(e), dtype=np.uint32) for e in examples]
        offsets = np.concatenate([[0], np.cumsum([len(a) for a in arrays])]).astype(np.int64)
        ids = np.concatenate(arrays) if arrays else np.zeros(0, dtype=np.uint32)
        return Ragged(ids.astype(np.uint16) if ids.max(initial=0) < 2**16 else ids, offsets)

    @staticmethod
    def of_numbers(numbers: Iterable[float]) -> Ragged:
        """A number for each example."""
        held = np.asarray(list(numbers), dtype=np.float32)
        return Ragged(held, np.arange(len(held) + 1, dtype=np.int64))

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def lengths(self, examples: Integers | None = None) -> Integers:
        """Tokens of these examples; without any, of all."""
        return np.diff(self.offsets) if examples is None else self.offsets[examples + 1] - self.offsets[examples]

    def take(self, examples: Integers) -> tuple[Integers, Integers]:
        """The tokens of these examples one after another, (N,), and their lengths."""
        starts, sizes = self.offsets[examples], self.lengths(examples)
        shift = np.repeat(starts - (np.cumsum(sizes) - sizes), sizes)
        taken = self.ids[np.arange(len(shift)) + shift]
        return taken if taken.dtype.kind == "f" else taken.astype(np.int64), sizes


class Column(Protocol):
    """One list of whole numbers for each example, wherever they are kept."""

    def __len__(self) -> int: ...

    def lengths(self, examples: Integers | None = None) -> Integers:
        """How many numbers these examples have; without any, all."""
        ...

    def take(self, examples: Integers) -> tuple[Integers, Integers]:
        """The numbers of these examples one after another, and their lengths."""
        ...


Columns = Mapping[str, Column]
"""Examples of several columns, such as a source and a target."""
Held = Mapping[str, Ragged]
"""Columns that are at hand."""


def save_columns(columns: Held, folder: Path, facts: Mapping[str, Any]) -> None:
    """Write the columns to a new folder, whole or not at all."""
    with new_folder(folder) as target:
        for name, column in columns.items():
            np.save(target / f"{name}.ids.npy", column.ids)
            np.save(target / f"{name}.offsets.npy", column.offsets)
        write_manifest(target, {**facts, "columns": list(columns)})


def open_columns(folder: Path) -> tuple[Held, Mapping[str, Any]]:
    """Columns that `save_columns` wrote, mapped from disk, and the facts that were kept with them."""
    verify(folder)
    facts = read_manifest(folder).facts
    columns = {
        name: Ragged(
            np.load(inside(folder, f"{name}.ids.npy"), mmap_mode="r", allow_pickle=False),
            np.load(inside(folder, f"{name}.offsets.npy"), allow_pickle=False),
        )
        for name in facts["columns"]
    }
    return columns, facts
