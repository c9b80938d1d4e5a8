"""Pooling: one vector per sequence from its token vectors. An empty sequence gives zeros."""

from collections.abc import Callable

import torch
from torch import Tensor

from clearhead.attention import Layout


def first(x: Tensor, layout: Layout) -> Tensor:
    return _select(x, layout, layout.offsets[:-1])


def second(x: Tensor, layout: Layout) -> Tensor:
    return _select(x, layout, layout.offsets[:-1] + 1)


def first_and_mean(x: Tensor, layout: Layout) -> Tensor:
    """Returns the first vector and the mean of the others, (B, 2 D) (Oquab et al. 2024)."""
    total = mean(x, layout) * layout.lengths.unsqueeze(1)
    start = first(x, layout)
    return torch.cat([start, (total - start) / (layout.lengths - 1).clamp_min(1).unsqueeze(1)], 1)


def last(x: Tensor, layout: Layout) -> Tensor:
    return _select(x, layout, layout.offsets[1:] - 1)


def bidirectional_last(x: Tensor, layout: Layout) -> Tensor:
    """Returns the final states of both directions, (B, D): half of the last token, then half of the first."""
    if x.shape[1] % 2:
        raise ValueError(
            f"vectors of width {x.shape[1]} cannot be halved: 'bidirectional_last' pooling is for bidirectional nets"
        )
    half = x.shape[1] // 2
    return torch.cat([last(x[:, :half], layout), first(x[:, half:], layout)], 1)


def _select(x: Tensor, layout: Layout, rows: Tensor) -> Tensor:
    rows = rows.clamp(0, max(x.shape[0] - 1, 0))
    selected = x.index_select(0, rows) if x.shape[0] else x.new_zeros(layout.num_sequences, x.shape[1]) + x.sum()
    return selected.masked_fill((layout.lengths == 0).unsqueeze(1), 0.0)


def mean(x: Tensor, layout: Layout) -> Tensor:
    total = x.new_zeros(layout.num_sequences, x.shape[1], dtype=torch.promote_types(x.dtype, torch.float32))
    total = total.index_add(0, layout.sequence_ids, x.to(total.dtype))
    return (total / layout.lengths.clamp_min(1).unsqueeze(1)).to(x.dtype)


def max_pool(x: Tensor, layout: Layout) -> Tensor:
    return _extreme(x, layout, "amax")


def min_pool(x: Tensor, layout: Layout) -> Tensor:
    return _extreme(x, layout, "amin")


def _extreme(x: Tensor, layout: Layout, reduce: str) -> Tensor:
    empty = x.new_zeros(layout.num_sequences, x.shape[1])
    ids = layout.sequence_ids.unsqueeze(1).expand_as(x)
    return empty.scatter_reduce(0, ids, x, reduce=reduce, include_self=False)


POOLINGS: dict[str, Callable[[Tensor, Layout], Tensor]] = {
    "first": first,
    "last": last,
    "bidirectional_last": bidirectional_last,
    "mean": mean,
    "max": max_pool,
    "min": min_pool,
}
"""Functions of (N, D) states and their layout to one vector per sequence, by name."""
