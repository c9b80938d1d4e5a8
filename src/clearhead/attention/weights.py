"""Weights: exact attention weights for the requested queries and keys only."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from copy import copy

import torch
from torch import Tensor

from clearhead.attention.inputs import AttentionInputs
from clearhead.attention.masks import Full
from clearhead.attention.tuning import TUNING

EXP_SAFE = 60.0  # exponentials of scores up to this size, and sums of many of them, neither overflow nor vanish

Which = Sequence[int] | Tensor | slice


class HeadScores:
    """The scores of one head over some keys of one sequence, for the requested queries; float32 or better.

    Keys given as a table, (depth, wide), are masked by column, and only the columns that the mask does not fully allow.
    The returned tensor is overwritten by the next call.
    """

    def __init__(self, inputs: AttentionInputs, sequence: int, head: int, keys: Which = slice(None)) -> None:
        self._inputs, self._head = inputs, head
        self._mask = inputs.mask.of_head(sequence, head)
        rows_q, rows_k = inputs.layout_q.rows(sequence), inputs.layout_k.rows(sequence)
        self._dtype = torch.promote_types(inputs.q.dtype, torch.float32)
        self._q = inputs.q[rows_q, head].detach()  # (T, K), a view
        columns = keys.flatten() if isinstance(keys, Tensor) else keys
        self._k = inputs.k[rows_k, head // inputs.repeats][columns].detach().to(self._dtype)  # (s, K)
        self._at_q = inputs.layout_q.positions[rows_q]
        at_k = inputs.layout_k.positions[rows_k][keys]
        self._at_k = at_k if at_k.dim() == 2 else at_k.unsqueeze(0)  # (depth, wide)
        self._spans = None
        if at_k.numel():
            least, most = torch.aminmax(self._at_k, dim=0)  # `amin` of integers takes 70 times as long
            self._spans = least, most + 1
        self._sequence = torch.tensor([[[sequence]]], device=inputs.q.device)
        self._buffer = self._k.new_empty(0)

    @torch.no_grad()
    def __call__(self, queries: Which) -> Tensor:
        """Scores with bias, before the softmax, (t, s); -inf where the mask forbids."""
        inputs, result = self._inputs, self._pair(self._q[queries].to(self._dtype))
        if inputs.bias is None and isinstance(self._mask, Full):
            return result
        at_q = self._at_q[queries].view(1, -1, 1)
        if inputs.bias is not None:
            result += inputs.bias(self._sequence, at_q, self._at_k.view(1, 1, -1))[0, self._head].to(self._dtype)
        if result.numel() and self._spans is not None:
            allowed = self._mask.all_allowed(int(at_q.min()), int(at_q.max()) + 1, *self._spans)
            partial = _range(~torch.as_tensor(allowed).expand(self._at_k.shape[1]))
            at_k = self._at_k[:, partial]  # (depth, u)
            if at_k.numel():
                banned = ~self._mask.allows(self._sequence, at_q, at_k.reshape(1, 1, -1))[0]  # (t, depth u)
                whole = result.view(-1, *self._at_k.shape)
                whole[..., partial].masked_fill_(banned.view(-1, *at_k.shape), float("-inf"))
        return result

    def of(self, columns: slice) -> HeadScores:
        """The same over some columns of the table."""
        part = copy(self)
        part._at_k = self._at_k[:, columns]
        part._k = self._k.view(*self._at_k.shape, -1)[:, columns].flatten(0, 1)
        part._spans = self._spans and (self._spans[0][columns], self._spans[1][columns])
        return part

    def touched(self, queries: Which) -> slice:
        """The range of columns that any of these queries may attend to."""
        if self._spans is None or not self._at_q.numel():
            return slice(0, 0)
        at_q = self._at_q[queries]
        touched = self._mask.any_allowed(int(at_q.min()), int(at_q.max()) + 1, *self._spans)
        return _range(torch.as_tensor(touched).expand(self._at_k.shape[1]))

    def _pair(self, q: Tensor) -> Tensor:
        scale = self._inputs.scale
        if scale is None:
            return self._inputs.score.pair(q[None], self._k[None], slice(self._head, self._head + 1))[0]
        size = q.shape[0] * self._k.shape[0]
        if self._buffer.numel() < size:
            self._buffer = self._k.new_empty(size)
        return torch.mm(q * scale, self._k.T, out=self._buffer[:size].view(q.shape[0], self._k.shape[0]))


def rows(inputs: AttentionInputs, sequence: int, head: int, queries: Which) -> Tensor:
    """The weights of some queries (counted within the sequence) over all keys, (len, S), for one head."""
    return safe_softmax(HeadScores(inputs, sequence, head)(queries))


def safe_softmax(scores: Tensor) -> Tensor:
    """Scores over all keys to weights, (t, s). A fully masked row gives 0."""
    weights = torch.softmax(scores, dim=-1)
    empty = weights[..., :1].isnan() & scores[..., :1].isneginf()
    return weights.masked_fill_(empty, 0.0) if bool(empty.any()) else weights


def exponentials(scores: Tensor, base: Tensor) -> Tensor:
    """exp(scores - base) in place, (t, s), for a base of each row, (t,); 0 for a row whose base is -inf."""
    base = base.masked_fill(base.isneginf(), 0.0)
    return scores.sub_(base.unsqueeze(-1)).exp_()


def log_sums(scores: Tensor, top: Tensor) -> Tensor:
    """log-sum-exp of each row, (t,), given its largest score; overwrites the scores (t, s)."""
    if bool(top.abs().amax() <= EXP_SAFE):
        return scores.exp_().sum(-1).log_()
    return exponentials(scores, top).sum(-1).log_().add_(top)


def blocks(count: int, width: int, first: int = 0) -> Iterator[slice]:
    """Ranges of `count` rows from the `first`, each `width` wide, that fit a block; at least one row each."""
    step, end = max(1, TUNING.weight_block_scores // max(width, 1)), first + count
    for lo in range(first, end, step):
        yield slice(lo, min(lo + step, end))


def _range(marked: Tensor) -> slice:
    """The range from the first to the last marked element, (n,)."""
    where = marked.nonzero()
    return slice(int(where[0]), int(where[-1]) + 1) if len(where) else slice(0, 0)
