"""The fused attention of torch, whose operators are not public: outputs, logsumexp and gradients as written out."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from clearhead.attention.fused_attention import fused_backward, fused_forward


def written_out(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, causal: bool) -> tuple[Tensor, Tensor]:
    scores = q @ k.transpose(2, 3) * 0.3
    scores = scores if mask is None else scores + mask
    if causal:
        scores = scores.masked_fill(torch.ones(scores.shape[2:]).triu(1).bool(), float("-inf"))
    return torch.softmax(scores, -1) @ v, scores.logsumexp(-1)


@pytest.mark.parametrize("case", ["full", "causal", "masked", "masked for all"])
def test_as_written_out(case: str) -> None:
    generator = torch.Generator().manual_seed(0)
    q, k, v = (torch.randn(3, 2, 20, 8, generator=generator, dtype=torch.float64).requires_grad_() for _ in range(3))
    hidden = torch.rand(3 if case == "masked" else 1, 1, 20, 20, generator=generator) < 0.5
    hidden[..., 0] = False
    mask = torch.zeros(hidden.shape, dtype=torch.float64).masked_fill(hidden, float("-inf"))
    added, causal = (mask if "masked" in case else None), case == "causal"
    expected, logs = written_out(q, k, v, added, causal)
    out, found = fused_forward(q.detach(), k.detach(), v.detach(), 0.3, added, causal)
    torch.testing.assert_close(out, expected.detach())
    torch.testing.assert_close(found.double(), logs.detach())
    grad = torch.randn(expected.shape, generator=generator, dtype=torch.float64)
    gradients = fused_backward(grad, q.detach(), k.detach(), v.detach(), out, found, 0.3, added, causal)
    for one, two in zip(gradients, torch.autograd.grad(expected, (q, k, v), grad), strict=True):
        torch.testing.assert_close(one, two)
