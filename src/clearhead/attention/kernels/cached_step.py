"""The cached_step kernel: the new tokens of a decoding step over padded key and value buffers.

The hypotheses of a sequence are queries of that sequence, so their shared keys are read once. The fused decoder calls
`attend_buffers` directly; `run` is the same computation behind the common kernel contract.
"""

import torch
from torch import Tensor

from clearhead.attention.biases import DenseBias
from clearhead.attention.device_info import DeviceInfo
from clearhead.attention.inputs import AttentionInputs
from clearhead.attention.kernels import sdpa
from clearhead.attention.masks import Full
from clearhead.attention.scores import Score
from clearhead.attention.weights import rows as rows  # exact softmax: these are the weights it used


def unsupported_reason(inputs: AttentionInputs, dropout: float, device: DeviceInfo) -> str | None:
    """Equal lengths and a full mask, with or without a dense bias; inference only."""
    if inputs.needs_grad:
        return "cached decoding is inference: run it under torch.no_grad()"
    if inputs.bias is None and inputs.v.shape[2] != inputs.q.shape[2]:
        return "queries, keys and values must have equal widths"
    if not isinstance(inputs.bias, DenseBias | None) or not isinstance(inputs.mask, Full):
        return "it supports a full mask with a dense bias, or none"
    return sdpa.unsupported_reason(inputs, dropout, device) if inputs.repeats == 1 or inputs.bias is not None else None


def run(inputs: AttentionInputs, dropout: float) -> Tensor:
    count, groups = inputs.layout_q.num_sequences, inputs.k.shape[1]
    k, v = (x.view(count, -1, *x.shape[1:]).transpose(1, 2) for x in (inputs.k, inputs.v))  # (B, G, S, K)
    scale, bias = inputs.scale, None
    assert scale is not None
    if isinstance(inputs.bias, DenseBias):
        table = inputs.bias.table.to(inputs.q.dtype)
        bias = spread_bias(table, inputs.num_heads, groups, len(inputs.q) // max(count, 1))
    return attend_buffers(inputs.q, k, v, bias, scale).unflatten(1, (inputs.num_heads, -1))


def spread_bias(bias: Tensor, num_heads: int, groups: int, width: int = 1) -> Tensor:
    """A bias (B, 1 or H, 1 or W, S) as `attend_buffers` takes it; `width` is W where the bias has 1."""
    B, heads, W, S = bias.shape
    shared = num_heads // groups
    if heads > 1:
        bias = bias.view(B, groups, shared, W, S).transpose(2, 3).flatten(2, 3)  # (B, G, W H/G, S)
    elif W > 1 and shared > 1:
        bias = bias.repeat_interleave(shared, 2)
    if bias.dtype == torch.float32 or max(W, width) * shared == 1:
        return bias
    return bias.expand(B, groups, -1, S).flatten(0, 1)  # (B G, W H/G, S)


def attend_buffers(q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None, scale: float) -> Tensor:
    """Queries (B W, H, K) over buffers (B, G, S, K): (B W, H V)."""
    B, G = k.shape[:2]
    heads, width = q.shape[1:]
    if len(q) == B and heads == G:
        return sdpa.heads_first(q.unsqueeze(2), k, v, bias, scale).view(B, -1)
    q = q.view(B, -1, G, heads // G, width)  # (B, W, G, H/G, K)
    W, shared = q.shape[1], q.shape[3]
    q = q.permute(0, 2, 1, 3, 4).flatten(2, 3)  # (B, G, W H/G, K)
    if bias is None or bias.dim() == 4:
        out = sdpa.heads_first(q, k, v, bias, scale)
    else:  # a few queries in bfloat16: plain products are faster
        scores = torch.baddbmm(bias, q.flatten(0, 1), k.flatten(0, 1).transpose(1, 2), alpha=scale)
        out = torch.bmm(torch.softmax(scores, -1), v.flatten(0, 1)).unflatten(0, (B, G))
    return out.unflatten(2, (W, shared)).permute(0, 2, 1, 3, 4).reshape(B * W, -1)


def attend_scored(score: Score, q: Tensor, k: Tensor, v: Tensor, bias: Tensor) -> Tensor:
    """One query per sequence, (B, H, K), over buffers (B, H, S, K), by any score: (B, H V)."""
    weights = torch.softmax(score.pair(q.unsqueeze(2), k) + bias, dim=-1)  # (B, H, 1, S)
    return (weights.to(v.dtype) @ v).flatten(1)
