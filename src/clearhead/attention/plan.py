"""Plan: which sequences of a ragged batch are computed together, and which of them have to be moved for it.

A sequence, or a run of neighbours of equal length, is computed where it lies: that costs a call and no copy.
Very short sequences would be all calls; those are gathered into a pool, side by side with others of like
length, padded a little where that is cheaper than one more call.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

# Measured on a CPU at 12 heads: a call costs as much as copying this many rows, and as this many query-key pairs.
SHORT = 48
PATIENCE = 1024

# Torch's fused forward is up to twice as fast where the number of keys is a multiple of 16; beyond 400 it is not.
ROUND, ROUND_MOST = 16, 400


@dataclass(frozen=True)
class Group:
    """Sequences computed side by side as a (count, T, S) block; `members` are their numbers in the batch."""

    members: tuple[int, ...]
    T: int  # queries per sequence, padded to the longest
    S: int  # keys per sequence, padded to the longest
    lying: bool  # its rows are neighbours in the token matrix itself; otherwise in the pool
    row_q: int  # its first query row there
    row_k: int  # its first key row there
    reach: int  # keys to read from there: a few rows of the neighbour's, where a rounder number is faster


@dataclass(frozen=True, eq=False)
class Pool:
    """How the rows of the gathered sequences come from the token matrix and go back."""

    gather: Tensor  # (rows,) the token of each row of the pool; padding repeats a sequence's last
    rows: Tensor  # (n,) the rows that are not padding
    tokens: Tensor  # (n,) and the tokens they return to
    padding: Tensor  # the rows that are


@dataclass(frozen=True, eq=False)
class Plan:
    """The groups of a batch; `idle` says that some token has nothing to attend to, or nobody to attend to it."""

    groups: tuple[Group, ...]
    queries: Pool | None
    keys: Pool | None
    idle: bool

    @property
    def stretches(self) -> bool:
        """Would some group rather read keys beyond its own?"""
        return any(group.reach > group.S for group in self.groups)


def plan(sizes_q: Sequence[int], sizes_k: Sequence[int], device: torch.device) -> Plan:
    """Group sequences with these query and key lengths."""
    offsets_q, offsets_k = np.cumsum([0, *sizes_q]), np.cumsum([0, *sizes_k])
    lying: list[list[int]] = []
    short: list[int] = []
    idle = False
    for i, size in enumerate(zip(sizes_q, sizes_k, strict=True)):
        if not all(size):
            idle = idle or any(size)
        elif lying and lying[-1][-1] == i - 1 and (sizes_q[i - 1], sizes_k[i - 1]) == size:
            lying[-1].append(i)
        else:
            lying.append([i])
    moved = [run for run in lying if sum(sizes_q[i] + sizes_k[i] for i in run) <= SHORT]
    if len(moved) > 1:
        lying = [run for run in lying if sum(sizes_q[i] + sizes_k[i] for i in run) > SHORT]
        short = [i for run in moved for i in run]
    groups: list[Group] = []
    for run in lying:
        T, S, row_q, row_k = sizes_q[run[0]], sizes_k[run[0]], int(offsets_q[run[0]]), int(offsets_k[run[0]])
        rounder = _round(S)
        stretch = len(run) == 1 and S <= ROUND_MOST and row_k + rounder <= offsets_k[-1]
        groups.append(Group(tuple(run), T, S, True, row_q, row_k, rounder if stretch else S))
    if not short:
        return Plan(tuple(groups), None, None, idle)
    row_q = row_k = 0
    pooled: list[Group] = []
    for members in _alike(short, sizes_q, sizes_k):
        T, S = max(sizes_q[i] for i in members), _round(max(sizes_k[i] for i in members))
        pooled.append(Group(tuple(members), T, S, False, row_q, row_k, S))
        row_q, row_k = row_q + T * len(members), row_k + S * len(members)
    order = [i for g in pooled for i in g.members]
    queries = _pool(order, offsets_q, [g.T for g in pooled for _ in g.members], device)
    keys = _pool(order, offsets_k, [g.S for g in pooled for _ in g.members], device)
    return Plan((*groups, *pooled), queries, keys, idle)


def _round(keys: int) -> int:
    return -(-keys // ROUND) * ROUND


def _alike(short: list[int], sizes_q: Sequence[int], sizes_k: Sequence[int]) -> list[list[int]]:
    """Sequences of like lengths together, as long as padding one costs less than a call of its own."""
    groups: list[list[int]] = []
    T = S = 0
    for i in sorted(short, key=lambda i: (sizes_q[i], sizes_k[i]), reverse=True):
        wider = max(S, sizes_k[i])
        waste = T * wider - sizes_q[i] * sizes_k[i]
        regret = T * (wider - S) * len(groups[-1]) if groups else 0
        if groups and waste + regret <= PATIENCE:
            groups[-1].append(i)
            S = wider
        else:
            groups.append([i])
            T, S = sizes_q[i], sizes_k[i]
    return groups


def _pool(order: list[int], offsets: np.ndarray, widths: list[int], device: torch.device) -> Pool:
    first, size = offsets[order], np.diff(offsets)[order]  # of each member
    width = np.array(widths)
    slot = np.repeat(np.arange(len(order)), width)  # (rows,) which member a row belongs to
    within = np.arange(len(slot)) - np.repeat(np.cumsum(width) - width, width)
    gather = first[slot] + np.minimum(within, size[slot] - 1)
    own = within < size[slot]
    rows = np.flatnonzero(own)
    return Pool(*(torch.from_numpy(x).to(device) for x in (gather, rows, gather[rows], np.flatnonzero(~own))))
