"""Batching: the examples of batch i of an epoch, as a pure function of (seed, epoch, i)."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

Integers = npt.NDArray[np.int64]
"""An array of 64-bit integers."""

logging.getLogger("absl").setLevel(logging.ERROR)  # Grain warns that JAX is missing, which is not used here


@dataclass(frozen=True, eq=False)
class TokenBudgetBatches:
    """Batches of about `budget` tokens, shuffled anew every epoch.

    The order of an epoch is a shuffle of the indices (Grain's, with constant cost for any number of examples), and a
    batch is a contiguous part of it: example j belongs to batch `tokens before it // budget`. Nothing is sorted by
    length and nothing depends on the reader, so any number of processes, interrupted and resumed at any step, gets the
    same batches. The remainder of an epoch joins the last batch where it is less than half a budget, or where some
    order could leave it empty.
    """

    lengths: Integers  # (examples,)
    budget: int
    seed: int = 0
    shuffled: bool = True

    def __post_init__(self) -> None:
        if len(self.lengths) == 0:
            raise ValueError("there are no examples to batch")
        if self.budget < 1:
            raise ValueError(f"a batch of {self.budget} tokens: it must have at least 1")
        if (longest := int(self.lengths.max())) > self.budget:
            raise ValueError(
                f"an example has {longest:,} tokens, and a batch holds {self.budget:,}: "
                "raise batch_tokens, or lower max_len"
            )

    @cached_property
    def total(self) -> int:
        """Tokens of all examples."""
        return int(self.lengths.sum())

    def __len__(self) -> int:
        """Return the number of batches per epoch; the same for all epochs, and no batch is empty."""
        last = self.total - int(self.lengths.max())  # minimum number of tokens before the last example
        return max(1, min(round(self.total / self.budget), last // self.budget + 1))

    def place(self, step: int) -> tuple[int, int]:
        """The epoch of a step, and the batch within it."""
        return divmod(step, len(self))

    def batch(self, epoch: int, i: int) -> Integers:
        """The examples of batch i of an epoch."""
        if not 0 <= i < len(self):
            raise ValueError(f"there is no batch {i}: an epoch has {len(self)}")
        order, before = self._epoch(epoch)
        first = int(np.searchsorted(before, i * self.budget))
        last = len(order) if i == len(self) - 1 else int(np.searchsorted(before, (i + 1) * self.budget))
        return order[first:last]

    def _epoch(self, epoch: int) -> tuple[Integers, Integers]:
        """Return the shuffled example indices of an epoch and the number of tokens before each."""
        cached = self.__dict__.get("_cached")
        if cached is None or cached[0] != epoch:
            order = shuffle(len(self.lengths), self.seed, epoch) if self.shuffled else np.arange(len(self.lengths))
            sizes = self.lengths[order]
            cached = epoch, order, np.cumsum(sizes) - sizes
            self.__dict__["_cached"] = cached
        return cached[1], cached[2]


@dataclass(frozen=True, eq=False)
class FixedSizeBatches:
    """Batches of `size` examples, shuffled anew every epoch; the remainder joins the last batch where it is small.

    Only the indices of the requested batch are computed, so the cost does not depend on the number of examples.
    """

    count: int
    size: int
    seed: int = 0

    def __post_init__(self) -> None:
        if self.count < 1:
            raise ValueError("there are no examples to batch")
        if self.size < 1:
            raise ValueError(f"a batch of {self.size} examples: it must have at least 1")

    def __len__(self) -> int:
        return max(1, min(round(self.count / self.size), (self.count - 1) // self.size + 1))

    def place(self, step: int) -> tuple[int, int]:
        """The epoch of a step, and the batch within it."""
        return divmod(step, len(self))

    def batch(self, epoch: int, i: int) -> Integers:
        """The examples of batch i of an epoch."""
        if not 0 <= i < len(self):
            raise ValueError(f"there is no batch {i}: an epoch has {len(self)}")
        last = self.count if i == len(self) - 1 else (i + 1) * self.size
        return shuffle(self.count, self.seed, epoch, range(i * self.size, last))


@dataclass(frozen=True, eq=False)
class DistinctBatches:
    """Batches of `size` examples without a common text, shuffled anew every epoch.

    In-batch negatives need it: a text that occurs twice in a batch would be its own negative. Each example of the
    shuffled epoch joins the first batch that has room and none of its texts. One that finds none joins the smallest
    batch without its texts; if every batch has one of them, it is left out of this epoch.
    """

    keys: Integers  # (texts,) a number for each distinct text, example after example
    counts: Integers  # (examples,) the number of texts of each example
    size: int
    seed: int = 0

    def __post_init__(self) -> None:
        if len(self.counts) < 1:
            raise ValueError("there are no examples to batch")
        if self.size < 1:
            raise ValueError(f"a batch of {self.size} examples: it must have at least 1")

    def __len__(self) -> int:
        return -(-len(self.counts) // self.size)

    def place(self, step: int) -> tuple[int, int]:
        """The epoch of a step, and the batch within it."""
        return divmod(step, len(self))

    def batch(self, epoch: int, i: int) -> Integers:
        """The examples of batch i of an epoch."""
        if not 0 <= i < len(self):
            raise ValueError(f"there is no batch {i}: an epoch has {len(self)}")
        cached = self.__dict__.get("_cached")
        if cached is None or cached[0] != epoch:
            cached = epoch, self._epoch(epoch)
            self.__dict__["_cached"] = cached
        return cached[1][i]

    def _epoch(self, epoch: int) -> list[Integers]:
        ends = np.cumsum(self.counts)
        texts = [set(part.tolist()) for part in np.split(self.keys, ends[:-1])]
        members: list[list[int]] = [[] for _ in range(len(self))]
        seen: list[set[int]] = [set() for _ in members]
        first = 0  # batches before it are full
        for example in shuffle(len(self.counts), self.seed, epoch).tolist():
            while first < len(members) and len(members[first]) >= self.size:
                first += 1
            own = texts[example]
            free = (b for b in range(first, len(members)) if len(members[b]) < self.size and seen[b].isdisjoint(own))
            chosen = next(free, None)
            if chosen is None:
                others = [b for b in range(len(members)) if seen[b].isdisjoint(own)]
                chosen = min(others, key=lambda b: len(members[b]), default=None)
            if chosen is not None:
                members[chosen].append(example)
                seen[chosen] |= own
        return [np.asarray(batch, dtype=np.int64) for batch in members]


def shuffle(count: int, seed: int, epoch: int, places: range | None = None) -> Integers:
    """Return a permutation of range(count) for this seed and epoch, or its values at `places`."""
    places = range(count) if places is None else places
    key = int(np.random.SeedSequence([seed, epoch]).generate_state(1)[0])
    if count == 1:
        return np.zeros(len(places), dtype=np.int64)
    index_at = _index_shuffle()
    indices = (index_at(j, max_index=count - 1, seed=key, rounds=4) for j in places)
    return np.fromiter(indices, np.int64, len(places))


def split_batch(lengths: Sequence[int] | Integers, parts: int) -> list[slice]:
    """Split a batch into `parts` contiguous slices of nearly equal tokens, for ranks and gradient accumulation.

    A slice is empty where there are fewer examples than parts.
    """
    sizes = np.asarray(lengths, dtype=np.int64)
    middle = np.cumsum(sizes) - sizes / 2
    owner = np.floor(middle * parts / max(int(sizes.sum()), 1)).astype(np.int64).clip(max=parts - 1)
    edges = np.searchsorted(owner, np.arange(parts + 1))
    return [slice(int(a), int(b)) for a, b in pairwise(edges)]


@lru_cache(maxsize=1)
def _index_shuffle() -> Any:
    from grain.experimental import index_shuffle

    return index_shuffle
