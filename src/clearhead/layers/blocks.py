"""Transformer blocks: attention and feed-forward, each with a residual connection and a norm (Vaswani et al. 2017)."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from clearhead.attention import Bias, Layout, Mask, MultiHead
from clearhead.attention.hooks import is_observed
from clearhead.attention.kv_cache import KeyValueStore
from clearhead.attention.multihead import RotateFn
from clearhead.layers.dropout import Dropout


@dataclass(frozen=True, eq=False)
class BlockContext:
    """The arguments that the blocks of a stack share in one call: layout, mask, encoder output, caches."""

    layout: Layout
    mask: Mask | None = None
    rotate: RotateFn | None = None
    bias: Bias | None = None
    global_tokens: Tensor | None = None  # (B,): how many first tokens of a sequence sparse methods make global
    memory: Tensor | None = None  # (M, D), the encoder output that cross-attention reads
    memory_layout: Layout | None = None
    memory_bias: Bias | None = None
    cache: KeyValueStore | None = None
    memory_cache: KeyValueStore | None = None


class LayerScale(nn.Module):
    """Multiplies by a learned vector (Touvron et al. 2021b, section 2)."""

    def __init__(self, width: int, start: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.full((width,), start))

    def forward(self, x: Tensor) -> Tensor:
        return x * self.weight


class Block(nn.Module):
    """One Transformer layer: self-attention, cross-attention (if `cross` is given) and feed-forward.

    Each sublayer computes x + sublayer(norm(x)) if `norm_first` (pre-norm), else norm(x + sublayer(x)) (post-norm).
    A sublayer takes `add`, the tensor its result is added to. With `layer_scale`, results of self-attention and
    feed-forward are scaled by learned vectors that start at this value.
    """

    def __init__(
        self,
        attention: MultiHead,
        feedforward: nn.Module,
        norms: list[nn.Module],
        *,
        cross: MultiHead | None = None,
        norm_first: bool = False,
        layer_scale: float | None = None,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        if len(norms) != (2 if cross is None else 3):
            raise ValueError(
                f"{len(norms)} norms: a block needs one for each of its {2 if cross is None else 3} sublayers"
            )
        self.attention, self.attention_norm = attention, norms[0]
        self.cross, self.cross_norm = cross, norms[1] if cross is not None else None
        self.feedforward, self.feedforward_norm = feedforward, norms[-1]
        self.norm_first = norm_first
        width = attention.output.out_features
        self.attention_scale = None if layer_scale is None else LayerScale(width, layer_scale)
        self.feedforward_scale = None if layer_scale is None else LayerScale(width, layer_scale)
        self.dropout = Dropout(dropout)

    def forward(self, x: Tensor, context: BlockContext, layer: int = 0) -> Tensor:
        """(N, D) to (N, D)."""
        h = self.attention_norm(x) if self.norm_first else x
        x = self._attend(x, h, context, layer)
        x = x if self.norm_first else self.attention_norm(x)

        if self.cross is not None and self.cross_norm is not None:
            if context.memory is None:
                raise ValueError("a block with cross-attention needs `memory`, the encoder output, and its layout")
            h = self.cross_norm(x) if self.norm_first else x
            x = self._add(
                x, self.cross, h, context.layout,
                context=context.memory, context_layout=context.memory_layout, bias=context.memory_bias,
                cache=context.memory_cache, layer=layer,
            )  # fmt: skip
            x = x if self.norm_first else self.cross_norm(x)

        h = self.feedforward_norm(x) if self.norm_first else x
        x = self._add(x, self.feedforward, h, scale=self.feedforward_scale)
        return x if self.norm_first else self.feedforward_norm(x)

    def _attend(self, x: Tensor, h: Tensor, context: BlockContext, layer: int) -> Tensor:
        """Returns x with the self-attention of h added."""
        return self._add(
            x, self.attention, h, context.layout, scale=self.attention_scale,
            mask=context.mask, rotate=context.rotate, bias=context.bias, global_tokens=context.global_tokens,
            cache=context.cache, layer=layer,
        )  # fmt: skip

    def _add(
        self, x: Tensor, sublayer: nn.Module, *args: Any, scale: nn.Module | None = None, **options: Any
    ) -> Tensor:
        """Returns x + dropout(scale * sublayer(...)); with nothing in between, the sublayer fuses the addition."""
        if scale is not None:
            return x + self.dropout(scale(sublayer(*args, **options)))
        if is_observed(sublayer) or (self.training and self.dropout.p > 0):
            return x + self.dropout(sublayer(*args, **options))
        return sublayer(*args, **options, add=x)


class ReversibleBlock(Block):
    """A pre-norm block of two residual streams: attention reads the second and adds to the first, and feed-forward the
    other way (Gomez et al. 2017; Kitaev et al. 2020, section 3). The streams are the halves of (N, 2 D).

    Inputs are kept for the backward pass, not computed again from outputs.
    """

    def forward(self, x: Tensor, context: BlockContext, layer: int = 0) -> Tensor:
        """(N, 2 D) to (N, 2 D)."""
        first, second = x.chunk(2, dim=1)
        first = self._attend(first, self.attention_norm(second), context, layer)
        second = self._add(second, self.feedforward, self.feedforward_norm(first), scale=self.feedforward_scale)
        return torch.cat([first, second], dim=1)
