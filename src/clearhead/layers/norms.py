"""Normalization layers: layer norm and RMS norm."""

from collections.abc import Callable

from torch import nn

NORMS: dict[str, Callable[..., nn.Module]] = {
    "layer": nn.LayerNorm,  # Ba et al. 2016
    "rms": nn.RMSNorm,  # Zhang and Sennrich 2019
}
"""Norms, by name."""


def make_norm(name: str, width: int, eps: float, *, bias: bool = True) -> nn.Module:
    """Returns a norm over vectors of this width; `bias` applies to layer norm only."""
    if name not in NORMS:
        raise ValueError(f"there is no norm {name!r}: choose {', '.join(NORMS)}")
    return NORMS[name](width, eps=eps, **({"bias": bias} if name == "layer" else {}))
