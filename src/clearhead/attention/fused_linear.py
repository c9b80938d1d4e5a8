"""Fused linear: a linear layer with activation and residual in the same oneDNN pass, for inference on a CPU.

oneDNN adds the bias, applies an activation and adds a residual to a tile of the product while the tile is in cache. A
layer with hooks, or of another class, is called as a module.
"""

from collections.abc import Callable
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from clearhead.attention.hooks import is_observed

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": F.relu,
    "gelu": F.gelu,
    "gelu_tanh": partial(F.gelu, approximate="tanh"),
    "silu": F.silu,
    "quick_gelu": lambda x: x * torch.sigmoid(1.702 * x),  # CLIP's
}
"""Activation functions of feed-forward layers, by name."""

# oneDNN's names.
_ONEDNN = {
    None: ("none", ""),
    "relu": ("relu", ""),
    "gelu": ("gelu", "none"),
    "gelu_tanh": ("gelu", "tanh"),
    "silu": ("swish", ""),
}


def linear(layer: nn.Linear, x: Tensor, *, activation: str | None = None, add: Tensor | None = None) -> Tensor:
    """activation(layer(x)) + add, for x (N, D)."""
    if _fuses(layer, x):
        return fused_linear(x, layer.weight, layer.bias, activation, add)
    out = layer(x) if activation is None else ACTIVATIONS[activation](layer(x))
    return out if add is None else add + out


def fused_linear(x: Tensor, weight: Tensor, bias: Tensor | None, activation: str | None, add: Tensor | None) -> Tensor:
    """activation(x · weight + bias) + add by oneDNN; `weight` may be packed."""
    if add is not None and activation is None:
        return torch.ops.mkldnn._linear_pointwise.binary(x, add, weight, bias, "add")
    name, algorithm = _ONEDNN.get(activation, _ONEDNN[None])
    out = torch.ops.mkldnn._linear_pointwise(x, weight, bias, name, [], algorithm)
    if activation not in _ONEDNN and activation is not None:
        out = ACTIVATIONS[activation](out)
    return out if add is None else add + out


def _fuses(layer: nn.Linear, x: Tensor) -> bool:
    """True for inference on a CPU with a plain layer without hooks."""
    return not (
        torch.is_grad_enabled()
        or x.device.type != "cpu"
        or x.dtype not in (torch.float32, torch.bfloat16)
        or torch.compiler.is_compiling()
        or torch.is_autocast_enabled("cpu")
        or not torch.backends.mkldnn.is_available()
        or type(layer) is not nn.Linear
        or type(layer.weight) is not nn.Parameter
        or is_observed(layer)
        or not x.shape[0]
    )
