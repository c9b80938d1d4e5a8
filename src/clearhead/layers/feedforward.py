"""Feed-forward layers: what each token does on its own between attentions (Vaswani et al. 2017, section 3.3)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": F.relu,
    "gelu": F.gelu,
    "gelu_tanh": partial(F.gelu, approximate="tanh"),
    "silu": F.silu,
}


def _check(activation: str) -> str:
    if activation not in ACTIVATIONS:
        raise ValueError(f"there is no activation {activation!r}: choose {', '.join(ACTIVATIONS)}")
    return activation


class FeedForward(nn.Module):
    """Up, activate, down."""

    def __init__(
        self, width: int, hidden: int, *, activation: str = "relu", bias: bool = True, dropout: float = 0.0
    ) -> None:
        super().__init__()
        self.up = nn.Linear(width, hidden, bias=bias)
        self.down = nn.Linear(hidden, width, bias=bias)
        self.dropout = nn.Dropout(dropout)
        self.activation = _check(activation)

    def forward(self, x: Tensor) -> Tensor:
        """(N, D) to (N, D)."""
        return self.down(self.dropout(_activated(self.up, x, self.activation)))


class Gated(nn.Module):
    """Up, times an activated gate, down (Shazeer 2020)."""

    def __init__(
        self, width: int, hidden: int, *, activation: str = "silu", bias: bool = False, dropout: float = 0.0
    ) -> None:
        super().__init__()
        self.gate = nn.Linear(width, hidden, bias=bias)
        self.up = nn.Linear(width, hidden, bias=bias)
        self.down = nn.Linear(hidden, width, bias=bias)
        self.dropout = nn.Dropout(dropout)
        self.activation = _check(activation)

    def forward(self, x: Tensor) -> Tensor:
        """(N, D) to (N, D)."""
        return self.down(self.dropout(_activated(self.gate, x, self.activation) * self.up(x)))


# oneDNN's names for our activations: it applies them to a tile of the product while the tile is in cache.
_ONEDNN = {"relu": ("relu", ""), "gelu": ("gelu", "none"), "gelu_tanh": ("gelu", "tanh"), "silu": ("swish", "")}


def _activated(linear: nn.Linear, x: Tensor, activation: str) -> Tensor:
    """activation(linear(x)); in one pass for inference on a CPU, unless somebody watches or replaced the layer."""
    if (
        torch.is_grad_enabled()
        or torch.compiler.is_compiling()
        or torch.is_autocast_enabled("cpu")
        or x.device.type != "cpu"
        or x.dtype not in (torch.float32, torch.bfloat16)
        or not torch.backends.mkldnn.is_available()
        or type(linear) is not nn.Linear
        or type(linear.weight) is not nn.Parameter
        or linear._forward_hooks
        or linear._forward_pre_hooks
        or not x.shape[0]
    ):
        return ACTIVATIONS[activation](linear(x))
    name, algorithm = _ONEDNN[activation]
    return torch.ops.mkldnn._linear_pointwise(x, linear.weight, linear.bias, name, [], algorithm)
