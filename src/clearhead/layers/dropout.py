"""Dropout (Srivastava et al. 2014): while training, each number is 0 with probability p, the others grow to make up."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

LEVELS = 2**16  # a number is dropped by 16 random bits: p is met to within 1 / 65,536


class Dropout(nn.Dropout):
    """`nn.Dropout`, whose random bits cost a CPU a tenth. They follow from torch's own seed."""

    def forward(self, input: Tensor) -> Tensor:
        """The same shape; in evaluation, the input itself."""
        if not self.training or self.p == 0.0:
            return input
        if input.device.type != "cpu" or torch.compiler.is_compiling() or self.p == 1.0:
            return F.dropout(input, self.p)
        return _Dropout.apply(input, self.p)  # type: ignore[no-any-return]


class _Dropout(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, p: float) -> Tensor:
        level = min(max(round(p * LEVELS), 1), LEVELS - 1)
        source = np.random.Generator(np.random.SFC64(int(torch.randint(2**62, ()))))
        bits = source.integers(2**64, size=x.numel() // 4 + 1, dtype=np.uint64).view(np.uint16)[: x.numel()]
        kept = _ones(bits >= level, x.dtype).view(x.shape)
        ctx.save_for_backward(kept)
        ctx.scale = LEVELS / (LEVELS - level)
        return (x * ctx.scale).mul_(kept)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:  # type: ignore[override]
        (kept,) = ctx.saved_tensors
        return (grad * ctx.scale).mul_(kept), None


def _ones(kept: np.ndarray, dtype: torch.dtype) -> Tensor:
    """1 for what is kept and 0 for what is not, made by NumPy: torch takes five times as long to turn a bool."""
    if dtype == torch.bfloat16:
        return torch.from_numpy(np.multiply(kept, np.int16(0x3F80), dtype=np.int16)).view(dtype)  # the bits of 1
    return torch.from_numpy(kept.astype(np.float32)).to(dtype)
