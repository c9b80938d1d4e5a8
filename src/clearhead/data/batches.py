"""Batches: which examples make up batch i of an epoch, as a pure function of (seed, epoch, i)."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

Integers = npt.NDArray[np.int64]

logging.getLogger("absl").setLevel(logging.ERROR)  # Grain says that it misses JAX, which nothing here uses


@dataclass(frozen=True, eq=False)
class Batches:
    """Examples of known lengths, cut into batches of about `budget` tokens, in another order every epoch.

    The order of an epoch is a shuffle of the indices (Grain's, which costs the same for any number of examples), and a
    batch is a stretch of it: example j belongs to batch `tokens before it // budget`. Nothing is sorted by length and
    nothing depends on who reads, so that any number of processes, stopped and begun anew at any step, sees the same
    batches. The rest at the end of an epoch joins the last batch where it is less than half a budget, or where an
    order could leave it without an example.
    """

    lengths: Integers  # (examples,)
    budget: int
    seed: int = 0
    shuffled: bool = True

    def __post_init__(self) -> None:
        if len(self.lengths) == 0:
            raise ValueError("there are no examples to make batches of")
        if self.budget < 1:
            raise ValueError(f"a batch of {self.budget} tokens: it must hold at least 1")
        if (longest := int(self.lengths.max())) > self.budget:
            raise ValueError(
                f"an example has {longest:,} tokens, and a batch holds {self.budget:,}: "
                "raise batch_tokens, or lower max_len"
            )

    @cached_property
    def total(self) -> int:
        """Tokens of one epoch."""
        return int(self.lengths.sum())

    def __len__(self) -> int:
        """Batches of one epoch; the same for all, and none of them is ever empty."""
        last = self.total - int(self.lengths.max())  # the tokens before the last example, at the least
        return max(1, min(round(self.total / self.budget), last // self.budget + 1))

    def place(self, step: int) -> tuple[int, int]:
        """Epoch and batch of a step, both from 0."""
        return divmod(step, len(self))

    def batch(self, epoch: int, i: int) -> Integers:
        """The examples of one batch, in order."""
        if not 0 <= i < len(self):
            raise ValueError(f"there is no batch {i}: an epoch has {len(self)}")
        order, before = self._epoch(epoch)
        first = int(np.searchsorted(before, i * self.budget))
        last = len(order) if i == len(self) - 1 else int(np.searchsorted(before, (i + 1) * self.budget))
        return order[first:last]

    def _epoch(self, epoch: int) -> tuple[Integers, Integers]:
        """The examples in this epoch's order, and the tokens before each."""
        kept = self.__dict__.get("_kept")
        if kept is None or kept[0] != epoch:
            order = shuffle(len(self.lengths), self.seed, epoch) if self.shuffled else np.arange(len(self.lengths))
            sizes = self.lengths[order]
            kept = epoch, order, np.cumsum(sizes) - sizes
            self.__dict__["_kept"] = kept
        return kept[1], kept[2]


@dataclass(frozen=True, eq=False)
class Evenly:
    """Examples in batches of `size` of them, in another order every epoch; the rest joins the last as in `Batches`.

    Only the order of the batch that is asked for is computed: a batch of a trillion examples' costs no more than one of
    a hundred's.
    """

    count: int
    size: int
    seed: int = 0

    def __post_init__(self) -> None:
        if self.count < 1:
            raise ValueError("there are no examples to make batches of")
        if self.size < 1:
            raise ValueError(f"a batch of {self.size} examples: it must hold at least 1")

    def __len__(self) -> int:
        """Batches of one epoch."""
        return max(1, min(round(self.count / self.size), (self.count - 1) // self.size + 1))

    def place(self, step: int) -> tuple[int, int]:
        """Epoch and batch of a step, both from 0."""
        return divmod(step, len(self))

    def batch(self, epoch: int, i: int) -> Integers:
        """The examples of one batch, in order."""
        if not 0 <= i < len(self):
            raise ValueError(f"there is no batch {i}: an epoch has {len(self)}")
        last = self.count if i == len(self) - 1 else (i + 1) * self.size
        return shuffle(self.count, self.seed, epoch, range(i * self.size, last))


def shuffle(count: int, seed: int, epoch: int, places: range | None = None) -> Integers:
    """The numbers below `count` in the order that belongs to this seed and epoch; or those at these places of it."""
    places = range(count) if places is None else places
    key = int(np.random.SeedSequence([seed, epoch]).generate_state(1)[0])
    if count == 1:
        return np.zeros(len(places), dtype=np.int64)
    place = _index_shuffle()
    found = (place(j, max_index=count - 1, seed=key, rounds=4) for j in places)
    return np.fromiter(found, np.int64, len(places))


def divide(lengths: Sequence[int] | Integers, parts: int) -> list[slice]:
    """A batch cut into `parts` stretches of nearly equal tokens: for the ranks, and the steps of accumulation.

    A part may be empty where there are fewer examples than parts.
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
