"""Cells: a range of tokens divided into even bins, for pooling a map down to the size of a picture."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

Pool = Literal["max", "mean"]


class Cells:
    """Tokens [lo, hi) in `count` bins whose sizes differ by one at most.

    `table`, (depth, count), lists the tokens bin-minor: first the first token of every bin, then the second of every
    bin ..., so that pooling runs down a leading axis over contiguous memory. Bins that are one token short repeat
    their last; `real` marks what is not a repeat (None where nothing is).
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

    def some(self, which: slice) -> Cells:
        """Some of the bins."""
        part = Cells.__new__(Cells)
        part.depth, part._size, part.table = self.depth, self._size[which], self.table[:, which]
        part.real = None if self.real is None else self.real[:, which]
        return part

    def pool(self, x: Tensor, dim: int, how: Pool) -> Tensor:
        """(..., depth at dim, count, ...) to (..., count, ...); repeats are 0, or equal to what they repeat."""
        if how == "max":
            return x.amax(dim)
        tail = (1,) * (x.dim() - dim - 2)
        if self.real is not None:
            x = x * self.real.view(*self.real.shape, *tail)
        return x.sum(dim) / self._size.view(-1, *tail)
