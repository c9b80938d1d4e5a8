"""Dropout (Srivastava et al. 2014): while training, each number is 0 with probability p, the others grow to make up."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from clearhead.attention import drops


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
        kept = drops.draw(x.shape, p, int(torch.randint(2**62, ())), x)
        ctx.save_for_backward(kept)
        ctx.growth = drops.growth(p)
        return (x * ctx.growth).mul_(kept)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:  # type: ignore[override]
        (kept,) = ctx.saved_tensors
        return (grad * ctx.growth).mul_(kept), None
