"""Block mask: a table of allowed blocks of positions, for each sequence and each head."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from clearhead.attention.masks import Mask


@dataclass(frozen=True, eq=False)
class BlockMask(Mask):
    """A query of block i attends to the keys of block j where `table[..., i, j]` is True.

    A key at position p is in block p // size, a query in block p // query_size (default: size). Positions past the
    table are not allowed.
    """

    table: Tensor  # (B or 1, H or 1, n, m) bool
    size: int
    query_size: int | None = None
    name: Hashable | None = None  # equal for equal tables

    def __post_init__(self) -> None:
        if self.table.dim() != 4 or self.table.dtype != torch.bool or self.size < 1:
            raise ValueError(
                f"BlockMask of a {self.table.dtype} table {tuple(self.table.shape)} and blocks of {self.size}: "
                "the table is boolean, (sequences or 1, heads or 1, blocks of queries, blocks of keys)"
            )

    def allows(self, sequence: Tensor, query: Tensor, key: Tensor) -> Tensor:
        if self.per_head:
            raise ValueError("the heads of this mask differ: ask the mask of one head, `of_head(sequence, head)`")
        count, _, n, m = self.table.shape
        i, j = query // self._rows, key // self.size
        number = sequence if count > 1 else torch.zeros_like(sequence)
        return self.table.to(query.device)[number, 0, i.clamp(max=n - 1), j.clamp(max=m - 1)] & (i < n) & (j < m)

    def all_allowed(self, q_lo: Any, q_hi: Any, k_lo: Any, k_hi: Any) -> Any:
        counts, area = self._count(q_lo, q_hi, k_lo, k_hi)
        return (counts == area).all(0)

    def any_allowed(self, q_lo: Any, q_hi: Any, k_lo: Any, k_hi: Any) -> Any:
        return (self._count(q_lo, q_hi, k_lo, k_hi)[0] > 0).any(0)

    @property
    def key(self) -> Hashable | None:
        return self.name

    @property
    def per_head(self) -> bool:
        return self.table.shape[1] > 1

    def of_head(self, sequence: int, head: int | None) -> Mask:
        count, heads = self.table.shape[:2]
        rows = slice(sequence, sequence + 1) if count > 1 else slice(None)
        columns = slice(head, head + 1) if head is not None and heads > 1 else slice(None)
        return self if rows == columns == slice(None) else replace(self, table=self.table[rows, columns])

    @property
    def _rows(self) -> int:
        return self.size if self.query_size is None else self.query_size

    @cached_property
    def _sums(self) -> Tensor:
        """Allowed blocks before each pair of block edges, (B H, n + 1, m + 1)."""
        sums = torch.nn.functional.pad(self.table.flatten(0, 1).to(torch.int32), (1, 0, 1, 0))
        return sums.cumsum_(1).cumsum_(2)

    def _count(self, q_lo: Any, q_hi: Any, k_lo: Any, k_hi: Any) -> tuple[Tensor, Tensor]:
        """How many blocks of each rectangle are allowed, (B H, ...), and how many it has."""
        i0, i1, j0, j1 = (torch.as_tensor(x) for x in (q_lo, q_hi, k_lo, k_hi))
        i0, j0, i1, j1 = i0 // self._rows, j0 // self.size, -(-i1 // self._rows), -(-j1 // self.size)
        n, m = self.table.shape[2:]
        a0, a1, b0, b1 = i0.clamp(max=n), i1.clamp(max=n), j0.clamp(max=m), j1.clamp(max=m)
        sums, area = self._sums, (i1 - i0) * (j1 - j0)
        if a0.dim() == b0.dim() == 2 and a0.shape[1] == b0.shape[0] == 1:  # a grid of rectangles
            rows = sums[:, a1[:, 0]] - sums[:, a0[:, 0]]
            return rows[:, :, b1[0]] - rows[:, :, b0[0]], area
        return sums[:, a1, b1] - sums[:, a0, b1] - sums[:, a1, b0] + sums[:, a0, b0], area
