"""Pieces: the rectangles of one group that are computed at once, with the mask each of them needs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from clearhead.attention.layout import Layout
from clearhead.attention.masks import Causal, Full, Mask
from clearhead.attention.plan import Group

BLOCK = 2**20  # scores that plain products hold at once: in float32, about the second-level caches of two cores
STRIP = 512  # queries at a time where a mask leaves only part of a long sequence


@dataclass(frozen=True, eq=False)
class Piece:
    """Sequences b, heads h, queries t and keys s of one group."""

    b: slice
    h: slice
    t: slice
    s: slice
    fused: bool  # torch's fused kernel, or plain matmuls
    causal: bool  # the fused kernel's own flag says the mask
    hidden: Tensor | None  # (b or 1, 1, t or 1, s): True where a pair may not attend; None where every pair may
    minus: Tensor | None  # the same for the fused kernel, as what it adds to the scores: 0 or -inf
    dead: Tensor | None  # (b or 1, 1, t, 1): True for rows that may attend to nothing; None where there is none
    whole: bool  # it is all of the group
    number: int  # counts pieces, so that each draws its own dropout

    def queries(self, x: Tensor) -> Tensor:
        """The piece's rows of a group's (count, heads, T, ...)."""
        return x if self.whole else x[self.b, self.h, self.t]

    def keys(self, x: Tensor) -> Tensor:
        """The piece's rows of a group's (count, heads, S, ...)."""
        return x if self.whole else x[self.b, self.h, self.s]


@dataclass(frozen=True, eq=False)
class Cutter:
    """Cuts the groups of one call; `fused` says which rectangles go to the fused kernel."""

    layout_q: Layout
    layout_k: Layout
    mask: Mask
    num_heads: int
    dtype: torch.dtype
    fused: Callable[[int, int, int], bool]  # of sequences, queries, keys
    stretch: bool = False  # read keys up to a group's reach, and mask what is not its own

    def width(self, group: Group) -> int:
        """The keys that are read for each sequence of a group."""
        return group.reach if self.stretch else group.S

    def cut(self, group: Group) -> Iterator[Piece]:
        """The pieces of a group, which together hold each of its queries once for every head."""
        number = 0
        count, width = len(group.members), self.width(group)
        full, causal = self._is_full(group), self._is_causal(group)
        for t0, t1, s0, s1 in self._strips(group, full, causal):
            fused = self.fused(count, t1 - t0, s1 - s0)
            everything = (t0, t1, s0, s1) == (0, group.T, 0, width)
            flagged = causal and fused and everything
            for b, h, t in self._blocks(count, t0, t1, s1 - s0, fused):
                hidden = dead = minus = None
                if not (full or flagged):
                    hidden, dead = self._hidden(group, b, t, slice(s0, s1), causal)
                    if fused:
                        minus = hidden.new_zeros(hidden.shape, dtype=self.dtype).masked_fill_(hidden, float("-inf"))
                for heads in h:
                    whole = everything and (b, heads, t) == (slice(0, count), slice(0, self.num_heads), slice(t0, t1))
                    yield Piece(b, heads, t, slice(s0, s1), fused, flagged, hidden, minus, dead, whole, number)
                    number += 1

    def positions(
        self, group: Group, b: slice, t: slice, s: slice, within: bool = True
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Sequence numbers (b, 1, 1), query positions (b, t, 1) and key positions (b, 1, s) of a rectangle.

        Sequences that count alike share one line of positions. `within` keeps padding inside its sequence, for
        rules that look positions up in a table.
        """
        members = group.members[b]
        at_q = self._line(self.layout_q, members, t, within)
        at_k = self._line(self.layout_k, members, s, within)
        return torch.tensor(members, device=at_q.device).view(-1, 1, 1), at_q.unsqueeze(2), at_k.unsqueeze(1)

    def _line(self, layout: Layout, members: tuple[int, ...], which: slice, within: bool) -> Tensor:
        """Positions of some rows of each member, (b or 1, rows)."""
        first = torch.tensor([layout.firsts[i] for i in members], device=layout.device).view(-1, 1)
        row = torch.arange(which.start, which.stop, device=layout.device).view(1, -1)
        sizes = [layout.sizes[i] for i in members]
        if within and min(sizes) < which.stop:
            return first + torch.minimum(row, torch.tensor(sizes, device=layout.device).view(-1, 1) - 1)
        return (first[:1] if bool((first == first[0]).all()) else first) + row

    def _is_full(self, group: Group) -> bool:
        """May every query of the group attend to every key of its block?"""
        if any(self.layout_k.sizes[i] < self.width(group) for i in group.members):
            return False
        spans = {(self.layout_q.firsts[i], self.layout_k.firsts[i]) for i in group.members}
        return all(bool(self.mask.covers(q, q + group.T, k, k + group.S)) for q, k in spans)

    def _is_causal(self, group: Group) -> bool:
        """Is it plain causal self-attention? Padding then hides itself: it comes after every real query."""
        return isinstance(self.mask, Causal) and all(
            self.layout_q.sizes[i] == self.layout_k.sizes[i] and self.layout_q.firsts[i] == self.layout_k.firsts[i]
            for i in group.members
        )

    def _strips(self, group: Group, full: bool, causal: bool) -> Iterator[tuple[int, int, int, int]]:
        """Ranges of queries, each with the range of keys its mask's band leaves it."""
        left, right = self.mask.band
        whole = causal and self.fused(len(group.members), group.T, group.S)
        if full or whole or group.T <= STRIP or (left is None and right is None):
            yield 0, group.T, 0, self.width(group)
            return
        ahead = [self.layout_q.firsts[i] - self.layout_k.firsts[i] for i in group.members]
        for t0 in range(0, group.T, STRIP):
            t1 = min(t0 + STRIP, group.T)
            s0 = 0 if left is None else max(0, t0 + min(ahead) - left)
            s1 = group.S if right is None else min(group.S, t1 + max(ahead) + right)
            yield (t0, t1, s0, s1) if s0 < s1 else (t0, t1, 0, 1)  # nothing to see: one key, masked, keeps the shapes

    def _hidden(self, group: Group, b: slice, t: slice, s: slice, causal: bool) -> tuple[Tensor, Tensor | None]:
        """What is hidden in a rectangle, and the rows that see nothing at all: those are opened, to be zeroed after."""
        ids, at_q, at_k = self.positions(group, b, t, s, within=not causal)
        sizes = [self.layout_k.sizes[i] for i in group.members[b]]
        foreign = None
        if min(sizes) < s.stop and not causal:
            column = torch.arange(s.start, s.stop, device=ids.device)
            foreign = (column >= torch.tensor(sizes, device=ids.device).view(-1, 1, 1)).unsqueeze(1)  # (b, 1, 1, s)
            if isinstance(self.mask, Full):
                return foreign, None
        if causal:
            ids = ids[: at_q.shape[0]]  # sequences that count alike have the same mask
        hidden = ~self.mask.allows(ids, at_q, at_k).unsqueeze(1)
        hidden = hidden if foreign is None else hidden | foreign
        dead = hidden.all(-1, keepdim=True)
        return (hidden & ~dead, dead) if bool(dead.any()) else (hidden, None)

    def _blocks(
        self, count: int, t0: int, t1: int, width: int, fused: bool
    ) -> Iterator[tuple[slice, list[slice], slice]]:
        """Sequences, heads and queries at a time: all for the fused kernel, a cache's worth for the plain one."""
        heads, room = self.num_heads, BLOCK
        if fused:
            yield slice(0, count), [slice(0, heads)], slice(t0, t1)
            return
        pairs = (t1 - t0) * width
        some_b = max(1, min(count, room // (heads * pairs)))
        some_h = max(1, min(heads, room // pairs))
        some_t = t1 - t0 if pairs <= room else max(1, room // width)
        for b in range(0, count, some_b):
            for t in range(t0, t1, some_t):
                yield (
                    slice(b, min(b + some_b, count)),
                    [slice(h, min(h + some_h, heads)) for h in range(0, heads, some_h)],
                    slice(t, min(t + some_t, t1)),
                )
