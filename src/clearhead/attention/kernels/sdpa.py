"""The sdpa kernel: sequences of equal length in one call of torch's fused attention, on views of the token matrices."""

import torch
import torch.nn.functional as F
from torch import Tensor

from clearhead.attention.biases import DenseBias
from clearhead.attention.device_info import DeviceInfo
from clearhead.attention.inputs import AttentionInputs
from clearhead.attention.masks import Causal, Full
from clearhead.attention.weights import rows as rows  # exact softmax: these are the weights it used


def unsupported_reason(inputs: AttentionInputs, dropout: float, device: DeviceInfo) -> str | None:
    """Equal lengths, dot products, no dropout; a full mask with a dense bias, or a full or causal mask without one."""
    if torch.compiler.is_compiling():
        return "the sdpa kernel does not trace"
    if not inputs.layout_q.length or not inputs.layout_k.length:
        return "the lengths are not known to be equal: build the layouts with `Layout.uniform`"
    if dropout > 0:
        return "dropout of attention weights is not supported"
    if inputs.scale is None:
        return "it supports dot-product scores only"
    if isinstance(inputs.bias, DenseBias):
        if not isinstance(inputs.mask, Full) or inputs.needs_grad or not _is_aligned(inputs.bias, inputs):
            return "a dense bias needs a full mask, inference, and one entry per query and key"
        return None
    if inputs.bias is not None:
        return f"it supports dense biases only, not {type(inputs.bias).__name__}"
    if inputs.repeats > 1 or inputs.v.shape[2] != inputs.q.shape[2]:
        return "queries, keys and values must have equal heads and widths"
    if isinstance(inputs.mask, Full) or (isinstance(inputs.mask, Causal) and inputs.layout_q is inputs.layout_k):
        return None
    return "it supports full masks, and causal masks where queries and keys share one layout"


def run(inputs: AttentionInputs, dropout: float) -> Tensor:
    count, causal = inputs.layout_q.num_sequences, isinstance(inputs.mask, Causal)
    q, k, v = (x.view(count, -1, *x.shape[1:]).transpose(1, 2) for x in (inputs.q, inputs.k, inputs.v))  # (B, H, T, K)
    bias = inputs.bias.table.to(q.dtype) if isinstance(inputs.bias, DenseBias) else None
    out = heads_first(q, k, v, bias, inputs.scale, causal=causal, shared=inputs.repeats > 1)
    return out.transpose(1, 2).flatten(0, 1)


def heads_first(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    bias: Tensor | None,
    scale: float | None,
    *,
    causal: bool = False,
    shared: bool = False,
) -> Tensor:
    """Attend over (B, H, T, K) tensors: (B, H, T, V). `shared` key heads serve several query heads."""
    return F.scaled_dot_product_attention(q, k, v, attn_mask=bias, is_causal=causal, scale=scale, enable_gqa=shared)


def _is_aligned(bias: DenseBias, inputs: AttentionInputs) -> bool:
    """True if the rows and columns of the bias are the queries and keys of the batch, one by one."""
    from_zero = bias.first == 0 and not any(inputs.layout_q.host_starts) and not any(inputs.layout_k.host_starts)
    expected = inputs.layout_q.num_sequences, inputs.num_heads, inputs.layout_q.length, inputs.layout_k.length
    return from_zero and all(size in (1, wanted) for size, wanted in zip(bias.table.shape, expected, strict=True))
