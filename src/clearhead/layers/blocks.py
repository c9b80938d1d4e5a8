"""Blocks: attention and a feed-forward layer, each in a residual connection with a norm (Vaswani et al. 2017, 3.1)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

from clearhead.attention import Bias, Layout, Mask, MultiHead
from clearhead.attention.cache import Store
from clearhead.attention.multihead import Rotate
from clearhead.layers.dropout import Dropout


@dataclass(frozen=True, eq=False)
class Around:
    """What the blocks of a stack share in one call: who may see whom, the encoder's output, the caches."""

    layout: Layout
    mask: Mask | None = None
    rotate: Rotate | None = None
    bias: Bias | None = None
    memory: Tensor | None = None  # (M, D), what a decoder's cross-attention reads
    memory_layout: Layout | None = None
    memory_bias: Bias | None = None
    cache: Store | None = None
    memory_cache: Store | None = None


class Block(nn.Module):
    """One layer of an encoder; of a decoder, where `cross` attention is given.

    Each part is x + part(norm(x)) where `norm_first` (pre-norm), norm(x + part(x)) otherwise (post-norm, 2017). A part
    takes `add`, what its result is added to.
    """

    def __init__(
        self,
        attention: MultiHead,
        feedforward: nn.Module,
        norms: list[nn.Module],
        *,
        cross: MultiHead | None = None,
        norm_first: bool = False,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        if len(norms) != (2 if cross is None else 3):
            raise ValueError(f"{len(norms)} norms: a block needs one for each of its {2 if cross is None else 3} parts")
        self.attention, self.attention_norm = attention, norms[0]
        self.cross, self.cross_norm = cross, norms[1] if cross is not None else None
        self.feedforward, self.feedforward_norm = feedforward, norms[-1]
        self.norm_first = norm_first
        self.dropout = Dropout(dropout)

    def forward(self, x: Tensor, around: Around, layer: int = 0) -> Tensor:
        """(N, D) to (N, D)."""
        h = self.attention_norm(x) if self.norm_first else x
        x = self._onto(
            x, self.attention, h, around.layout,
            mask=around.mask, rotate=around.rotate, bias=around.bias, cache=around.cache, layer=layer,
        )  # fmt: skip
        x = x if self.norm_first else self.attention_norm(x)

        if self.cross is not None and self.cross_norm is not None:
            if around.memory is None:
                raise ValueError("a block with cross-attention needs `memory`, the encoder's output, and its layout")
            h = self.cross_norm(x) if self.norm_first else x
            x = self._onto(
                x, self.cross, h, around.layout,
                context=around.memory, context_layout=around.memory_layout, bias=around.memory_bias,
                cache=around.memory_cache, layer=layer,
            )  # fmt: skip
            x = x if self.norm_first else self.cross_norm(x)

        h = self.feedforward_norm(x) if self.norm_first else x
        x = self._onto(x, self.feedforward, h)
        return x if self.norm_first else self.feedforward_norm(x)

    def _onto(self, x: Tensor, part: nn.Module, *args: Any, **options: Any) -> Tensor:
        """X + dropout(part(...)); where there is no dropout and nobody watches, the part adds it in its last pass."""
        if part._forward_hooks or (self.training and self.dropout.p > 0):
            return x + self.dropout(part(*args, **options))
        return part(*args, **options, add=x)
