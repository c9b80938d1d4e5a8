"""Cross-entropy over a vocabulary, summed over tokens, without materializing all logits."""

from collections.abc import Iterator
from itertools import repeat
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

from clearhead.layers.product_dtype import product_dtype

ROWS = 128  # tokens per chunk: their logits stay in the CPU cache


def linear_cross_entropy(
    x: Tensor, weight: Tensor, bias: Tensor | None, labels: Tensor, smoothing: float = 0.0
) -> Tensor:
    """Returns the sum over tokens of -log p(label), for vectors x (N, D) and an output weight (V, D).

    With label `smoothing` e, the target is 1 - e on the label plus e spread evenly over the vocabulary (Szegedy et al.
    2016). Logits and their gradients are computed together for `ROWS` tokens at a time, so memory does not grow with
    N V. Inside autocast the products run in its dtype; softmax and sums are float32.
    """
    return _LinearCrossEntropy.apply(x, weight, bias, labels, smoothing, product_dtype(x))


class _LinearCrossEntropy(torch.autograd.Function):
    """The gradient of a token's logits is p - (1 - e) [label] - e / V. Only p is a matrix (n, V); the other two terms
    enter the products as a row of the weight and as its mean, which costs no pass over the logits and no rounding.
    """

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None, labels: Tensor, smoothing: float, dtype: torch.dtype
    ) -> Tensor:
        accumulate_dtype = torch.promote_types(dtype, torch.float32)
        w, b = weight.to(dtype), None if bias is None else bias.to(dtype)
        total = torch.zeros((), dtype=accumulate_dtype, device=x.device)
        dx = torch.empty_like(x) if ctx.needs_input_grad[0] else None
        dw = torch.zeros_like(weight, dtype=accumulate_dtype) if ctx.needs_input_grad[1] else None
        db = torch.zeros(len(weight), dtype=accumulate_dtype, device=x.device) if ctx.needs_input_grad[2] else None
        for rows, targets, out in zip(x.split(ROWS), labels.split(ROWS), _split(dx), strict=False):
            n, rows = len(rows), _pad_chunk(rows.to(dtype))
            logits = F.linear(rows, w, b)[:n]  # (n, V)
            p = torch.softmax(logits, dim=1, dtype=accumulate_dtype)
            norm = logits.amax(1).to(accumulate_dtype) - p.amax(1).log()  # logsumexp
            total += norm.sum() - (1 - smoothing) * logits.gather(1, targets.unsqueeze(1)).sum(dtype=accumulate_dtype)
            if smoothing:
                total -= smoothing * logits.mean(dim=1, dtype=accumulate_dtype).sum()
            if db is not None:
                db += p.sum(0)
            p = _pad_chunk(p.to(dtype))
            if out is not None:
                out.copy_((p @ w)[:n])
            if dw is not None and dw.dtype == dtype:
                dw.addmm_(p.T, rows)  # adds inside the product: a pass over the weight less
            elif dw is not None:
                dw += p.T @ rows
        if dx is not None and len(x):
            dx -= (1 - smoothing) * weight.index_select(0, labels) + smoothing * weight.mean(0)
        if dw is not None:
            dw.index_add_(0, labels, x.to(accumulate_dtype), alpha=smoothing - 1)
            dw -= smoothing / len(weight) * x.sum(0, dtype=accumulate_dtype)
        if db is not None:
            db.index_add_(0, labels, torch.ones_like(labels, dtype=accumulate_dtype), alpha=smoothing - 1)
            db -= smoothing / len(weight) * len(x)
        ctx.save_for_backward(dx, dw, db)
        ctx.dtypes = x.dtype, weight.dtype, None if bias is None else bias.dtype
        return total

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, scale: Tensor) -> tuple[Tensor | None, ...]:  # type: ignore[override]
        grads = zip(ctx.saved_tensors, ctx.dtypes, strict=True)
        return *(None if g is None else g.mul_(scale).to(dtype) for g, dtype in grads), None, None, None


def _pad_chunk(rows: Tensor) -> Tensor:
    """Pads with zero rows to `ROWS`, because the first product of a new shape is slow."""
    return rows if len(rows) == ROWS else F.pad(rows, (0, 0, 0, ROWS - len(rows)))


def _split(dx: Tensor | None) -> Iterator[Tensor | None]:
    return repeat(None) if dx is None else iter(dx.split(ROWS))
