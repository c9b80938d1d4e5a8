"""Dropout masks (Srivastava et al. 2014), drawn on a CPU ten times as fast as torch does.

A number is dropped by 16 random bits, so that p is met to within 1 / 65,536. What survives is 1 and the rest 0, in the
dtype it will be multiplied with; `keep_scale` compensates for the others exactly.
"""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

LEVELS = 2**16


def keep_mask(shape: Sequence[int], p: float, seed: int, like: Tensor) -> Tensor:
    """1 for kept and 0 for dropped elements at probability 0 < p < 1, in the dtype and on the device of `like`."""
    if like.device.type != "cpu":
        generator = None if like.is_meta else torch.Generator(like.device).manual_seed(seed)
        mask = torch.empty(shape, dtype=like.dtype, device=like.device)
        return mask.bernoulli_(1 / keep_scale(p), generator=generator)
    kept = ~_dropped(int(np.prod(shape)), p, seed)
    if like.dtype == torch.bfloat16:  # the bits of 1: torch takes five times as long to convert a bool
        return torch.from_numpy(np.multiply(kept, np.int16(0x3F80), dtype=np.int16)).view(like.dtype).view(tuple(shape))
    return torch.from_numpy(kept.astype(np.float32)).to(like.dtype).view(tuple(shape))


def scaled_keep_mask(shape: Sequence[int], p: float, seed: int, like: Tensor) -> tuple[Tensor, float]:
    """A keep mask, and the scale to multiply with besides: 1 for float32 on a CPU, where the mask holds `keep_scale`.

    That saves a pass over the numbers. In a narrower dtype the scale would be rounded.
    """
    if like.dtype != torch.float32 or like.device.type != "cpu":
        return keep_mask(shape, p, seed, like), keep_scale(p)
    kept = ~_dropped(int(np.prod(shape)), p, seed)
    return torch.from_numpy(np.multiply(kept, np.float32(keep_scale(p)))).view(tuple(shape)), 1.0


def keep_mask_of_tile(like: Tensor, p: float, seed: int, sequence: int, head: int, number: int) -> Tensor:
    """The keep mask of one tile of a head's weights: backward draws it again from the same seed."""
    return keep_mask(like.shape, p, (seed + 1_000_003 * sequence + 7919 * head + 104_729 * number) % 2**63, like)


def negate_dropped(x: Tensor, p: float, seed: int) -> Tensor:
    """A non-negative float32 or bfloat16 x on a CPU, with the dropped elements negated."""
    whole, bit = (np.int16, 15) if x.dtype == torch.bfloat16 else (np.int32, 31)
    signs = torch.from_numpy(np.left_shift(_dropped(x.numel(), p, seed), bit, dtype=whole))
    x.view(signs.dtype).bitwise_or_(signs.view(x.shape))
    return x


def keep_scale(p: float) -> float:
    """1 / (1 - p), the scale of kept elements, for the p that the mask realizes."""
    return LEVELS / (LEVELS - _level(p))


def _level(p: float) -> int:
    return min(max(round(p * LEVELS), 1), LEVELS - 1)


def _dropped(count: int, p: float, seed: int) -> np.ndarray:
    bits: np.ndarray = np.random.SFC64(seed).random_raw(count // 4 + 1).view(np.uint16)[:count]
    return bits < _level(p)
