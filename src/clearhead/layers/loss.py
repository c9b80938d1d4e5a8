"""The loss of words: cross-entropy over a vocabulary, summed, without keeping a score for every word."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import repeat
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

ROWS = 128  # tokens scored at a time: their scores stay in the cache of the processor


def word_loss(x: Tensor, weight: Tensor, bias: Tensor | None, labels: Tensor, smoothing: float = 0.0) -> Tensor:
    """The sum over tokens of -log p(label), for vectors x (N, D) and a vocabulary's weight (V, D).

    With `smoothing` e, the target is 1 - e on the label plus e spread evenly over all words (Szegedy et al. 2016).
    Scores are made for a few hundred tokens at a time, and their gradients in the same pass, so that memory does not
    grow with N V. Inside autocast the products run in its dtype; softmax and sums are float32.
    """
    kind = torch.get_autocast_dtype(x.device.type) if torch.is_autocast_enabled(x.device.type) else x.dtype
    return _WordLoss.apply(x, weight, bias, labels, smoothing, kind)  # type: ignore[no-any-return]


class _WordLoss(torch.autograd.Function):
    """The gradient of a token's scores is p - (1 - e) [label] - e / V. Only p is a matrix (n, V); the other two terms
    enter the products as a row of the weight and as its mean, which costs no pass over the scores and no rounding.
    """

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None, labels: Tensor, smoothing: float, kind: torch.dtype
    ) -> Tensor:
        exact = torch.promote_types(kind, torch.float32)
        w, b = weight.to(kind), None if bias is None else bias.to(kind)
        total = torch.zeros((), dtype=exact, device=x.device)
        dx = torch.empty_like(x) if ctx.needs_input_grad[0] else None
        dw = torch.zeros_like(weight, dtype=exact) if ctx.needs_input_grad[1] else None
        db = torch.zeros(len(weight), dtype=exact, device=x.device) if ctx.needs_input_grad[2] else None
        for rows, answers, out in zip(x.split(ROWS), labels.split(ROWS), _split(dx), strict=False):
            n, rows = len(rows), _full(rows.to(kind))
            scores = F.linear(rows, w, b)[:n]  # (n, V)
            p = torch.softmax(scores, dim=1, dtype=exact)
            norm = scores.amax(1).to(exact) - p.amax(1).log()  # log of the sum of exp(scores)
            total += norm.sum() - (1 - smoothing) * scores.gather(1, answers.unsqueeze(1)).sum(dtype=exact)
            if smoothing:
                total -= smoothing * scores.mean(dim=1, dtype=exact).sum()
            if db is not None:
                db += p.sum(0)
            p = _full(p.to(kind))
            if out is not None:
                out.copy_((p @ w)[:n])
            if dw is not None:
                dw += p.T @ rows
        if dx is not None and len(x):
            dx -= (1 - smoothing) * weight.index_select(0, labels) + smoothing * weight.mean(0)
        if dw is not None:
            dw.index_add_(0, labels, x.to(exact), alpha=smoothing - 1)
            dw -= smoothing / len(weight) * x.sum(0, dtype=exact)
        if db is not None:
            db.index_add_(0, labels, torch.ones_like(labels, dtype=exact), alpha=smoothing - 1)
            db -= smoothing / len(weight) * len(x)
        ctx.save_for_backward(dx, dw, db)
        ctx.kinds = x.dtype, weight.dtype, None if bias is None else bias.dtype
        return total

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, scale: Tensor) -> tuple[Tensor | None, ...]:  # type: ignore[override]
        grads = zip(ctx.saved_tensors, ctx.kinds, strict=True)
        return *(None if g is None else g.mul_(scale).to(kind) for g, kind in grads), None, None, None


def _full(rows: Tensor) -> Tensor:
    """As many rows as ever, the last of them 0: a product of a new shape would have to be prepared first."""
    return rows if len(rows) == ROWS else F.pad(rows, (0, 0, 0, ROWS - len(rows)))


def _split(dx: Tensor | None) -> Iterator[Tensor | None]:
    return repeat(None) if dx is None else iter(dx.split(ROWS))
