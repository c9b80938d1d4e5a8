"""Fused attention: torch's flash attention for CPUs, with the logsumexp of each query.

`torch.nn.functional.scaled_dot_product_attention` does not return it; these operators are not public.
"""

import torch
from torch import Tensor

_forward = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu.default
_backward = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward.default


def fused_forward(
    q: Tensor, k: Tensor, v: Tensor, scale: float, mask: Tensor | None = None, causal: bool = False
) -> tuple[Tensor, Tensor]:
    """The output (b, h, t, V) and the logsumexp (b, h, t); `mask` is added to the scores."""
    return _forward(q, k, v, 0.0, causal, attn_mask=mask, scale=scale)


def fused_backward(
    grad: Tensor, q: Tensor, k: Tensor, v: Tensor, out: Tensor, logsumexp: Tensor,
    scale: float, mask: Tensor | None = None, causal: bool = False,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """The gradients of queries, keys and values."""
    return _backward(grad, q, k, v, out, logsumexp, 0.0, causal, attn_mask=mask, scale=scale)
