"""Feed-forward layers: what each token does on its own between attentions (Vaswani et al. 2017, section 3.3)."""

from __future__ import annotations

from torch import Tensor, nn

from clearhead.attention.project import ACTIVATIONS, project
from clearhead.layers.dropout import Dropout


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
        self.dropout = Dropout(dropout)
        self.activation = _check(activation)

    def forward(self, x: Tensor, add: Tensor | None = None) -> Tensor:
        """(N, D) to (N, D), plus `add`."""
        return project(self.down, self.dropout(project(self.up, x, activation=self.activation)), add=add)


class Gated(nn.Module):
    """Up, times an activated gate, down (Shazeer 2020)."""

    def __init__(
        self, width: int, hidden: int, *, activation: str = "silu", bias: bool = False, dropout: float = 0.0
    ) -> None:
        super().__init__()
        self.gate = nn.Linear(width, hidden, bias=bias)
        self.up = nn.Linear(width, hidden, bias=bias)
        self.down = nn.Linear(hidden, width, bias=bias)
        self.dropout = Dropout(dropout)
        self.activation = _check(activation)

    def forward(self, x: Tensor, add: Tensor | None = None) -> Tensor:
        """(N, D) to (N, D), plus `add`."""
        hidden = project(self.gate, x, activation=self.activation) * project(self.up, x)
        return project(self.down, self.dropout(hidden), add=add)
