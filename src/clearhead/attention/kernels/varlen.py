"""The varlen kernel: torch's `varlen_attn`, FlashAttention over ragged tokens. CUDA only; written, not verified."""

from __future__ import annotations

import torch
from torch import Tensor

from clearhead.attention.call import Call
from clearhead.attention.weights import rows as rows  # exact softmax: these are the weights it used


def refuse(call: Call, dropout: float) -> str | None:
    """Half precision on CUDA; full, causal or banded masks whose last query is aligned with its last key."""
    if call.q.device.type != "cuda":
        return f"varlen_attn runs on CUDA only, and these tensors are on {call.q.device.type}"
    if call.q.dtype not in (torch.float16, torch.bfloat16):
        return f"varlen_attn takes float16 and bfloat16, not {call.q.dtype}"
    if call.scale is None or call.bias is not None:
        return "varlen_attn takes dot-product scores without a bias"
    if dropout > 0:
        return "varlen_attn has no dropout"
    if _window(call) is None:
        return f"varlen_attn takes full, causal and window masks, not {type(call.mask).__name__}"
    if call.q.shape[2] != call.v.shape[2]:
        return "varlen_attn wants values as wide as keys"
    if _window(call) != (-1, -1):
        a, b = call.layout_q, call.layout_k
        ends = [(p + n, q + m) for p, n, q, m in zip(a.firsts, a.sizes, b.firsts, b.sizes, strict=True)]
        if any(x != y for x, y in ends):
            return "varlen_attn aligns the last query with the last key, and here they stand at different positions"
    return None


def run(call: Call, dropout: float) -> Tensor:
    """Attend: (N, H, V)."""
    from torch.nn.attention.varlen import varlen_attn

    window = _window(call)
    assert window is not None
    out = varlen_attn(
        call.q, call.k, call.v,
        call.layout_q.offsets.int(), call.layout_k.offsets.int(), call.layout_q.max_len, call.layout_k.max_len,
        scale=call.scale, window_size=window, enable_gqa=call.repeats > 1,
    )  # fmt: skip
    assert isinstance(out, Tensor)
    return out


def _window(call: Call) -> tuple[int, int] | None:
    """The mask as (left, right) reach, -1 without limit; None if it is more than a band."""
    from clearhead.attention.masks import And, Causal, Full, Mask, Window

    def is_band(mask: Mask) -> bool:
        if isinstance(mask, And):
            return is_band(mask.one) and is_band(mask.two)
        return isinstance(mask, (Full, Causal, Window))

    if not is_band(call.mask):
        return None
    left, right = call.mask.band
    return -1 if left is None else left, -1 if right is None else right
