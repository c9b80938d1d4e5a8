"""The dense kernel: equal lengths and a mask written out. Every step traces, so models export through it."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from clearhead.attention.call import Call
from clearhead.attention.weights import rows as rows  # exact softmax: these are the weights it used


def refuse(call: Call, dropout: float) -> str | None:
    """Equal lengths only, dot products only."""
    if call.scale is None:
        return "the dense kernel takes dot-product scores only"
    for layout, what in ((call.layout_q, "queries"), (call.layout_k, "keys")):
        if layout.length is None:
            return f"the {what} are not known to be of equal length: build their layout with `Layout.equal`"
    return None


def run(call: Call, dropout: float) -> Tensor:
    """Attend over (B, H, T, K) with a (B, 1, T, S) mask: (N, H, V)."""
    if not call.q.shape[0] or not call.k.shape[0]:
        return call.nothing(call.q.shape[0])
    T, S = call.layout_q.length, call.layout_k.length
    assert T is not None and S is not None
    B = call.layout_q.num_sequences
    q = call.q.view(B, T, *call.q.shape[1:]).transpose(1, 2)  # (B, H, T, K)
    k = call.k.view(B, S, *call.k.shape[1:]).transpose(1, 2).repeat_interleave(call.repeats, dim=1)
    v = call.v.view(B, S, *call.v.shape[1:]).transpose(1, 2).repeat_interleave(call.repeats, dim=1)
    where = torch.arange(B, device=q.device).view(B, 1, 1)
    at_q, at_k = call.layout_q.positions.view(B, T, 1), call.layout_k.positions.view(B, 1, S)
    allowed = call.mask.allows(where, at_q, at_k).expand(B, T, S).unsqueeze(1)  # (B, 1, T, S)
    alive = allowed.any(-1, keepdim=True)
    mask = torch.zeros_like(allowed, dtype=q.dtype).masked_fill(~(allowed | ~alive), float("-inf"))
    if call.bias is not None:
        mask = mask + call.bias(where, at_q, at_k).to(q.dtype)
    out = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, dropout_p=dropout, scale=call.scale)
    return out.masked_fill(~alive, 0.0).transpose(1, 2).reshape(-1, call.num_heads, call.v.shape[2])
