"""The varlen kernel: torch's `varlen_attn`, FlashAttention over ragged tokens. CUDA only; not run on a GPU yet."""

import torch
from torch import Tensor

from clearhead.attention.inputs import AttentionInputs
from clearhead.attention.weights import rows as rows  # exact softmax: these are the weights it used


def unsupported_reason(inputs: AttentionInputs, dropout: float) -> str | None:
    """Half precision on CUDA; full, causal or banded masks whose last query is aligned with its last key."""
    if inputs.q.device.type != "cuda":
        return f"varlen_attn runs on CUDA only; these tensors are on {inputs.q.device.type}"
    if inputs.q.dtype not in (torch.float16, torch.bfloat16):
        return f"varlen_attn supports float16 and bfloat16, not {inputs.q.dtype}"
    if inputs.scale is None or inputs.bias is not None:
        return "varlen_attn supports dot-product scores without a bias"
    if dropout > 0:
        return "varlen_attn has no dropout"
    if _window(inputs) is None:
        return f"varlen_attn supports full, causal and window masks, not {type(inputs.mask).__name__}"
    if inputs.q.shape[2] != inputs.v.shape[2]:
        return "varlen_attn needs values as wide as keys"
    if _window(inputs) != (-1, -1):
        a, b = inputs.layout_q, inputs.layout_k
        ends = [
            (p + n, q + m)
            for p, n, q, m in zip(a.host_starts, a.host_lengths, b.host_starts, b.host_lengths, strict=True)
        ]
        if any(x != y for x, y in ends):
            return "varlen_attn aligns the last query with the last key; here their positions differ"
    return None


def is_preferred(inputs: AttentionInputs, dropout: float) -> bool:
    return True


def run(inputs: AttentionInputs, dropout: float) -> Tensor:
    from torch.nn.attention.varlen import varlen_attn

    window = _window(inputs)
    assert window is not None
    out = varlen_attn(
        inputs.q, inputs.k, inputs.v,
        inputs.layout_q.offsets.int(), inputs.layout_k.offsets.int(), inputs.layout_q.max_len, inputs.layout_k.max_len,
        scale=inputs.scale, window_size=window, enable_gqa=inputs.repeats > 1,
    )  # fmt: skip
    assert isinstance(out, Tensor)
    return out


def _window(inputs: AttentionInputs) -> tuple[int, int] | None:
    """The mask as (left, right) window sizes, -1 for no limit; None if the mask is not a band."""
    from clearhead.attention.masks import And, Causal, Full, Mask, Window

    def is_band(mask: Mask) -> bool:
        if isinstance(mask, And):
            return is_band(mask.one) and is_band(mask.two)
        return isinstance(mask, (Full, Causal, Window))

    if not is_band(inputs.mask):
        return None
    left, right = inputs.mask.band
    return -1 if left is None else left, -1 if right is None else right
