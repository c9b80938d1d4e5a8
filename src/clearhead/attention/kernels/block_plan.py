"""The plan of the block_sparse kernel: which blocks of keys each block of queries reads, cut into tiles."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property

import torch
import torch.nn.functional as F
from torch import Tensor

from clearhead.attention import dropout_mask
from clearhead.attention.layout import Layout
from clearhead.attention.masks import Mask, shared_key
from clearhead.attention.tuning import TUNING

MAX_PADDING = 8  # at most 1 / this of the blocks of a tile are padding
STRIP = 2**16  # pairs of blocks that a mask is asked for at once


@dataclass(frozen=True, eq=False)
class BlockTile:
    """Queries [t0, t1) of a sequence, in m equal parts, each with the blocks of keys that it reads."""

    t0: int
    t1: int
    keys: Tensor  # (m, n): numbers of blocks of keys
    allowed: Tensor | None  # (m or 1, h or 1, t or 1, n size) bool; None: every pair
    empty: Tensor | None  # (m or 1, h or 1, t or 1, 1) bool, the queries without a key; None: there are none
    run: int | None  # the first block, if each part reads n blocks in a row, one block after the part before

    def queries(self, x: Tensor) -> Tensor:
        """The queries of the tile from those of a sequence (T, h, width), (m, h, t, width): the same memory."""
        return x[self.t0 : self.t1].unflatten(0, (self.keys.shape[0], -1)).transpose(1, 2)

    def gather(self, x: Tensor) -> Tensor:
        """The keys or values that each part reads, (m, h, n size, width), from all blocks (blocks size, h, width)."""
        size, (m, n) = TUNING.sparse_block, self.keys.shape
        _, heads, width = x.shape
        by_token, by_head, _ = x.stride()
        if self.run is not None:  # overlapping parts of the same memory
            begin = x.storage_offset() + self.run * size * by_token
            return x.as_strided((m, heads, n * size, width), (size * by_token, by_head, by_token, 1), begin)
        blocks = x.unflatten(0, (-1, size)).index_select(0, self.keys.flatten())  # (m n, size, h, width)
        return blocks.unflatten(0, (m, n)).flatten(1, 2).transpose(1, 2)

    def add(self, total: Tensor, part: Tensor) -> None:
        """Add gradients (m, h, n size, width) to those of all blocks (blocks size, h, width)."""
        blocks = part.transpose(1, 2).unflatten(1, (-1, TUNING.sparse_block)).flatten(0, 1)  # (m n, size, h, width)
        total.unflatten(0, (-1, TUNING.sparse_block)).index_add_(0, self.keys.flatten(), blocks)


class HeadPlan:
    """The tiles of some heads of one sequence: together they hold each query once.

    Heads with different masks read the blocks that any of them touches.
    """

    def __init__(self, layout_q: Layout, layout_k: Layout, sequence: int, mask: Mask, heads: range) -> None:
        self._mask = mask.of_head(sequence, heads.start if len(heads) == 1 else None)
        self._whole, self._heads, self._sequence = mask, heads, sequence
        self._T, self._start_q = layout_q.host_lengths[sequence], layout_q.host_starts[sequence]
        self._S, self._start_k = layout_k.host_lengths[sequence], layout_k.host_starts[sequence]
        self._same: dict[tuple[torch.Size, bytes], Tensor] = {}  # equal masks are kept once

    @cached_property
    def tiles(self) -> list[BlockTile]:
        return list(self._cut()) if self._T and self._S else []

    @property
    def num_pairs(self) -> int:
        """The pairs of queries and keys in blocks that the mask touches."""
        return sum(self._counts) * TUNING.sparse_block**2 if self._T and self._S else 0

    def _allowed(self, t0: int, t1: int, keys: Tensor, real: Tensor, masked: list[int]) -> Tensor | None:
        """What the mask allows of the blocks `keys` (m, n) for each part of the queries; None: every pair."""
        if not masked:
            return None
        size, (m, n) = TUNING.sparse_block, keys.shape
        chosen = keys[:, masked]
        at_q = torch.arange(t0, t1).view(m, -1, 1, 1) + self._start_q
        places = (chosen * size).view(m, 1, -1, 1) + torch.arange(size)  # (m, 1, columns, size)
        at_k = places.clamp(max=self._S - 1) + self._start_k
        readable = (places < self._S) & real[:, masked].view(m, 1, -1, 1)
        own = self._whole.allows_heads(self._sequence, self._heads, at_q, at_k) & readable  # (h, m, t, columns, size)
        part = own.transpose(0, 1)
        for dim in range(3):  # equal parts, heads or queries are kept once
            if bool((part == part.narrow(dim, 0, 1)).all()):
                part = part.narrow(dim, 0, 1)
        out = torch.ones(*part.shape[:3], n, size, dtype=torch.bool)
        out[:, :, :, masked] = part
        out = out.flatten(3)
        return self._same.setdefault((out.shape, out.numpy().tobytes()), out) if len(out) == 1 else out

    def _cut(self) -> Iterator[BlockTile]:
        T, size = self._T, TUNING.sparse_block
        counts = self._counts
        lo = 0
        while lo < len(counts):
            hi = self._last_of_tile(counts, lo)
            some, every = self._touched(lo, hi), self._covered(lo, hi)
            keys, real = _numbers(some, max(max(counts[lo:hi]), 1))
            masked = (~(every.gather(1, keys) & real)).any(0).nonzero().flatten().tolist()
            end, step = min(hi * size, T), min(hi * size, T) - lo * size
            if hi - lo == 1:  # of many keys, few queries at a time
                step = min(step, max(1, TUNING.sparse_tile_scores // (keys.shape[1] * size)))
            for t0 in range(lo * size, end, step):
                t1 = min(t0 + step, end)
                allowed = self._allowed(t0, t1, keys, real, masked)
                empty = None if allowed is None else ~allowed.any(3, keepdim=True)
                yield BlockTile(
                    t0, t1, keys, allowed, empty if empty is not None and bool(empty.any()) else None, _run(keys)
                )
            lo = hi

    def _last_of_tile(self, counts: list[int], lo: int) -> int:
        """The end of the tile that starts with block `lo`: whole blocks of about as many keys."""
        size = TUNING.sparse_block
        if (lo + 1) * size > self._T:
            return lo + 1  # a last block of fewer queries
        whole = min(len(counts), self._T // size)
        most, total, hi = counts[lo], counts[lo], lo + 1
        while hi < whole:
            most, total = max(most, counts[hi]), total + counts[hi]
            computed = most * (hi + 1 - lo)
            if computed * size * size > TUNING.sparse_tile_scores or (computed - total) * MAX_PADDING > computed:
                break
            hi += 1
        return hi

    @cached_property
    def _counts(self) -> list[int]:
        """How many blocks of keys the mask touches for each block of queries."""
        size = TUNING.sparse_block
        number, rows = -(-self._T // size), max(1, STRIP // -(-self._S // size))
        strips = ((lo, min(lo + rows, number)) for lo in range(0, number, rows))
        return [count for lo, hi in strips for count in self._touched(lo, hi).sum(1).tolist()]

    def _touched(self, lo: int, hi: int) -> Tensor:
        """Which blocks of keys the mask touches for blocks [lo, hi) of queries, (blocks of queries, blocks of keys)."""
        spans = self._spans(lo, hi)
        return torch.as_tensor(self._mask.any_allowed(*spans)).expand(hi - lo, spans[2].shape[1])

    def _covered(self, lo: int, hi: int) -> Tensor:
        """Which blocks the mask fully allows, in the same shape."""
        spans = self._spans(lo, hi)
        every = torch.as_tensor(self._mask.all_allowed(*spans)).expand(hi - lo, spans[2].shape[1])
        # a last block that holds padding is not covered
        return every if self._S % TUNING.sparse_block == 0 else F.pad(every[:, :-1], (0, 1))

    def _spans(self, lo: int, hi: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """The first and last positions of blocks of queries (n, 1) and of all blocks of keys (1, m)."""
        size = TUNING.sparse_block
        q = torch.arange(lo, hi + 1).mul_(size).clamp_(max=self._T).add_(self._start_q)
        k = torch.arange(-(-self._S // size) + 1).mul_(size).clamp_(max=self._S).add_(self._start_k)
        return q[:-1, None], q[1:, None], k[None, :-1], k[None, 1:]


def _numbers(some: Tensor, most: int) -> tuple[Tensor, Tensor]:
    """The numbers of the touched blocks of each row, (m, most) with padding, and which of them are no padding."""
    real = torch.arange(most) < some.sum(1, keepdim=True)
    keys = torch.zeros(len(some), most, dtype=torch.int64)
    keys[real] = some.nonzero()[:, 1]  # both in the order of the rows
    return keys, real


def _run(keys: Tensor) -> int | None:
    """The first block, if the blocks of each part follow each other, and each part starts one block later."""
    m, n = keys.shape
    expected = keys[0, 0] + torch.arange(m).unsqueeze(1) + torch.arange(n)
    return int(keys[0, 0]) if torch.equal(keys, expected) else None


@dataclass(frozen=True, eq=False)
class BlockCall:
    """The arguments of one call besides its tensors, and its plans."""

    layout_q: Layout
    layout_k: Layout
    mask: Mask
    scale: float = 1.0
    dropout: float = 0.0
    seed: int = 0
    _plans: dict[tuple[int, range], HeadPlan] = field(default_factory=dict)

    def plan(self, sequence: int, heads: range) -> HeadPlan:
        """The plan of some heads. All calls of a batch share the plans of a mask that is known to be the same."""
        key = shared_key(self.mask)
        plans = self._plans
        if key is not None:
            name = "blocks", key, id(self.layout_k), TUNING.sparse_block, TUNING.sparse_tile_scores
            # the layout is kept alive: the key holds its id
            plans = self.layout_q.memoize(name, lambda: (self.layout_k, {}))[1]
        place = sequence, heads if self.mask.per_head else range(1)
        if place not in plans:
            plans[place] = HeadPlan(self.layout_q, self.layout_k, sequence, self.mask, place[1])
        return plans[place]

    def kept(self, weights: Tensor, sequence: int, heads: range, number: int) -> Tensor:
        """The dropout mask of one tile of some heads, (m, h, t, n size)."""
        masks = (
            dropout_mask.keep_mask_of_tile(weights[:, i], self.dropout, self.seed, sequence, head, number)
            for i, head in enumerate(heads)
        )
        return torch.stack(list(masks), dim=1)

    @property
    def share(self) -> float:
        """The share of all pairs of queries and keys that the first head touches; nothing is cut into tiles for it."""
        pairs = sum(T * S for T, S in zip(self.layout_q.host_lengths, self.layout_k.host_lengths, strict=True))
        return sum(self.plan(i, range(1)).num_pairs for i in range(self.layout_q.num_sequences)) / max(pairs, 1)
