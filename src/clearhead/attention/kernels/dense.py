"""The dense kernel: equal lengths and a dense mask. Every operation traces, so models export through it."""

import torch
import torch.nn.functional as F
from torch import Tensor

from clearhead.attention.device_info import DeviceInfo
from clearhead.attention.inputs import AttentionInputs
from clearhead.attention.weights import rows as rows  # exact softmax: these are the weights it used


def unsupported_reason(inputs: AttentionInputs, dropout: float, device: DeviceInfo) -> str | None:
    if inputs.scale is None:
        return "it supports dot-product scores only"
    for layout, what in ((inputs.layout_q, "queries"), (inputs.layout_k, "keys")):
        if layout.length is None:
            return f"the {what} are not known to have equal lengths: build their layout with `Layout.uniform`"
    return None


def run(inputs: AttentionInputs, dropout: float) -> Tensor:
    """Attend over (B, H, T, K) with a (B, 1, T, S) mask: (N, H, V)."""
    if not inputs.q.shape[0] or not inputs.k.shape[0]:
        return inputs.zeros_with_grad(inputs.q.shape[0])
    T, S = inputs.layout_q.length, inputs.layout_k.length
    assert T is not None and S is not None
    B = inputs.layout_q.num_sequences
    q = inputs.q.view(B, T, *inputs.q.shape[1:]).transpose(1, 2)  # (B, H, T, K)
    k = inputs.k.view(B, S, *inputs.k.shape[1:]).transpose(1, 2).repeat_interleave(inputs.repeats, dim=1)
    v = inputs.v.view(B, S, *inputs.v.shape[1:]).transpose(1, 2).repeat_interleave(inputs.repeats, dim=1)
    sequence = torch.arange(B, device=q.device).view(B, 1, 1)
    at_q, at_k = inputs.layout_q.positions.view(B, T, 1), inputs.layout_k.positions.view(B, 1, S)
    allowed = inputs.mask.allows(sequence, at_q, at_k).expand(B, T, S).unsqueeze(1)  # (B, 1, T, S)
    not_empty = allowed.any(-1, keepdim=True)
    mask = torch.zeros_like(allowed, dtype=q.dtype).masked_fill(~(allowed | ~not_empty), float("-inf"))
    if inputs.bias is not None:
        mask = mask + inputs.bias(sequence, at_q, at_k).to(q.dtype)
    out = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, dropout_p=dropout, scale=inputs.scale)
    return out.masked_fill(~not_empty, 0.0).transpose(1, 2).reshape(-1, inputs.num_heads, inputs.v.shape[2])
