"""Position-wise feed-forward layers (Vaswani et al. 2017, section 3.3)."""

from torch import Tensor, nn

from clearhead.attention.fused_linear import ACTIVATIONS, linear
from clearhead.layers.dropout import Dropout


def _check(activation: str) -> str:
    if activation not in ACTIVATIONS:
        raise ValueError(f"there is no activation {activation!r}: choose {', '.join(ACTIVATIONS)}")
    return activation


class FeedForward(nn.Module):
    """Two linear layers with an activation between them."""

    def __init__(
        self, width: int, ffn_dim: int, *, activation: str = "relu", bias: bool = True, dropout: float = 0.0
    ) -> None:
        super().__init__()
        self.up = nn.Linear(width, ffn_dim, bias=bias)
        self.down = nn.Linear(ffn_dim, width, bias=bias)
        self.dropout = Dropout(dropout)
        self.activation = _check(activation)

    def forward(self, x: Tensor, add: Tensor | None = None) -> Tensor:
        """Maps (N, D) to (N, D), plus `add`."""
        return linear(self.down, self.dropout(linear(self.up, x, activation=self.activation)), add=add)


class GatedFeedForward(nn.Module):
    """Feed-forward layer with a gated linear unit (Shazeer 2020)."""

    def __init__(
        self, width: int, ffn_dim: int, *, activation: str = "silu", bias: bool = False, dropout: float = 0.0
    ) -> None:
        super().__init__()
        self.gate = nn.Linear(width, ffn_dim, bias=bias)
        self.up = nn.Linear(width, ffn_dim, bias=bias)
        self.down = nn.Linear(ffn_dim, width, bias=bias)
        self.dropout = Dropout(dropout)
        self.activation = _check(activation)

    def forward(self, x: Tensor, add: Tensor | None = None) -> Tensor:
        """Maps (N, D) to (N, D), plus `add`."""
        hidden = linear(self.gate, x, activation=self.activation) * linear(self.up, x)
        return linear(self.down, self.dropout(hidden), add=add)
