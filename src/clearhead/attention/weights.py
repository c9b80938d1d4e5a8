"""Weights: the attention weights of a call, exactly, for just the queries and keys that are asked for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from clearhead.attention.call import Call
from clearhead.attention.masks import Full

BLOCK = 2 * 1024 * 1024  # scores held at once, 8 MB: measured fastest, and small beside any model
CALM = 60.0  # exponentials of scores up to this size, and sums of many of them, neither overflow nor vanish

Which = Sequence[int] | Tensor | slice


class Scores:
    """The scores of one head over some keys of one sequence, for whichever queries are asked; float32 or better.

    What a call returns lives in memory that the next call uses again.
    """

    def __init__(self, call: Call, sequence: int, head: int, keys: Which = slice(None)) -> None:
        self._call, self._head = call, head
        rows_q, rows_k = call.layout_q.rows(sequence), call.layout_k.rows(sequence)
        self._dtype = torch.promote_types(call.q.dtype, torch.float32)
        self._q = call.q[rows_q, head].detach()  # (T, K), a view
        self._k = call.k[rows_k, head // call.repeats][keys].detach().to(self._dtype)  # (s, K)
        self._at_q = call.layout_q.positions[rows_q]
        self._at_k = call.layout_k.positions[rows_k][keys].view(1, 1, -1)
        self._span_k = _span(self._at_k)
        self._sequence = torch.tensor([[[sequence]]], device=call.q.device)
        self._room = self._k.new_empty(0)

    @torch.no_grad()
    def __call__(self, queries: Which) -> Tensor:
        """Scores with bias, before the softmax, (t, s); -inf where the mask forbids."""
        call, result = self._call, self._pair(self._q[queries].to(self._dtype))
        if call.bias is None and isinstance(call.mask, Full):
            return result
        at_q, at_k = self._at_q[queries].view(1, -1, 1), self._at_k
        if call.bias is not None:
            result += call.bias(self._sequence, at_q, at_k)[0, self._head].to(self._dtype)
        if result.numel() and not call.mask.covers(*_span(at_q), *self._span_k):
            result.masked_fill_(~call.mask.allows(self._sequence, at_q, at_k)[0], float("-inf"))
        return result

    def _pair(self, q: Tensor) -> Tensor:
        scale = self._call.scale
        if scale is None:
            return self._call.score.pair(q[None], self._k[None], slice(self._head, self._head + 1))[0]
        size = q.shape[0] * self._k.shape[0]
        if self._room.numel() < size:
            self._room = self._k.new_empty(size)
        return torch.mm(q * scale, self._k.T, out=self._room[:size].view(q.shape[0], self._k.shape[0]))


def rows(call: Call, sequence: int, head: int, queries: Which) -> Tensor:
    """The weights of some queries (counted within the sequence) over all keys, (len, S), for one head."""
    return shares(Scores(call, sequence, head)(queries))


def shares(scores: Tensor) -> Tensor:
    """Scores over all keys to weights, (t, s). A row that may attend to nothing gives 0."""
    weights = torch.softmax(scores, dim=-1)
    dead = weights[..., :1].isnan() & scores[..., :1].isneginf()
    return weights.masked_fill_(dead, 0.0) if bool(dead.any()) else weights


def exponentials(scores: Tensor, base: Tensor) -> Tensor:
    """exp(scores - base) in place, (t, s), for a base of each row, (t,); 0 for a row whose base is -inf."""
    base = base.masked_fill(base.isneginf(), 0.0)
    return scores.sub_(base.unsqueeze(-1)).exp_()


def log_sums(scores: Tensor, top: Tensor) -> Tensor:
    """log-sum-exp of each row, (t,), given its largest score; overwrites the scores (t, s)."""
    if bool(top.abs().amax() <= CALM):
        return scores.exp_().sum(-1).log_()
    return exponentials(scores, top).sum(-1).log_().add_(top)


def normalisers(call: Call, sequence: int, head: int) -> Tensor:
    """log-sum-exp of each query's scores, (T,): what turns any rectangle of scores into weights."""
    scores = Scores(call, sequence, head)
    T, S = call.layout_q.sizes[sequence], call.layout_k.sizes[sequence]
    out = torch.empty(T, dtype=torch.promote_types(call.q.dtype, torch.float32))
    for block in blocks(T, S):
        found = scores(block)
        top = found.amax(-1)
        out[block] = log_sums(found, top)
    return out


def blocks(count: int, width: int) -> Iterator[slice]:
    """Ranges of rows, each `width` wide, that fit a block; at least one row each."""
    step = max(1, BLOCK // max(width, 1))
    for lo in range(0, count, step):
        yield slice(lo, min(lo + step, count))


def _span(at: Tensor) -> tuple[int, int]:
    return (int(at.min()), int(at.max()) + 1) if at.numel() else (0, 0)
