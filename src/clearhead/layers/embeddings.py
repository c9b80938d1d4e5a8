"""Embeddings: token ids to vectors, plus positions and segments if the model has them."""

import math
from collections.abc import Callable

from torch import Tensor, nn

from clearhead.attention import Layout
from clearhead.layers.dropout import Dropout


class Embedding(nn.Module):
    """Sum of token, position and segment embeddings, then a norm and dropout (Devlin et al. 2019, figure 2).

    `positions` maps a layout to (N, D); None if positions enter elsewhere. `projection` maps narrow token vectors to
    the model's width (Lan et al. 2020, section 3.1).
    """

    def __init__(
        self,
        tokens: nn.Embedding,
        *,
        positions: Callable[[Layout], Tensor] | None = None,
        segments: nn.Embedding | None = None,
        norm: nn.Module | None = None,
        dropout: float = 0.0,
        scale: bool = False,
        projection: nn.Linear | None = None,
    ) -> None:
        super().__init__()
        self.tokens = tokens
        self.positions = positions
        self.segments = segments
        self.norm = norm
        self.dropout = Dropout(dropout)
        self.scale = math.sqrt(tokens.embedding_dim) if scale else 1.0  # Vaswani et al. 2017, section 3.4
        self.projection = projection

    def forward(self, ids: Tensor, layout: Layout, segments: Tensor | None = None) -> Tensor:
        """Maps token ids (N,), and segment ids (N,) if the model has segments, to (N, D)."""
        if ids.shape[0] != layout.num_tokens:
            raise ValueError(f"{ids.shape[0]} token ids, but the layout holds {layout.num_tokens} tokens")
        x = self.tokens(ids)
        if self.scale != 1.0:
            x = x * self.scale
        if self.positions is not None:
            x = x + self.positions(layout).to(x.dtype)  # computed positions are always float32
        if self.segments is not None:
            x = x + (self.segments.weight[0] if segments is None else self.segments(segments))
        elif segments is not None:
            raise ValueError("segments were given, but this model has no segment embeddings: leave them out")
        if self.norm is not None:
            x = self.norm(x)
        x = self.dropout(x)
        return x if self.projection is None else self.projection(x)
