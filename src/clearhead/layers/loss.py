"""The loss of words: cross-entropy over a vocabulary, summed, without keeping a score for every word."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

ROWS = 512  # tokens scored at a time: their logits stay in the cache of the processor


def word_loss(x: Tensor, weight: Tensor, bias: Tensor | None, labels: Tensor, smoothing: float = 0.0) -> Tensor:
    """The sum over tokens of -log p(label), for vectors x (N, D) and a vocabulary's weight (V, D).

    With `smoothing` e, the target is 1 - e on the label plus e spread evenly over all words (Szegedy et al. 2016).
    Scores are made for a few hundred tokens at a time, and their gradients in the same pass, so that memory does not
    grow with N V. Inside autocast the products run in its dtype; softmax and sums are float32.
    """
    kind = torch.get_autocast_dtype(x.device.type) if torch.is_autocast_enabled(x.device.type) else x.dtype
    return _WordLoss.apply(x, weight, bias, labels, smoothing, kind)  # type: ignore[no-any-return]


class _WordLoss(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None, labels: Tensor, smoothing: float, kind: torch.dtype
    ) -> Tensor:
        wanted = ctx.needs_input_grad[:3]
        w, b = weight.to(kind), None if bias is None else bias.to(kind)
        total = torch.zeros((), dtype=torch.promote_types(x.dtype, torch.float32), device=x.device)
        dx = torch.empty_like(x) if wanted[0] else None
        dw = torch.zeros_like(weight) if wanted[1] else None
        db = torch.zeros_like(bias) if bias is not None and wanted[2] else None
        for part in range(0, len(x), ROWS):
            rows, answer = x[part : part + ROWS].to(kind), labels[part : part + ROWS].unsqueeze(1)
            scores = F.linear(rows, w, b)  # (n, V)
            scores = scores.to(torch.promote_types(kind, torch.float32))
            norm = torch.logsumexp(scores, dim=1, keepdim=True)  # (n, 1)
            right = scores.gather(1, answer)
            total += (norm - (1 - smoothing) * right).sum()
            if smoothing:
                total -= smoothing * scores.mean(dim=1).sum()
            if not any(wanted):
                continue
            grad = scores.sub_(norm).exp_()  # the probabilities, in the memory of the scores
            if smoothing:
                grad -= smoothing / grad.shape[1]
            grad.scatter_add_(1, answer, torch.full_like(right, smoothing - 1))
            if db is not None:
                db += grad.sum(0)
            grad = grad.to(kind)
            if dx is not None:
                dx[part : part + ROWS] = grad @ w
            if dw is not None:
                dw += grad.T @ rows
        ctx.save_for_backward(dx, dw, db)
        return total

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, scale: Tensor) -> tuple[Tensor | None, ...]:  # type: ignore[override]
        dx, dw, db = ctx.saved_tensors
        return *(None if g is None else g * scale for g in (dx, dw, db)), None, None, None
