"""Short: sequences of a few dozen tokens, all heads of all of them in a handful of products.

Each sequence is laid, head by head, into a square of 16, 32, 48 or 64 tokens, side by side with its like: a few batched
products do what would be hundreds of small ones, and their shapes are few, so that they come again. Rows that nobody
fills are zeros, which nobody sees.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from clearhead.attention.call import Call
from clearhead.attention.masks import Causal, Full

MOST = 64  # tokens of the longest sequence
FEWEST = 12  # sequences for which it pays
UNIT, COUNT = 16, 8  # a square's side and the squares of a size are multiples of these
HIDDEN = -1e9  # added to a score that does not count; its exponential is 0

_softmax_backward = torch.ops.aten._softmax_backward_data.default


@dataclass(frozen=True, eq=False)
class Squares:
    """Sequences of like length: `count` squares of `side` tokens, those of one sequence's heads one after another."""

    count: int
    side: int
    minus: Tensor  # (count or 1, 1 or side, side): what is added to scores


@dataclass(frozen=True, eq=False)
class Laid:
    """Where the rows (token, head) of a batch are laid; those of nobody come from, and go to, one row behind all."""

    squares: tuple[Squares, ...]
    queries: Tensor  # (rows,)
    keys: Tensor  # (rows,)


def fits(call: Call, dropout: float) -> bool:
    """Is this a batch of short sequences that are plainly attended?"""
    q, a, b = call.q, call.layout_q, call.layout_k
    if q.device.type != "cpu" or q.dtype not in (torch.bfloat16, torch.float32) or torch.compiler.is_compiling():
        return False
    if call.scale is None or call.bias is not None or dropout > 0 or call.repeats > 1 or q.shape[2] != call.v.shape[2]:
        return False
    if a.num_sequences < FEWEST or max(a.max_len, b.max_len) > MOST:
        return False
    return isinstance(call.mask, Full) or (
        isinstance(call.mask, Causal) and a.sizes == b.sizes and a.firsts == b.firsts
    )


def run(call: Call) -> Tensor:
    """Attend: (N, H, V)."""
    laid = _laid(call)
    assert call.scale is not None
    if call.needs_grad:
        return _Short.apply(call.q, call.k, call.v, laid, call.scale)  # type: ignore[no-any-return]
    pooled = _gather(call.q, laid.queries), _gather(call.k, laid.keys), _gather(call.v, laid.keys)
    return _scatter(_forward(*pooled, laid, call.scale)[0], laid.queries, call.q)


def _forward(
    q: Tensor, k: Tensor, v: Tensor, laid: Laid, scale: float, keep: bool = False
) -> tuple[Tensor, list[Tensor]]:
    """What each row gathers, and the weights of every square in float32."""
    out, kept = torch.empty_like(q), list[Tensor]()
    with torch.autocast("cpu", enabled=False):  # scores and weights are float32, whatever the rest is
        for square, (gq, gk, gv, gout) in _each(laid.squares, q, k, v, out):
            scores = torch.baddbmm(square.minus, gq.float(), gk.float().transpose(1, 2), alpha=scale)
            weights = torch.softmax(scores, -1)
            torch.bmm(weights.to(q.dtype), gv, out=gout)
            if keep:
                kept.append(weights)
    return out, kept


class _Short(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, q: Tensor, k: Tensor, v: Tensor, laid: Laid, scale: float) -> Tensor:
        pooled = _gather(q, laid.queries), _gather(k, laid.keys), _gather(v, laid.keys)
        out, weights = _forward(*pooled, laid, scale, keep=True)
        ctx.save_for_backward(*pooled, *weights)
        ctx.laid, ctx.scale, ctx.shapes = laid, scale, (q[:0], len(q), len(k))
        return _scatter(out, laid.queries, q)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:  # type: ignore[override]
        q, k, v, *weights = ctx.saved_tensors
        laid, (like, queries, keys) = ctx.laid, ctx.shapes
        grad = _gather(grad, laid.queries)
        dq, dk, dv = torch.empty_like(q), torch.empty_like(k), torch.empty_like(v)
        rows = _each(laid.squares, q, k, v, grad, dq, dk, dv)
        for (_, (gq, gk, gv, ggrad, gdq, gdk, gdv)), used in zip(rows, weights, strict=True):
            dweights = torch.bmm(ggrad.float(), gv.float().transpose(1, 2))  # exact: their mean is taken off
            dscores = _softmax_backward(dweights, used, -1, torch.float32).mul_(ctx.scale).to(q.dtype)
            torch.bmm(dscores, gk, out=gdq)
            torch.bmm(dscores.transpose(1, 2), gq, out=gdk)
            torch.bmm(used.to(q.dtype).transpose(1, 2), ggrad, out=gdv)
        found = _scatter(dq, laid.queries, like, queries), *(_scatter(d, laid.keys, like, keys) for d in (dk, dv))
        return *found, None, None


def _each(squares: Sequence[Squares], *pooled: Tensor) -> Any:
    """The squares, each with its part of every pooled matrix, (count, side, width)."""
    begin = 0
    for square in squares:
        rows = slice(begin, begin + square.count * square.side)
        begin = rows.stop
        yield square, [x[rows].view(square.count, square.side, -1) for x in pooled]


def _gather(x: Tensor, rows: Tensor) -> Tensor:
    """(N, H, K) to the rows that squares are made of, (rows, K)."""
    width = x.shape[2]
    return torch.cat([x.reshape(-1, width), x.new_zeros(1, width)]).index_select(0, rows)


def _scatter(pooled: Tensor, rows: Tensor, like: Tensor, tokens: int | None = None) -> Tensor:
    """Rows back to (N, H, K)."""
    tokens, heads, width = len(like) if tokens is None else tokens, like.shape[1], like.shape[2]
    home = pooled.new_empty(tokens * heads + 1, width)
    return home.index_copy_(0, rows, pooled)[:-1].view(tokens, heads, width)


def _laid(call: Call) -> Laid:
    """The plan of a call, made once for all layers of a batch."""
    sizes, causal = call.layout_k.sizes, isinstance(call.mask, Causal)
    key = "laid", sizes, call.num_heads, causal
    return call.layout_q.kept(key, lambda: lay(call.layout_q.sizes, sizes, call.num_heads, causal))


def lay(sizes_q: Sequence[int], sizes_k: Sequence[int], heads: int, causal: bool) -> Laid:
    """Lay sequences with these query and key lengths into squares."""
    lengths = np.array(sizes_q), np.array(sizes_k)
    starts = [np.cumsum(n) - n for n in lengths]
    behind = [int(n.sum()) * heads for n in lengths]  # the row of nobody
    sides = np.maximum(1, -(-np.maximum(*lengths) // UNIT)) * UNIT
    squares: list[Squares] = []
    rows: tuple[list[np.ndarray], list[np.ndarray]] = ([], [])
    for side in np.unique(sides).tolist():
        members = np.flatnonzero(sides == side)
        count = -(-len(members) // COUNT) * COUNT
        place = np.arange(side)
        for n, start, nobody, found in zip(lengths, starts, behind, rows, strict=True):
            token = np.full((count, side), -1)
            token[: len(members)] = np.where(place < n[members, None], start[members, None] + place, -1)
            row = token[:, None, :] * heads + np.arange(heads)[:, None]  # (count, H, side)
            found.append(np.where(token[:, None, :] < 0, nobody, row).reshape(-1))
        if causal:
            minus = np.triu(np.full((1, side, side), HIDDEN, dtype=np.float32), 1)
        else:
            few = np.zeros(count, dtype=np.int64)
            few[: len(members)] = lengths[1][members]
            minus = np.where(place < few[:, None], 0.0, HIDDEN).astype(np.float32)
            minus = np.repeat(minus, heads, axis=0)[:, None, :]  # (count H, 1, side)
        squares.append(Squares(count * heads, side, torch.from_numpy(minus)))
    queries, keys = (torch.from_numpy(np.concatenate(found)) for found in rows)
    return Laid(tuple(squares), queries, keys)
