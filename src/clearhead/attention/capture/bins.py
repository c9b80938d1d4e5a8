"""Bins: a range of tokens divided evenly, for pooling a map to the size of an image."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

Pool = Literal["max", "mean"]


class Bins:
    """Tokens [lo, hi) in `count` bins whose sizes differ by one at most.

    `table`, (depth, count), lists the tokens bin-minor: first the first token of every bin, then the second of every
    bin ..., so that pooling runs down a leading axis over contiguous memory. Bins that are one token short repeat
    their last; `real` is True where an entry is not a repeat (None if there is no repeat).
    """

    def __init__(self, lo: int, hi: int, count: int) -> None:
        edges = lo + torch.arange(count + 1) * (hi - lo) // count
        self._size = edges.diff()
        self.depth = int(self._size.max())
        step = torch.arange(self.depth).unsqueeze(1)  # (depth, 1)
        self.table = edges[:-1] + torch.minimum(step, self._size - 1)  # (depth, count)
        self.real = None if int(self._size.min()) == self.depth else step < self._size  # (depth, count)

    @property
    def members(self) -> Tensor:
        """The tokens of all bins, (depth count,)."""
        return self.table.flatten()

    def subset(self, which: slice) -> Bins:
        part = Bins.__new__(Bins)
        part.depth, part._size, part.table = self.depth, self._size[which], self.table[:, which]
        part.real = None if self.real is None else self.real[:, which]
        return part

    def pool(self, x: Tensor, dim: int, how: Pool) -> Tensor:
        """(..., depth at dim, count, ...) to (..., count, ...); repeats are 0, or equal to the repeated entry."""
        if how == "max":
            return x.amax(dim)
        tail = (1,) * (x.dim() - dim - 2)
        if self.real is not None:
            x = x * self.real.view(*self.real.shape, *tail)
        return x.sum(dim) / self._size.view(-1, *tail)
