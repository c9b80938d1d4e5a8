"""Int8: linear layers in 8 bits, rounded as torchao's dynamic quantisation rounds them.

Weights have one scale for each output. Activations get one for each token as they come, so that a text says the same
alone and in a batch. The product is exact in whole numbers, and fast where a CPU multiplies bytes (VNNI, AMX). The
passes around it cost most of what it saves, unless `torch.compile` joins them: docs/decisions.md has the figures.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

ROWS = 256  # computed at a time
_LEAST = torch.finfo(torch.float32).tiny  # of a scale, for a token of zeros


class Int8(nn.Module):
    """A linear layer of bytes."""

    bias: nn.Parameter | None

    def __init__(self, inputs: int, outputs: int, *, bias: bool = True) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(outputs, inputs, dtype=torch.int8), requires_grad=False)
        self.scale = nn.Parameter(torch.ones(outputs, 1), requires_grad=False)
        self.bias = nn.Parameter(torch.zeros(outputs), requires_grad=False) if bias else None

    def forward(self, x: Tensor) -> Tensor:
        """(N, inputs) to (N, outputs)."""
        if self.training:
            raise ValueError("int8 layers do not learn: train the model this folder was made from, and export it anew")
        with torch.no_grad():
            if torch.compiler.is_compiling() or len(x) <= ROWS:
                return self._rows(x).to(x.dtype)
            out = torch.empty(len(x), len(self.scale), dtype=x.dtype, device=x.device)
            for rows, done in zip(x.split(ROWS), out.split(ROWS), strict=True):
                done.copy_(self._rows(rows))
            return out

    def _rows(self, x: Tensor) -> Tensor:
        if not len(x):
            return torch.zeros(0, len(self.scale), device=x.device)
        x = x.float()
        largest = torch.maximum(x.amax(1, keepdim=True), -x.amin(1, keepdim=True))  # (N, 1)
        step = (largest / 127.5).clamp_min(_LEAST)
        whole = (x * step.reciprocal()).round_().clamp_max_(127).to(torch.int8)  # from -128
        out = torch.ops.aten._int_mm(whole, self.weight.T).float().mul_(self.scale.T).mul_(step)  # (N, outputs)
        return out if self.bias is None else out.add_(self.bias)

    def extra_repr(self) -> str:
        outputs, inputs = self.weight.shape
        return f"{inputs}, {outputs}, bias={self.bias is not None}"


def is_int8(model: nn.Module) -> bool:
    """Has the model layers of bytes?"""
    return any(isinstance(module, Int8) for module in model.modules())


def layers(model: nn.Module) -> dict[str, nn.Linear]:
    """The linear layers that are made of bytes: those inside blocks, by name. Tables and heads stay as they are."""
    found = {name: module for name, module in model.named_modules() if ".blocks." in name}
    return {name: module for name, module in found.items() if type(module) is nn.Linear}


def to_int8(model: nn.Module) -> None:
    """Put layers of bytes, yet without values, in the place of those of `layers`."""
    for name, layer in layers(model).items():
        empty = Int8(layer.in_features, layer.out_features, bias=layer.bias is not None)  # type: ignore[redundant-expr]
        parent, _, attribute = name.rpartition(".")
        setattr(model.get_submodule(parent), attribute, empty.train(layer.training))
