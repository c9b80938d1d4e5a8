"""Biases: added to the score of a pair before the softmax, by head and position."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

Bias = Callable[[Tensor, Tensor, Tensor], Tensor]
"""(sequence, query position, key position), each broadcasting to (b, T, S), to (b or 1, H, T, S)."""


@dataclass(frozen=True, eq=False)
class RelativeBias:
    """A bias of the signed distance: a table for near keys; beyond it, its last entry plus a linear term.

    With an empty line it is T5's bias, with an empty table it is ALiBi. Both tensors may carry gradients.
    """

    table: Tensor  # (H, 2 R + 1): entry R + d is for distance d
    slopes: Tensor  # (H,): added as slope * |distance|

    def __call__(self, sequence: Tensor, query: Tensor, key: Tensor) -> Tensor:
        distance = key - query  # (b, T, S)
        near = self.table[:, self.entries(distance)].movedim(0, -3)  # (b, H, T, S)
        return near + self.slopes.view(-1, 1, 1) * distance.abs().unsqueeze(-3)

    def heads(self, which: slice) -> RelativeBias:
        return RelativeBias(self.table[which], self.slopes[which])

    def entries(self, distance: Tensor) -> Tensor:
        """The table column of each distance."""
        reach = self.table.shape[1] // 2
        return distance.clamp(-reach, reach) + reach

    def backward(self, grad: Tensor, query: Tensor, key: Tensor) -> tuple[Tensor, Tensor]:
        """Gradients of (table, slopes) from those of the scores, (b, H, T, S), at these positions."""
        distance = (key - query).expand(grad.shape[0], grad.shape[2], grad.shape[3])
        per_head = grad.to(self.table.dtype).transpose(0, 1).reshape(self.table.shape[0], -1)  # (H, b T S)
        table = torch.zeros_like(self.table).index_add_(1, self.entries(distance).reshape(-1), per_head)
        return table, per_head @ distance.abs().reshape(-1).to(per_head.dtype)


@dataclass(frozen=True, eq=False)
class DenseBias:
    """A dense bias by position; size 1 broadcasts."""

    table: Tensor  # (B or 1, H or 1, T or 1, S or 1)
    num_heads: int
    first: int = 0  # the query position of the first row

    def __call__(self, sequence: Tensor, query: Tensor, key: Tensor) -> Tensor:
        heads = torch.arange(self.table.shape[1], device=self.table.device).view(-1, 1, 1)
        wanted = sequence.unsqueeze(-3), heads, (query - self.first).unsqueeze(-3), key.unsqueeze(-3)  # (b, 1, T, S)
        at = [i if n > 1 else torch.zeros_like(i) for i, n in zip(wanted, self.table.shape, strict=True)]
        return self.table[at[0], at[1], at[2], at[3]].expand(-1, self.num_heads, -1, -1)  # (b, H, T, S)
