"""Flash varlen: torch's FlashAttention over ragged tokens on CUDA, with dropout of the weights.

The public `varlen_attn` passes a dropout of 0 to a private operator, which is called directly with dropout.
"""

import torch
from torch import Tensor

_forward = torch.ops.aten._flash_attention_forward.default

# What the operator checks, or computes wrongly where it does not: see its source, flash_api.cpp.
DTYPES = (torch.float16, torch.bfloat16)
MIN_SM = 80
MAX_HEAD_DIM, HEAD_DIM_MULTIPLE = 256, 8
MAX_SEQUENCES = 65_535  # the y axis of the grid
SMALL_MEMORY_SMS = (*range(86, 90), 120, 121)  # no backward for 193 to 224, and for wider heads with dropout
SMALL_MEMORY_HEAD_DIM, NO_DROPOUT_HEAD_DIM = 192, 224


def flash_varlen(
    q: Tensor, k: Tensor, v: Tensor, offsets_q: Tensor, offsets_k: Tensor, max_q: int, max_k: int, *,
    scale: float, window: tuple[int, int], dropout: float = 0.0,
) -> Tensor:  # fmt: skip
    """The output (N, H, K). Offsets are int32; `window` counts keys left and right of a query, -1 for no limit.

    The last query of a sequence is aligned with its last key.
    """
    from torch.nn.attention.varlen import varlen_attn

    if dropout > 0:
        causal, debug_mask = window == (-1, 0), False
        return _forward(
            q, k, v, offsets_q, offsets_k, max_q, max_k, dropout, causal, debug_mask,
            scale=scale, window_size_left=window[0], window_size_right=window[1],
        )[0]  # fmt: skip
    out = varlen_attn(
        q, k, v, offsets_q, offsets_k, max_q, max_k,
        scale=scale, window_size=window, enable_gqa=k.shape[1] != q.shape[1],
    )  # fmt: skip
    assert isinstance(out, Tensor)
    return out
