"""Int8 linear layers, rounded like torchao's dynamic quantization.

Weights have one scale per output channel. Activations have one scale per token, computed at run time, so the result
for a text does not depend on its batch. The product is exact in integers, and fast where a CPU multiplies bytes (VNNI,
AMX). The passes around it cost most of what it saves, unless `torch.compile` fuses them: see docs/decisions.md.
"""

from __future__ import annotations

from typing import cast

import torch
from torch import Tensor, nn

ROWS = 256  # rows per chunk
_MIN_SCALE = torch.finfo(torch.float32).tiny  # for a token of zeros


class Int8Linear(nn.Module):
    """A linear layer with int8 weights and dynamically quantized activations; inference only."""

    bias: nn.Parameter | None

    def __init__(self, in_features: int, out_features: int, *, bias: bool = True) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(out_features, in_features, dtype=torch.int8), requires_grad=False)
        self.scale = nn.Parameter(torch.ones(out_features, 1), requires_grad=False)
        self.bias = nn.Parameter(torch.zeros(out_features), requires_grad=False) if bias else None

    def forward(self, x: Tensor) -> Tensor:
        """Maps (N, in_features) to (N, out_features)."""
        if self.training:
            raise ValueError("int8 layers cannot be trained: train the original model and export it again")
        with torch.no_grad():
            if torch.compiler.is_compiling() or len(x) <= ROWS:
                return self._matmul(x).to(x.dtype)
            out = torch.empty(len(x), len(self.scale), dtype=x.dtype, device=x.device)
            for rows, target in zip(x.split(ROWS), out.split(ROWS), strict=True):
                target.copy_(self._matmul(rows))
            return out

    def _matmul(self, x: Tensor) -> Tensor:
        if not len(x):
            return torch.zeros(0, len(self.scale), device=x.device)
        x = x.float()
        absmax = torch.maximum(x.amax(1, keepdim=True), -x.amin(1, keepdim=True))  # (N, 1)
        scale = (absmax / 127.5).clamp_min(_MIN_SCALE)
        quantized = (x * scale.reciprocal()).round_().clamp_max_(127).to(torch.int8)  # from -128
        product = torch.ops.aten._int_mm(quantized, self.weight.T)  # (N, out_features)
        out = product.float().mul_(self.scale.T).mul_(scale)
        return out if self.bias is None else out.add_(self.bias)

    def extra_repr(self) -> str:
        out_features, in_features = self.weight.shape
        return f"{in_features}, {out_features}, bias={self.bias is not None}"


def is_int8(model: nn.Module) -> bool:
    return any(isinstance(module, Int8Linear) for module in model.modules())


def layers(model: nn.Module) -> dict[str, nn.Linear]:
    """Returns the linear layers to quantize, by name: those inside blocks. Embeddings and heads keep their dtype."""
    modules = {name: module for name, module in model.named_modules() if ".blocks." in name}
    return {name: module for name, module in modules.items() if type(module) is nn.Linear}


def to_int8(model: nn.Module) -> None:
    """Replaces the linear layers of `layers(model)` by int8 layers without values, in place."""
    for name, layer in layers(model).items():
        empty = Int8Linear(layer.in_features, layer.out_features, bias=cast(Tensor | None, layer.bias) is not None)
        parent, _, attribute = name.rpartition(".")
        setattr(model.get_submodule(parent), attribute, empty.train(layer.training))
