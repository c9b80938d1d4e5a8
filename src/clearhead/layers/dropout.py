"""Dropout (Srivastava et al. 2014): in training, zeroes each value with probability p and scales the rest up."""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from clearhead.attention import dropout_mask


class Dropout(nn.Dropout):
    """`nn.Dropout` with random bits that cost a tenth on a CPU. They follow torch's seed."""

    def forward(self, input: Tensor) -> Tensor:
        """Applies dropout in training; returns the input itself in evaluation."""
        if not self.training or self.p == 0.0:
            return input
        if input.device.type != "cpu" or torch.compiler.is_compiling() or self.p == 1.0:
            return F.dropout(input, self.p)
        return _DropoutFunction.apply(input, self.p)


class _DropoutFunction(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, p: float) -> Tensor:
        keep, ctx.scale = dropout_mask.scaled_keep_mask(x.shape, p, int(torch.randint(2**62, ())), x)
        ctx.save_for_backward(keep)
        return _scaled(x, ctx.scale, keep)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:  # type: ignore[override]
        (keep,) = ctx.saved_tensors
        return _scaled(grad, ctx.scale, keep), None


def _scaled(x: Tensor, scale: float, keep: Tensor) -> Tensor:
    return x * keep if scale == 1.0 else (x * scale).mul_(keep)
