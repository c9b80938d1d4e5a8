"""The varlen kernel: FlashAttention over ragged tokens. CUDA only; not run on a GPU yet.

Tests run this code with numbers, on an emulation of torch's operator that has the operator's checks.
"""

from collections.abc import Iterator

import torch
from torch import Tensor

from clearhead.attention import flash_varlen as flash
from clearhead.attention.device_info import DeviceInfo
from clearhead.attention.inputs import AttentionInputs
from clearhead.attention.layout import Layout
from clearhead.attention.masks import And, Causal, Full, Mask, Window
from clearhead.attention.weights import rows as rows  # exact softmax: these are the weights it used


def unsupported_reason(inputs: AttentionInputs, dropout: float, device: DeviceInfo) -> str | None:
    """Half precision on CUDA from sm80; full, causal or window masks whose last query is aligned with its last key."""
    return next((reason for failed, reason in _limits(inputs, dropout, device) if failed), None)


def _limits(inputs: AttentionInputs, dropout: float, device: DeviceInfo) -> Iterator[tuple[bool, str]]:
    """The limits in order: whether the inputs exceed each, and what it is."""
    q, v, a, b = inputs.q, inputs.v, inputs.layout_q, inputs.layout_k
    width = q.shape[2]
    yield device.type != "cuda", f"FlashAttention runs on CUDA; these tensors are on {device.type}"
    yield torch.compiler.is_compiling(), "the varlen kernel does not trace: it reads lengths on the host"
    yield not device.has_flash, "this build of torch has no FlashAttention"
    given = f"this is sm{device.sm}" if device.sm else "this device has none"
    yield device.sm < flash.MIN_SM, f"FlashAttention needs compute capability 8.0 or newer; {given}"
    yield q.dtype not in flash.DTYPES, f"FlashAttention supports float16 and bfloat16, not {q.dtype}"
    yield not q.dtype == inputs.k.dtype == v.dtype, "queries, keys and values must have one dtype"
    yield inputs.scale is None, "FlashAttention supports dot-product scores only"
    yield inputs.bias is not None, "FlashAttention has no bias"
    yield width != v.shape[2], f"values must be as wide as keys; they have {v.shape[2]} and {width}"
    yield width > flash.MAX_HEAD_DIM, f"FlashAttention supports heads of at most 256; these have {width}"
    yield width % flash.HEAD_DIM_MULTIPLE != 0, f"the width of a head must be a multiple of 8; these have {width}"
    small = device.sm in flash.SMALL_MEMORY_SMS and width > flash.SMALL_MEMORY_HEAD_DIM and inputs.needs_grad
    too_wide = small and (width <= flash.NO_DROPOUT_HEAD_DIM or dropout > 0)
    yield too_wide, f"FlashAttention has no backward for heads of {width} on sm{device.sm}"
    yield not a.num_tokens or not b.num_tokens, "the batch has no queries or no keys"
    too_many = a.num_sequences > flash.MAX_SEQUENCES
    yield too_many, f"FlashAttention supports {flash.MAX_SEQUENCES} sequences; the batch has {a.num_sequences}"
    window = _window(inputs.mask)
    yield window is None, f"FlashAttention supports full, causal and window masks, not {type(inputs.mask).__name__}"
    if window == (-1, -1):
        missing = inputs.repeats > 1 and a.max_len == 1 and not all(a.host_lengths)
        yield missing, "with shared key heads, either each sequence has one query or some have more"
    elif window is not None:
        yield not _ends_aligned(a, b), "the last query is aligned with the last key; here their positions differ"
        # it drops a right limit that exceeds the number of keys; the first of more queries would then see keys
        _, right = window
        yield b.max_len <= right < a.max_len - 1, "a window to the right needs as many keys as queries"


def run(inputs: AttentionInputs, dropout: float) -> Tensor:
    window, scale = _window(inputs.mask), inputs.scale
    assert window is not None and scale is not None
    q, k, v = (x if x.stride(2) == 1 else x.contiguous() for x in (inputs.q, inputs.k, inputs.v))
    a, b = inputs.layout_q, inputs.layout_k
    at_q, at_k = (x.memoize("int32 offsets", lambda x=x: x.offsets.int()) for x in (a, b))
    return flash.flash_varlen(q, k, v, at_q, at_k, a.max_len, b.max_len, scale=scale, window=window, dropout=dropout)


def _window(mask: Mask) -> tuple[int, int] | None:
    """The mask as (left, right) window sizes, -1 for no limit; None if the mask is not a band."""
    if not _is_band(mask):
        return None
    left, right = mask.band
    return -1 if left is None else left, -1 if right is None else right


def _is_band(mask: Mask) -> bool:
    if isinstance(mask, And):
        return _is_band(mask.one) and _is_band(mask.two)
    return isinstance(mask, (Full, Causal, Window))


def _ends_aligned(a: Layout, b: Layout) -> bool:
    """True if the last query and the last key of each sequence have the same position."""
    if a is b:
        return True
    sizes = zip(a.host_starts, a.host_lengths, b.host_starts, b.host_lengths, strict=True)
    return all(p + n == q + m for p, n, q, m in sizes if n and m)
