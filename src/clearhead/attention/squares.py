"""Squares: sequences of like length side by side, all their heads in a handful of products.

Each sequence is laid, head by head, into a square of a round number of tokens, side by side with its like: a few
batched products do what would be hundreds of small ones, and their shapes are few, so that they come again. Rows that
nobody fills are zeros, which nobody sees. Weights that dropout takes are kept for the backward pass with their sign
turned, so that one array says both.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from clearhead.attention import drops
from clearhead.attention.call import Call
from clearhead.attention.masks import Causal, Full
from clearhead.attention.pieces import BLOCK

FEWEST, SHORT = 12, 64  # without dropout it pays for so many sequences, of at most so many tokens
LONG = 512  # with dropout, which torch's fused kernel does not do, for sequences of up to so many tokens
UNIT, WIDER = 16, 32  # a square's side is a multiple of these: up to SHORT, and beyond
HIDDEN = -1e9  # added to a score that does not count; its exponential is 0

_softmax_backward = torch.ops.aten._softmax_backward_data.default
_where_positive = torch.ops.aten.threshold_backward.default


@dataclass(frozen=True, eq=False)
class Squares:
    """Sequences of like length: `count` squares of `side` tokens, those of one sequence's heads one after another."""

    count: int
    side: int
    minus: Tensor  # (count or 1, 1 or side, side): what is added to scores

    def dtype(self, like: Tensor) -> torch.dtype:
        """Short squares are used in float32: oneDNN would write code for each shape of a product in bfloat16."""
        return torch.float32 if self.side <= SHORT else like.dtype


@dataclass(frozen=True, eq=False)
class Way:
    """The way of rows into squares and back."""

    there: Tensor  # (rows of the squares,) which row of the batch each is
    back: Tensor  # (N H,) and the other way round


@dataclass(frozen=True, eq=False)
class Laid:
    """Where the rows (token, head) of a batch are laid; those of nobody come from one row behind all."""

    squares: tuple[Squares, ...]
    queries: Way
    keys: Way


@dataclass(frozen=True, eq=False)
class Use:
    """How weights come from scores and are used: the scale, and dropout with its seed."""

    scale: float
    dropout: float
    seed: int

    @property
    def growth(self) -> float:
        """What makes up for the weights that dropout takes."""
        return drops.growth(self.dropout) if self.dropout else 1.0


def fits(call: Call, dropout: float) -> bool:
    """Is this a batch that is plainly attended, of sequences for which squares pay?"""
    q, a, b = call.q, call.layout_q, call.layout_k
    if q.device.type != "cpu" or q.dtype not in (torch.bfloat16, torch.float32) or torch.compiler.is_compiling():
        return False
    if call.scale is None or call.bias is not None or call.repeats > 1 or q.shape[2] != call.v.shape[2]:
        return False
    longest, fewest = (LONG, 1) if dropout else (SHORT, FEWEST)
    if max(a.max_len, b.max_len) > longest or a.num_sequences < fewest:
        return False
    return isinstance(call.mask, Full) or (
        isinstance(call.mask, Causal) and a.sizes == b.sizes and a.firsts == b.firsts
    )


def run(call: Call, dropout: float) -> Tensor:
    """Attend: (N, H, V)."""
    laid = _laid(call)
    assert call.scale is not None
    use = Use(call.scale, dropout, int(torch.randint(2**62, ())) if dropout else 0)
    if call.needs_grad:
        return _Squares.apply(call.q, call.k, call.v, laid, use)  # type: ignore[no-any-return]
    pooled = _gather(call.q, laid.queries), _gather(call.k, laid.keys), _gather(call.v, laid.keys)
    return _scatter(_forward(*pooled, laid, use)[0], laid.queries, call.num_heads)


def _forward(q: Tensor, k: Tensor, v: Tensor, laid: Laid, use: Use, keep: bool = False) -> tuple[Tensor, list[Tensor]]:
    """What each row gathers, and the weights of every square; those that dropout took are negative."""
    out, kept = torch.empty_like(q), list[Tensor]()
    with torch.autocast("cpu", enabled=False):  # scores and weights are float32, whatever the rest is
        for i, (square, (gq, gk, gv, gout)) in enumerate(_each(laid.squares, q, k, v, out)):
            scores = torch.baddbmm(square.minus, gq.float(), gk.float().transpose(1, 2), alpha=use.scale)
            weights = torch.softmax(scores, -1)
            used = weights.to(square.dtype(q))
            if use.dropout:
                weights = drops.turned(used, use.dropout, use.seed + i)
                used = torch.relu(weights)
            _product_into(gout, used, gv, use.growth)
            if keep:
                kept.append(weights)
    return out, kept


class _Squares(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, q: Tensor, k: Tensor, v: Tensor, laid: Laid, use: Use) -> Tensor:
        pooled = _gather(q, laid.queries), _gather(k, laid.keys), _gather(v, laid.keys)
        out, weights = _forward(*pooled, laid, use, keep=True)
        ctx.save_for_backward(*pooled, *weights)
        ctx.laid, ctx.use, ctx.heads = laid, use, q.shape[1]
        return _scatter(out, laid.queries, ctx.heads)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:  # type: ignore[override]
        q, k, v, *kept = ctx.saved_tensors
        laid, use = ctx.laid, ctx.use
        grad = _gather(grad, laid.queries)
        dq, dk, dv = torch.empty_like(q), torch.empty_like(k), torch.empty_like(v)
        rows = _each(laid.squares, q, k, v, grad, dq, dk, dv)
        for (square, (gq, gk, gv, ggrad, gdq, gdk, gdv)), weights in zip(rows, kept, strict=True):
            dweights = torch.bmm(ggrad.float(), gv.float().transpose(1, 2))  # exact: their mean is taken off
            used, wide = weights.to(square.dtype(q)), weights.float()
            if use.dropout:
                used, dweights = torch.relu(used), _where_positive(dweights, wide, 0)
                wide = wide.abs()
            dscores = _softmax_backward(dweights, wide, -1, torch.float32).to(used.dtype)
            _product_into(gdq, dscores, gk, use.scale * use.growth)
            _product_into(gdk, dscores.transpose(1, 2), gq, use.scale * use.growth)
            _product_into(gdv, used.transpose(1, 2), ggrad, use.growth)
        found = [_scatter(d, way, ctx.heads) for d, way in ((dq, laid.queries), (dk, laid.keys), (dv, laid.keys))]
        return *found, None, None


def _product_into(out: Tensor, a: Tensor, b: Tensor, scale: float) -> None:
    """Out becomes scale · a @ b, computed in the dtype of a."""
    if out.dtype == a.dtype:
        torch.baddbmm(out, a, b, beta=0, alpha=scale, out=out)
    else:
        out.copy_(torch.baddbmm(a.new_empty(1, 1, 1), a, b.to(a.dtype), beta=0, alpha=scale))


def _each(squares: Sequence[Squares], *pooled: Tensor) -> Any:
    """The squares, each with its part of every pooled matrix, (count, side, width)."""
    begin = 0
    for square in squares:
        rows = slice(begin, begin + square.count * square.side)
        begin = rows.stop
        yield square, [x[rows].view(square.count, square.side, -1) for x in pooled]


def _gather(x: Tensor, way: Way) -> Tensor:
    """(N, H, K) to the rows that squares are made of, (rows, K)."""
    width = x.shape[2]
    return torch.cat([x.reshape(-1, width), x.new_zeros(1, width)]).index_select(0, way.there)


def _scatter(pooled: Tensor, way: Way, heads: int) -> Tensor:
    """Rows back to (N, H, K)."""
    return pooled.index_select(0, way.back).unflatten(0, (-1, heads))


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
    sides = _sides(np.maximum(*lengths))
    squares: list[Squares] = []
    rows: tuple[list[np.ndarray], list[np.ndarray]] = ([], [])
    for members, side in _blocks(sides, heads):
        place = np.arange(side)
        for n, start, nobody, found in zip(lengths, starts, behind, rows, strict=True):
            token = np.where(place < n[members, None], start[members, None] + place, -1)
            row = token[:, None, :] * heads + np.arange(heads)[:, None]  # (members, H, side)
            found.append(np.where(token[:, None, :] < 0, nobody, row).reshape(-1))
        if causal:
            minus = np.triu(np.full((1, side, side), HIDDEN, dtype=np.float32), 1)
        else:
            minus = np.where(place < lengths[1][members, None], 0.0, HIDDEN).astype(np.float32)
            minus = np.repeat(minus, heads, axis=0)[:, None, :]  # (members H, 1, side)
        squares.append(Squares(len(members) * heads, side, torch.from_numpy(minus)))
    queries, keys = (_way(np.concatenate(found), nobody) for found, nobody in zip(rows, behind, strict=True))
    return Laid(tuple(squares), queries, keys)


def _way(there: np.ndarray, nobody: int) -> Way:
    back = np.empty(nobody + 1, dtype=np.int64)
    back[there] = np.arange(len(there))
    return Way(torch.from_numpy(there), torch.from_numpy(back[:-1]))


def _sides(lengths: np.ndarray) -> np.ndarray:
    """The side of the square that each sequence is laid into."""
    unit = np.where(lengths <= SHORT, UNIT, WIDER)
    return np.maximum(1, -(-lengths // unit)) * unit


def _blocks(sides: np.ndarray, heads: int) -> list[tuple[np.ndarray, int]]:
    """The sequences of each side, as many at a time as a cache holds."""
    found = []
    for side in np.unique(sides).tolist():
        members, room = np.flatnonzero(sides == side), max(1, BLOCK // (heads * side**2))
        found += [(members[i : i + room], side) for i in range(0, len(members), room)]
    return found
