"""Tiling: the blocks of one group that are computed at once, each with its mask."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from clearhead.attention.kernels.grouped.grouping import SequenceGroup
from clearhead.attention.layout import Layout
from clearhead.attention.masks import Causal, Full, Mask
from clearhead.attention.tuning import TUNING

# Scores of one tile on a GPU: a bound of its memory, 64 MiB in float32. Not measured.
ACCELERATOR_BLOCK_SCORES = 2**24


@dataclass(frozen=True, eq=False)
class Tile:
    """Sequences b, heads h, queries t and keys s of one group."""

    b: slice
    h: slice
    t: slice
    s: slice
    fused: bool  # torch's fused kernel, or plain matmuls
    causal: bool  # the fused kernel's causal flag is the mask
    hidden: Tensor | None  # (b or 1, 1, t or 1, s): True where masked; None if nothing is
    additive_mask: Tensor | None  # the same for the fused kernel: 0 or -inf
    empty_rows: Tensor | None  # (b or 1, 1, t, 1): True for fully masked rows; None if there is none
    full: bool  # the tile is the whole group
    number: int  # counts tiles: each draws its own dropout

    def queries(self, x: Tensor) -> Tensor:
        """The rows of the tile from a group's (count, heads, T, ...)."""
        return x if self.full else x[self.b, self.h, self.t]

    def keys(self, x: Tensor) -> Tensor:
        """The columns of the tile from a group's (count, heads, S, ...)."""
        return x if self.full else x[self.b, self.h, self.s]


@dataclass(frozen=True, eq=False)
class Tiler:
    """Cuts the groups of one call into tiles; `fused` selects those for the fused kernel."""

    layout_q: Layout
    layout_k: Layout
    mask: Mask
    num_heads: int
    dtype: torch.dtype
    fused: Callable[[int, int, int], bool]  # of sequences, queries, keys
    pad_keys: bool = False  # read the padded keys of a group and mask those of other sequences

    def width(self, group: SequenceGroup) -> int:
        """Keys read per sequence of a group."""
        return group.padded_keys if self.pad_keys else group.S

    def tiles(self, group: SequenceGroup) -> Iterator[Tile]:
        """The tiles of a group: together they hold each query of each head once."""
        number = 0
        count, width = len(group.members), self.width(group)
        full, causal = self._is_full(group), self._is_causal(group)
        for t0, t1, s0, s1 in self._strips(group, full, causal):
            fused = self.fused(count, t1 - t0, s1 - s0)
            covers_group = (t0, t1, s0, s1) == (0, group.T, 0, width)
            flagged = causal and fused and covers_group
            for b, h, t in self._blocks(count, t0, t1, s1 - s0, fused):
                hidden = empty_rows = additive_mask = None
                if not (full or flagged):
                    hidden, empty_rows = self._hidden(group, b, t, slice(s0, s1), causal)
                    if fused:
                        zeros = hidden.new_zeros(hidden.shape, dtype=self.dtype)
                        additive_mask = zeros.masked_fill_(hidden, float("-inf"))
                for heads in h:
                    full_tile = covers_group and (b, heads, t) == (
                        slice(0, count),
                        slice(0, self.num_heads),
                        slice(t0, t1),
                    )
                    yield Tile(
                        b, heads, t, slice(s0, s1), fused, flagged, hidden, additive_mask, empty_rows, full_tile, number
                    )
                    number += 1

    def positions(
        self, group: SequenceGroup, b: slice, t: slice, s: slice, within: bool = True
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Sequence indices (b, 1, 1), query positions (b, t, 1) and key positions (b, 1, s) of a block.

        Sequences with equal starts share one row of positions. `within` clamps the positions of padding to its
        sequence, for masks that look positions up in a table.
        """
        members = group.members[b]
        at_q = self._line(self.layout_q, members, t, within)
        at_k = self._line(self.layout_k, members, s, within)
        return torch.tensor(members, device=at_q.device).view(-1, 1, 1), at_q.unsqueeze(2), at_k.unsqueeze(1)

    def _line(self, layout: Layout, members: tuple[int, ...], which: slice, within: bool) -> Tensor:
        """Positions of some rows of each member, (b or 1, rows)."""
        starts = [layout.host_starts[i] for i in members]
        first = torch.tensor(starts, device=layout.device).view(-1, 1)
        row = torch.arange(which.start, which.stop, device=layout.device).view(1, -1)
        sizes = [layout.host_lengths[i] for i in members]
        if within and min(sizes) < which.stop:
            return first + torch.minimum(row, torch.tensor(sizes, device=layout.device).view(-1, 1) - 1)
        return (first[:1] if len(set(starts)) == 1 else first) + row

    def _is_full(self, group: SequenceGroup) -> bool:
        """True if every query of the group may attend to every key."""
        if any(self.layout_k.host_lengths[i] < self.width(group) for i in group.members):
            return False
        spans = {(self.layout_q.host_starts[i], self.layout_k.host_starts[i]) for i in group.members}
        return all(bool(self.mask.all_allowed(q, q + group.T, k, k + group.S)) for q, k in spans)

    def _is_causal(self, group: SequenceGroup) -> bool:
        """True for plain causal self-attention, where padding is masked already: it comes after every real query."""
        return isinstance(self.mask, Causal) and all(
            self.layout_q.host_lengths[i] == self.layout_k.host_lengths[i]
            and self.layout_q.host_starts[i] == self.layout_k.host_starts[i]
            for i in group.members
        )

    def _strips(self, group: SequenceGroup, full: bool, causal: bool) -> Iterator[tuple[int, int, int, int]]:
        """Ranges of queries, each with the range of keys inside the band of the mask."""
        left, right = self.mask.band
        full_tile = causal and self.fused(len(group.members), group.T, group.S)
        if full or full_tile or group.T <= TUNING.strip_queries or (left is None and right is None):
            yield 0, group.T, 0, self.width(group)
            return
        offsets = [self.layout_q.host_starts[i] - self.layout_k.host_starts[i] for i in group.members]
        for t0 in range(0, group.T, TUNING.strip_queries):
            t1 = min(t0 + TUNING.strip_queries, group.T)
            s0 = 0 if left is None else max(0, t0 + min(offsets) - left)
            s1 = group.S if right is None else min(group.S, t1 + max(offsets) + right)
            yield (t0, t1, s0, s1) if s0 < s1 else (t0, t1, 0, 1)  # no key: one masked key keeps the shapes

    def _hidden(self, group: SequenceGroup, b: slice, t: slice, s: slice, causal: bool) -> tuple[Tensor, Tensor | None]:
        """The mask of a block, and its fully masked rows: those are unmasked here and zeroed in the output."""
        ids, at_q, at_k = self.positions(group, b, t, s, within=not causal)
        sizes = [self.layout_k.host_lengths[i] for i in group.members[b]]
        padding = None
        if min(sizes) < s.stop and not causal:
            column = torch.arange(s.start, s.stop, device=ids.device)
            padding = (column >= torch.tensor(sizes, device=ids.device).view(-1, 1, 1)).unsqueeze(1)  # (b, 1, 1, s)
            if isinstance(self.mask, Full):
                return padding, None
        if causal:
            ids = ids[: at_q.shape[0]]  # sequences with equal starts have the same mask
        hidden = ~self.mask.allows(ids, at_q, at_k).unsqueeze(1)
        hidden = hidden if padding is None else hidden | padding
        empty_rows = hidden.all(-1, keepdim=True)
        if hidden.device.type == "cpu" and not bool(empty_rows.any()):  # elsewhere the answer would have to be awaited
            return hidden, None
        return hidden & ~empty_rows, empty_rows

    def _blocks(
        self, count: int, t0: int, t1: int, width: int, fused: bool
    ) -> Iterator[tuple[slice, list[slice], slice]]:
        """Sequences, heads and queries of each tile: all for the fused kernel, what a CPU cache holds for matmuls."""
        heads = self.num_heads
        capacity = TUNING.block_scores if self.layout_q.device.type == "cpu" else ACCELERATOR_BLOCK_SCORES
        if fused:
            yield slice(0, count), [slice(0, heads)], slice(t0, t1)
            return
        pairs = (t1 - t0) * width
        some_b = max(1, min(count, capacity // (heads * pairs)))
        some_h = max(1, min(heads, capacity // pairs))
        some_t = t1 - t0 if pairs <= capacity else max(1, capacity // width)
        for b in range(0, count, some_b):
            for t in range(t0, t1, some_t):
                yield (
                    slice(b, min(b + some_b, count)),
                    [slice(h, min(h + some_h, heads)) for h in range(0, heads, some_h)],
                    slice(t, min(t + some_t, t1)),
                )
