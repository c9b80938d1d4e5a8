"""Grouping: which sequences of a ragged batch are computed together, and which of them are gathered for it.

A sequence, or a run of neighbors of equal length, is computed in place: that costs a call and no copy. Very short
sequences, where calls would dominate, are gathered next to others of similar length, with padding where that is cheaper
than another call.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from clearhead.attention.tuning import TUNING


@dataclass(frozen=True)
class SequenceGroup:
    """Sequences computed together as a (count, T, S) block; `members` are their indices in the batch."""

    members: tuple[int, ...]
    T: int  # queries per sequence, padded to the longest
    S: int  # keys per sequence, padded to the longest
    in_place: bool  # its rows are adjacent in the token matrix; otherwise they are gathered
    row_q: int  # the first query row
    row_k: int  # the first key row
    padded_keys: int  # keys read: some rows of the next sequence, masked, where a multiple is faster


@dataclass(frozen=True, eq=False)
class GatherIndex:
    """The gather of short sequences from the token matrix, and back."""

    gather: Tensor  # (rows,) the token of each gathered row; padding repeats the last token of a sequence
    rows: Tensor  # (n,) rows that are not padding
    tokens: Tensor  # (n,) their tokens
    padding: Tensor  # rows that are padding


@dataclass(frozen=True, eq=False)
class GroupPlan:
    """The groups of a batch; `idle` is True if some token is in no group."""

    groups: tuple[SequenceGroup, ...]
    queries: GatherIndex | None
    keys: GatherIndex | None
    idle: bool

    @property
    def pads_keys(self) -> bool:
        """True if some group reads keys beyond its own."""
        return any(group.padded_keys > group.S for group in self.groups)


def plan_groups(lengths_q: Sequence[int], lengths_k: Sequence[int], device: torch.device) -> GroupPlan:
    """Group sequences with these query and key lengths."""
    offsets_q, offsets_k = np.cumsum([0, *lengths_q]), np.cumsum([0, *lengths_k])
    runs: list[list[int]] = []
    short: list[int] = []
    idle = False
    for i, size in enumerate(zip(lengths_q, lengths_k, strict=True)):
        if not all(size):
            idle = idle or any(size)
        elif runs and runs[-1][-1] == i - 1 and (lengths_q[i - 1], lengths_k[i - 1]) == size:
            runs[-1].append(i)
        else:
            runs.append([i])
    short_runs = [run for run in runs if sum(lengths_q[i] + lengths_k[i] for i in run) <= TUNING.gather_below]
    if len(short_runs) > 1:
        runs = [run for run in runs if sum(lengths_q[i] + lengths_k[i] for i in run) > TUNING.gather_below]
        short = [i for run in short_runs for i in run]
    groups: list[SequenceGroup] = []
    for run in runs:
        T, S, row_q, row_k = lengths_q[run[0]], lengths_k[run[0]], int(offsets_q[run[0]]), int(offsets_k[run[0]])
        padded = _round(S)
        pads = len(run) == 1 and S <= TUNING.key_multiple_max and row_k + padded <= offsets_k[-1]
        groups.append(SequenceGroup(tuple(run), T, S, True, row_q, row_k, padded if pads else S))
    if not short:
        return GroupPlan(tuple(groups), None, None, idle)
    row_q = row_k = 0
    gathered_groups: list[SequenceGroup] = []
    for members in _similar(short, lengths_q, lengths_k):
        T, S = max(lengths_q[i] for i in members), _round(max(lengths_k[i] for i in members))
        gathered_groups.append(SequenceGroup(tuple(members), T, S, False, row_q, row_k, S))
        row_q, row_k = row_q + T * len(members), row_k + S * len(members)
    order = [i for g in gathered_groups for i in g.members]
    queries = _gather_index(order, offsets_q, [g.T for g in gathered_groups for _ in g.members], device)
    keys = _gather_index(order, offsets_k, [g.S for g in gathered_groups for _ in g.members], device)
    return GroupPlan((*groups, *gathered_groups), queries, keys, idle)


def _round(keys: int) -> int:
    return -(-keys // TUNING.key_multiple) * TUNING.key_multiple


def _similar(short: list[int], lengths_q: Sequence[int], lengths_k: Sequence[int]) -> list[list[int]]:
    """Sequences of similar lengths, as long as the padding of one costs less than a call of its own."""
    groups: list[list[int]] = []
    T = S = 0
    for i in sorted(short, key=lambda i: (lengths_q[i], lengths_k[i]), reverse=True):
        wider = max(S, lengths_k[i])
        waste = T * wider - lengths_q[i] * lengths_k[i]
        regret = T * (wider - S) * len(groups[-1]) if groups else 0
        if groups and waste + regret <= TUNING.padding_pairs:
            groups[-1].append(i)
            S = wider
        else:
            groups.append([i])
            T, S = lengths_q[i], lengths_k[i]
    return groups


def _gather_index(order: list[int], offsets: np.ndarray, widths: list[int], device: torch.device) -> GatherIndex:
    first, size = offsets[order], np.diff(offsets)[order]  # of each member
    width = np.array(widths)
    slot = np.repeat(np.arange(len(order)), width)  # (rows,) which member a row belongs to
    within = np.arange(len(slot)) - np.repeat(np.cumsum(width) - width, width)
    gather = first[slot] + np.minimum(within, size[slot] - 1)
    own = within < size[slot]
    rows = np.flatnonzero(own)
    return GatherIndex(*(torch.from_numpy(x).to(device) for x in (gather, rows, gather[rows], np.flatnonzero(~own))))
