"""Routing: the kernels that `auto` selects, as one ordered table for each kind of device.

`auto` takes the first line whose kernel supports the call (`unsupported_reason`) and whose condition holds: conditions
say where a kernel is the fastest, never where it is correct. The device is an argument, so this reads no hardware.
"""

from collections.abc import Callable

import torch

from clearhead.attention.biases import DenseBias
from clearhead.attention.device_info import DeviceInfo
from clearhead.attention.inputs import AttentionInputs
from clearhead.attention.kernels.block_plan import BlockCall
from clearhead.attention.masks import Causal, Full
from clearhead.attention.tuning import TUNING

Condition = Callable[[AttentionInputs, float, DeviceInfo], bool]


def always(inputs: AttentionInputs, dropout: float, device: DeviceInfo) -> bool:
    """Wherever the kernel supports the call."""
    return True


def fused_is_fastest(inputs: AttentionInputs, dropout: float, device: DeviceInfo) -> bool:
    """Where torch's fused attention on a CPU beats plain products in each direction that runs."""
    if isinstance(inputs.bias, DenseBias):
        return True
    T, S = inputs.layout_q.length, inputs.layout_k.length
    assert T is not None and S is not None
    size = inputs.q.dtype, inputs.layout_q.num_sequences, T, S
    directions = (False, True) if inputs.needs_grad else (False,)
    return all(TUNING.fused_is_faster(*size, backward=backward) for backward in directions)


def is_fused(inputs: AttentionInputs, dropout: float, device: DeviceInfo) -> bool:
    """Where torch has a fused kernel on an accelerator; without one, the scores of the whole batch are held at once."""
    if isinstance(inputs.bias, DenseBias):
        return True
    dtypes = {torch.float32, torch.float16}
    if device.type != "cuda" or device.sm >= 80:
        dtypes.add(torch.bfloat16)
    return inputs.q.dtype in dtypes and inputs.q.shape[2] % 8 == 0


def many_short_sequences(inputs: AttentionInputs, dropout: float, device: DeviceInfo) -> bool:
    """For many short sequences; with dropout, which the fused kernel on a CPU does not have, for longer ones too."""
    longest = max(inputs.layout_q.max_len, inputs.layout_k.max_len)
    if dropout:
        return longest <= TUNING.bucket_max_len_dropout
    return longest <= TUNING.bucket_max_len and inputs.layout_q.num_sequences >= TUNING.bucket_min_sequences


def touches_little(inputs: AttentionInputs, dropout: float, device: DeviceInfo) -> bool:
    """For long sequences of which the mask touches little, and for masks whose heads differ."""
    if inputs.mask.per_head:
        return True
    if inputs.layout_q.max_len < TUNING.sparse_from or isinstance(inputs.mask, (Full, Causal)):
        return False
    return BlockCall(inputs.layout_q, inputs.layout_k, inputs.mask).share * TUNING.sparse_fraction <= 1


CPU_ROUTES: tuple[tuple[str, Condition], ...] = (
    ("sdpa", fused_is_fastest),
    ("bucketed", many_short_sequences),
    ("block_sparse", touches_little),
    ("grouped", always),
    ("autograd", always),
    ("reference", always),
)

# CUDA, MPS and every other device.
ACCELERATOR_ROUTES: tuple[tuple[str, Condition], ...] = (
    ("varlen", always),
    ("sdpa", is_fused),
    ("grouped", always),
    ("autograd", always),
    ("reference", always),
)


def routes(device: DeviceInfo) -> tuple[tuple[str, Condition], ...]:
    """The kernels for a device, in order, each with its condition; the last one supports every call."""
    return CPU_ROUTES if device.type == "cpu" else ACCELERATOR_ROUTES
