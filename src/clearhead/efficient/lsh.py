"""LSH attention: a query reads the keys of its own hash bucket (Reformer, Kitaev et al. 2020, section 2)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache, reduce
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from clearhead.attention import dropout_mask
from clearhead.attention.fused_attention import fused_forward
from clearhead.attention.inputs import AttentionInputs
from clearhead.attention.layout import Layout, each_head
from clearhead.attention.masks import Causal, Full, Mask
from clearhead.attention.method import SparseMethod, at_least
from clearhead.attention.tuning import TUNING

BLOCK = 64  # sorted queries that read one range of sorted keys
TILE_SCORES = 2**18  # scores computed at once


class LSH(SparseMethod):
    """Keys in the same bucket of one of several angular hashes, at most `window` of them, and the `local` neighbours.

    Queries and keys are hashed by the same random directions. Of a bucket, a query reads the keys that are nearest to
    it by position: the last `window` before it where attention is causal, else half of them on each side. A key that
    several rounds find counts once, so the weights are the softmax over all keys found. What a query reads depends on
    itself and on the keys it may see, never on how many tokens follow.
    """

    kind = "lsh"

    def __init__(
        self, *, rounds: int = 4, buckets: int = 64, window: int = 128, local: int = 64, seed: int = 0
    ) -> None:
        super().__init__()
        at_least(1, rounds=rounds, buckets=buckets, window=window)
        at_least(0, local=local, seed=seed)
        if buckets > 1 and buckets % 2:
            raise ValueError(f"buckets is {buckets}: it must be 1 or even, a direction and its opposite")
        self.rounds, self.buckets, self.window, self.local, self.seed = rounds, buckets, window, local, seed

    @torch.no_grad()
    def mask(self, inputs: AttentionInputs) -> LSHMask:
        inputs.require_dot_products("LSH")
        return LSHMask(self, inputs)

    def forward(self, inputs: AttentionInputs, dropout: float = 0.0) -> Tensor:
        pairs = inputs.layout_q.max_len * inputs.layout_k.max_len
        if pairs <= TUNING.sparse_tile_scores and inputs.q.device.type == "cpu":
            return super().forward(inputs, dropout)  # all pairs of a short text, under the mask
        seed = int(torch.randint(2**62, ())) if dropout > 0 else 0
        call = _Call(self.mask(inputs), inputs.mask, inputs.scale or 1.0, inputs.repeats, dropout, seed)
        return _LSH.apply(inputs.q, inputs.k, inputs.v, call)

    def bucket_of(self, x: Tensor, turn: int) -> Tensor:
        """The bucket of each row (T, K) in one round, (T,)."""
        if self.buckets == 1:
            return torch.zeros(len(x), dtype=torch.int64)
        turned = x @ _directions(self.seed * 1000 + turn, x.shape[1], self.buckets // 2).to(x.dtype)
        high, low = turned.max(1), turned.min(1)
        return torch.where(high.values >= -low.values, high.indices, low.indices + self.buckets // 2)


@lru_cache(maxsize=64)
def _directions(seed: int, width: int, count: int) -> Tensor:
    """Random directions of length 1, (width, count)."""
    generator = torch.Generator().manual_seed(seed)
    directions = torch.randn(width, count, generator=generator, dtype=torch.float64)
    return directions / directions.norm(dim=0)


@dataclass(frozen=True, eq=False)
class Round:
    """One order of the keys of a head: each query reads the keys whose rank is in [lo, hi)."""

    order_q: Tensor  # (T,): queries by bucket, then position
    order_k: Tensor  # (S,)
    rank: Tensor  # (S,) int32: the place of a key in `order_k`
    lo: Tensor  # (T,) int32
    hi: Tensor  # (T,) int32

    def finds(self, queries: Tensor, keys: Tensor) -> Tensor:
        """Whether these queries read these keys, of the broadcast shape."""
        rank = self.rank[keys]
        return (rank >= self.lo[queries]) & (rank < self.hi[queries])


class LSHMask(Mask):
    """The pairs that LSH attention reads. The rounds of all heads are computed when one is first asked for."""

    def __init__(self, method: LSH, inputs: AttentionInputs) -> None:
        self._method, self._inputs = method, inputs
        self._place: tuple[int, int] | None = None  # the sequence and the head; None: all
        self._all_rounds: list[_BatchRound] = []

    per_head = True  # type: ignore[assignment]

    @property
    def layouts(self) -> tuple[Layout, Layout]:
        return self._inputs.layout_q, self._inputs.layout_k

    def of_head(self, sequence: int, head: int | None) -> Mask:
        mask = LSHMask(self._method, self._inputs)
        mask._place = None if head is None else (sequence, head)
        mask._all_rounds = self._all_rounds
        return mask

    def allows(self, sequence: Tensor, query: Tensor, key: Tensor) -> Tensor:
        if self._place is None:
            raise ValueError("the heads of this mask differ: ask the mask of one head, `of_head(sequence, head)`")
        number, head = self._place
        return self.allows_heads(number, range(head, head + 1), query, key)[0] & (sequence == sequence)

    def allows_heads(self, sequence: int, heads: range, query: Tensor, key: Tensor) -> Tensor:
        layout_q, layout_k = self.layouts
        i, j = query - layout_q.host_starts[sequence], key - layout_k.host_starts[sequence]
        found = (turn.finds(self._inputs, sequence, heads, i, j) for turn in self._rounds)
        return reduce(torch.Tensor.logical_or_, found)

    def rounds(self, sequence: int, head: int) -> list[Round]:
        """The rounds of a head: the neighbours first, then one for each hash."""
        return [turn.of_head(self._inputs, sequence, head) for turn in self._rounds]

    @property
    @torch.no_grad()
    def _rounds(self) -> list[_BatchRound]:
        rounds, method, inputs = self._all_rounds, self._method, self._inputs
        if rounds:
            return rounds
        if method.local:
            same_q, same_k = (x.new_zeros(x.shape[:2], dtype=torch.int64) for x in (inputs.q, inputs.k))
            rounds.append(_BatchRound.of(inputs, same_q, same_k, 1, method.local))
        for turn in range(method.rounds):
            bucket_q, bucket_k = (
                method.bucket_of(x.flatten(0, 1), turn).view(x.shape[:2]) for x in (inputs.q, inputs.k)
            )
            rounds.append(_BatchRound.of(inputs, bucket_q, bucket_k, method.buckets, method.window))
        return rounds


@dataclass(frozen=True, eq=False)
class _BatchRound:
    """The orders of one round for all heads of all sequences, one head after another."""

    order_q: Tensor  # (N H,): numbers of queries in their sequence
    order_k: Tensor  # (M H,)
    rank: Tensor  # (H, M) int32
    lo: Tensor  # (H, N) int32
    hi: Tensor  # (H, N) int32

    @staticmethod
    def of(inputs: AttentionInputs, bucket_q: Tensor, bucket_k: Tensor, count: int, window: int) -> _BatchRound:
        """Order queries by their buckets (N, H), and keys by theirs (M, heads of keys), of so many buckets."""
        layouts, heads, device = (inputs.layout_q, inputs.layout_k), inputs.q.shape[1], inputs.q.device
        head = torch.arange(heads, device=device).unsqueeze(1)  # (H, 1)
        buckets = bucket_q.T, bucket_k.T.repeat_interleave(inputs.repeats, 0)  # (H, N), (H, M)
        wide = max(layout.end for layout in layouts) + 1
        groups = [(layout.sequence_ids * heads + head) for layout in layouts]  # (H, N), (H, M): a head of a sequence
        cells = [group * count + bucket for group, bucket in zip(groups, buckets, strict=True)]
        code_q, code_k = (cell * wide + layout.positions for cell, layout in zip(cells, layouts, strict=True))
        ordered, order_k = code_k.flatten().sort()
        first, last = (torch.searchsorted(ordered, cell * wide) for cell in (cells[0], cells[0] + 1))
        here = torch.searchsorted(ordered, code_q, right=True)  # keys up to the query's position
        causal = inputs.mask.band[1] == 0
        before, after = (window, 0) if causal else (window - window // 2, window // 2)
        rank = torch.empty_like(order_k)
        rank[order_k] = torch.arange(len(order_k), device=device)
        # a head's keys are behind those of all groups before it
        start_q, start_k = (layout.offsets[:-1] for layout in layouts)
        base = start_k * heads + head * (layouts[1].offsets[1:] - start_k)  # (H, B)
        base_q, base_k = (base[:, layout.sequence_ids] for layout in layouts)
        lo, hi = torch.maximum(first, here - before) - base_q, torch.minimum(last, here + after) - base_q
        rank = rank.view(code_k.shape) - base_k
        own_q, own_k = (
            torch.arange(len(layout.sequence_ids), device=device) - start[layout.sequence_ids]
            for layout, start in zip(layouts, (start_q, start_k), strict=True)
        )
        order_q = own_q.repeat(heads)[code_q.flatten().argsort()]
        return _BatchRound(order_q, own_k.repeat(heads)[order_k], rank.int(), lo.int(), hi.int())

    def finds(self, inputs: AttentionInputs, sequence: int, heads: range, queries: Tensor, keys: Tensor) -> Tensor:
        """Whether these queries of some heads of a sequence read these keys, (h, ...)."""
        some = slice(heads.start, heads.stop)
        rows_q, rows_k = inputs.layout_q.rows(sequence), inputs.layout_k.rows(sequence)
        depth = max(queries.dim(), keys.dim())  # the heads come before all dimensions of both
        queries, keys = (x.view((1,) * (depth - x.dim()) + x.shape) for x in (queries, keys))
        rank = self.rank[some, rows_k][:, keys]
        return (rank >= self.lo[some, rows_q][:, queries]) & (rank < self.hi[some, rows_q][:, queries])

    def of_head(self, inputs: AttentionInputs, sequence: int, head: int) -> Round:
        rows_q, rows_k = (layout.rows(sequence) for layout in (inputs.layout_q, inputs.layout_k))
        order_q, order_k = (
            order.narrow(0, rows.start * inputs.q.shape[1] + head * (rows.stop - rows.start), rows.stop - rows.start)
            for order, rows in ((self.order_q, rows_q), (self.order_k, rows_k))
        )
        return Round(order_q, order_k, self.rank[head, rows_k], self.lo[head, rows_q], self.hi[head, rows_q])


@dataclass(frozen=True, eq=False)
class _Tile:
    queries: Tensor  # (m, t): queries of a sequence
    keys: Tensor  # (m, s)
    allowed: Tensor  # (m, t, s) bool


@dataclass(frozen=True, eq=False)
class _Call:
    mask: LSHMask
    layer_mask: Mask
    scale: float
    repeats: int
    dropout: float
    seed: int

    def tiles(self, sequence: int, head: int) -> Iterator[_Tile]:
        """Tiles of the pairs that a head reads: each pair is allowed in one of them."""
        rounds = self.mask.rounds(sequence, head)
        for number, turn in enumerate(rounds):
            whole = len(turn.order_q) // BLOCK * BLOCK
            for blocks in (turn.order_q[:whole].view(-1, BLOCK), turn.order_q[whole:].unsqueeze(0)):
                for queries, ranks in _ranges(turn, blocks):
                    keys = turn.order_k[ranks.clamp(max=len(turn.order_k) - 1)]
                    yield _Tile(queries, keys, self._allowed(rounds, number, queries, keys, ranks, sequence, head))

    def _allowed(
        self, rounds: list[Round], number: int, queries: Tensor, keys: Tensor, ranks: Tensor, sequence: int, head: int
    ) -> Tensor:
        """The pairs that this round finds and no earlier one has found, where the layer's mask allows them."""
        turn, q, k = rounds[number], queries.unsqueeze(2), keys.unsqueeze(1)
        rank = ranks.unsqueeze(1)
        allowed = (rank >= turn.lo[q]) & (rank < turn.hi[q])
        for earlier in rounds[:number]:
            allowed &= ~earlier.finds(q, k)
        if not isinstance(self.layer_mask, (Full, Causal)):
            layout_q, layout_k = self.mask.layouts
            at_q, at_k = q + layout_q.host_starts[sequence], k + layout_k.host_starts[sequence]
            allowed &= self.layer_mask.of_head(sequence, head).allows(torch.tensor(sequence), at_q, at_k)
        return allowed

    def kept(self, weights: Tensor, sequence: int, head: int, number: int) -> Tensor:
        """The dropout mask of a tile."""
        return dropout_mask.keep_mask_of_tile(weights, self.dropout, self.seed, sequence, head, number)


def _ranges(turn: Round, blocks: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    """Groups of blocks of queries (m, t), with the ranks of the keys that they read, (m, s)."""
    if not blocks.numel():
        return
    lo, hi = turn.lo[blocks].amin(1), turn.hi[blocks].amax(1)
    widths, start = (hi - lo).tolist(), 0
    while start < len(widths):
        stop, wide = start + 1, widths[start]
        while stop < len(widths) and max(wide, widths[stop]) * (stop + 1 - start) * blocks.shape[1] <= TILE_SCORES:
            wide, stop = max(wide, widths[stop]), stop + 1
        if wide > 0:
            yield blocks[start:stop], lo[start:stop].unsqueeze(1) + torch.arange(wide, dtype=torch.int32)
        start = stop


class _LSH(torch.autograd.Function):
    """Forward and backward by tiles; only the inputs, the output and the logsumexp of each query are kept."""

    @staticmethod
    def forward(ctx: Any, q: Tensor, k: Tensor, v: Tensor, call: _Call) -> Tensor:
        out = q.new_zeros(len(q), q.shape[1], v.shape[2])
        total = q.new_full(q.shape[:2], float("-inf"))  # logsumexp, (N, H)
        for sequence, head, rows_q, rows_k in each_head(*call.mask.layouts, q.shape[1]):
            hq, hk, hv = q[rows_q, head], k[rows_k, head // call.repeats], v[rows_k, head // call.repeats]
            hout, htotal = out[rows_q, head], total[rows_q, head]
            for number, tile in enumerate(call.tiles(sequence, head)):
                part, logs = _attend(hq, hk, hv, tile, call, (sequence, head, number))
                before = htotal[tile.queries]
                after = torch.logaddexp(before, logs)
                base = after.masked_fill(after.isneginf(), 0.0)
                old = _take(hout, tile.queries).mul_((before - base).exp_().unsqueeze(2))
                hout[tile.queries] = old.addcmul_(part, (logs - base).exp_().unsqueeze(2))
                htotal[tile.queries] = after
        ctx.save_for_backward(q, k, v, out, total)
        ctx.call = call
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:  # type: ignore[override]
        q, k, v, out, total = ctx.saved_tensors
        call: _Call = ctx.call
        dq, dk, dv = torch.zeros_like(q), torch.zeros_like(k), torch.zeros_like(v)
        delta = (grad * out).sum(2)  # (N, H)
        for sequence, head, rows_q, rows_k in each_head(*call.mask.layouts, q.shape[1]):
            group = head // call.repeats
            hq, hk, hv = q[rows_q, head], k[rows_k, group], v[rows_k, group]
            hgrad, hdelta, htotal = grad[rows_q, head], delta[rows_q, head], total[rows_q, head]
            htotal = htotal.masked_fill(htotal.isneginf(), 0.0)
            hdq, hdk, hdv = torch.zeros_like(hq), torch.zeros_like(hk), torch.zeros_like(hv)
            for number, tile in enumerate(call.tiles(sequence, head)):
                weights = _scores(hq, hk, tile, call.scale).sub_(htotal[tile.queries].unsqueeze(2)).exp_()
                up, used = _take(hgrad, tile.queries), weights
                dweights = up @ _take(hv, tile.keys).transpose(1, 2)
                if call.dropout > 0:
                    kept = call.kept(weights, sequence, head, number).mul(dropout_mask.keep_scale(call.dropout))
                    used, dweights = weights * kept, dweights.mul_(kept)
                dscores = dweights.sub_(hdelta[tile.queries].unsqueeze(2)).mul_(weights).mul_(call.scale)
                keys, queries = tile.keys.flatten(), tile.queries.flatten()
                hdq.index_add_(0, queries, (dscores @ _take(hk, tile.keys)).flatten(0, 1))
                hdk.index_add_(0, keys, (dscores.transpose(1, 2) @ _take(hq, tile.queries)).flatten(0, 1))
                hdv.index_add_(0, keys, (used.transpose(1, 2) @ up).flatten(0, 1))
            dq[rows_q, head] = hdq
            dk[rows_k, group] += hdk
            dv[rows_k, group] += hdv
        return dq, dk, dv, None


def _attend(
    hq: Tensor, hk: Tensor, hv: Tensor, tile: _Tile, call: _Call, number: tuple[int, int, int]
) -> tuple[Tensor, Tensor]:
    """The output of a tile (m, t, V) and the logsumexp of its scores (m, t), -inf for queries without a key."""
    empty = ~tile.allowed.any(2)  # (m, t)
    if call.dropout > 0 or hq.shape[1] != hv.shape[1] or hq.device.type != "cpu":
        scores = _scores(hq, hk, tile, call.scale).masked_fill_(empty.unsqueeze(2), 0.0)
        logs = scores.logsumexp(2)
        weights = scores.sub_(logs.unsqueeze(2)).exp_()
        if call.dropout > 0:
            weights = weights.mul_(call.kept(weights, *number)).mul_(dropout_mask.keep_scale(call.dropout))
        return weights @ _take(hv, tile.keys), logs.masked_fill_(empty, float("-inf"))
    mask = torch.zeros(tile.allowed.shape, dtype=hq.dtype)
    mask.masked_fill_(~(tile.allowed | empty.unsqueeze(2)), float("-inf"))
    queries, keys, values = (
        _take(x, rows).unsqueeze(1) for x, rows in ((hq, tile.queries), (hk, tile.keys), (hv, tile.keys))
    )
    out, logs = fused_forward(queries, keys, values, call.scale, mask.unsqueeze(1))
    return out[:, 0], logs[:, 0].to(hq.dtype).masked_fill(empty, float("-inf"))


def _scores(hq: Tensor, hk: Tensor, tile: _Tile, scale: float) -> Tensor:
    scores = (_take(hq, tile.queries) * scale) @ _take(hk, tile.keys).transpose(1, 2)
    return scores.masked_fill_(~tile.allowed, float("-inf"))


def _take(x: Tensor, rows: Tensor) -> Tensor:
    """Rows (m, n) of a head (T, width), (m, n, width)."""
    return x.index_select(0, rows.flatten()).view(*rows.shape, -1)
