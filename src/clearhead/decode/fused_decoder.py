"""Fused decoding steps of a Transformer on a CPU, with as few operations as possible.

The results equal those of the modules, from the same weights: queries, keys and values of a layer are one product, and
weights are packed for oneDNN at their first large product. A few rows of float32 are faster in torch's own product: it
reads the weights as they are and needs no padding rows. Hooks and custom modules are not supported: `state.py` calls
`unsupported_reason` first, and runs the modules themselves where it returns one.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from clearhead.attention import Dot, MultiHead, ScaledDot
from clearhead.attention.fused_linear import ACTIVATIONS, fused_linear
from clearhead.attention.hooks import is_observed
from clearhead.attention.kernels.cached_step import attend_buffers, spread_bias
from clearhead.attention.kv_cache import CrossAttentionCache, KVCache
from clearhead.layers import Block, FeedForward, GatedFeedForward
from clearhead.models.heads import LMHead
from clearhead.models.row_padding import pad_rows
from clearhead.models.transformer import TransformerStack

SMALL_ROWS = 12  # of float32: up to here torch's own product is the faster one
LARGE_WEIGHT = 2**20  # elements; oneDNN is faster for them, from the third row on
Norm = Callable[[Tensor], Tensor]
Rotate = Callable[[Tensor], Tensor]


def unsupported_reason(decoder: TransformerStack, head: LMHead, dtype: torch.dtype, device: torch.device) -> str | None:
    """Return why a decoder cannot be fused, or None if it can."""
    if device.type != "cpu" or dtype not in (torch.float32, torch.bfloat16) or not torch.backends.mkldnn.is_available():
        return "it requires oneDNN on a CPU"
    if torch.is_grad_enabled() or decoder.training:
        return "it supports inference only"
    for part in (decoder, head):
        for module in part.modules():
            if is_observed(module):
                return f"a {type(module).__name__} has forward hooks"
            if isinstance(module, MultiHead) and type(module.core.score) not in (ScaledDot, Dot):
                return "its scores are not dot products"
            if isinstance(module, MultiHead) and module.core.method is not None:
                return f"its attention is {module.core.method.kind}"
            if isinstance(module, Block) and type(module.feedforward) not in (FeedForward, GatedFeedForward):
                return "its feed-forward layers are of an unknown type"
            if isinstance(module, nn.Linear) and type(module) is not nn.Linear:
                return f"it has a layer of type {type(module).__name__}"
    return None


class PackedLinear:
    """Linear layers with one input, concatenated; packed for the matrix units when many rows are multiplied."""

    def __init__(self, first: nn.Linear, *more: nn.Linear, rows: int) -> None:
        """`rows` is the expected number of input rows."""
        layers = (first, *more)
        self._weight = (torch.cat([layer.weight for layer in layers]) if more else first.weight).detach()
        biases: list[Tensor | None] = [layer.bias for layer in layers]
        joined = [b.detach() for b in biases if b is not None]
        self._bias = torch.cat(joined) if joined else None
        self._rows = rows
        self._packed: Tensor | None = None
        is_float32, is_large = self._weight.dtype == torch.float32, self._weight.numel() > LARGE_WEIGHT
        self._small = (2 if is_large else SMALL_ROWS) if is_float32 else 0

    def __call__(self, x: Tensor, activation: str | None = None, add: Tensor | None = None) -> Tensor:
        rows = len(x)
        if rows <= self._small:
            out = F.linear(x, self._weight, self._bias)
            out = out if activation is None else ACTIVATIONS[activation](out)
            return out if add is None else out.add_(add)
        packed = self._packed
        if packed is None:
            packed = self._packed = torch.ops.mkldnn._reorder_linear_weight(self._weight, self._rows)
        out = fused_linear(pad_rows(x), packed, self._bias, activation, None if add is None else pad_rows(add))
        return out if len(out) == rows else out[:rows]

    def once(self, x: Tensor) -> Tensor:
        """Compute the layers for a single input: packing takes as long as a product."""
        return fused_linear(x, self._weight, self._bias, None, None)


class FusedAttention:
    """Attention over cache places: the hypotheses of a sequence are its queries."""

    def __init__(self, part: MultiHead, *, cross: bool, rows: int) -> None:
        self.width = part.head_dim
        self.heads = part.query.out_features // self.width
        self.groups = part.key.out_features // self.width
        self.context = PackedLinear(part.key, part.value, rows=rows) if cross else None
        own = (part.query,) if cross else (part.query, part.key, part.value)
        self.inputs = PackedLinear(*own, rows=rows)
        self.output = PackedLinear(part.output, rows=rows)
        self.query_norm: nn.Module | None = part.query_norm
        self.key_norm: nn.Module | None = part.key_norm
        scale = part.core.score.scale(self.width)
        assert scale is not None
        self.scale = scale

    def query(self, q: Tensor, rotate: Rotate | None) -> Tensor:
        q = q if self.query_norm is None else self.query_norm(q)
        return q if rotate is None else rotate(q)

    def key(self, k: Tensor, rotate: Rotate | None) -> Tensor:
        k = k if self.key_norm is None else self.key_norm(k)
        return k if rotate is None else rotate(k)

    def cache_context(self, layer: int, memory: Tensor, cache: CrossAttentionCache) -> None:
        assert self.context is not None
        parts = self.context.once(pad_rows(memory))[: len(memory)].view(len(memory), -1, self.width)  # (M, 2 G, K)
        cache.put(layer, self.key(parts[:, : self.groups], None), parts[:, self.groups :])

    def spread(self, bias: Tensor, width: int = 1) -> Tensor:
        """Return a bias (B, 1 or H, 1 or W, S) as the kernel takes it; `width` is W where the bias has 1."""
        return spread_bias(bias, self.heads, self.groups, width)


class FusedLayer:
    """One Transformer block."""

    def __init__(self, block: Block, rows: int) -> None:
        feedforward = block.feedforward
        assert isinstance(feedforward, FeedForward | GatedFeedForward)
        self.norm_first = block.norm_first
        self.norms = [_norm(block.attention_norm), _norm(block.feedforward_norm)]
        self.attention = FusedAttention(block.attention, cross=False, rows=rows)
        self.cross: FusedAttention | None = None
        if block.cross is not None and block.cross_norm is not None:
            self.cross = FusedAttention(block.cross, cross=True, rows=rows)
            self.norms.insert(1, _norm(block.cross_norm))
        self.activation = feedforward.activation
        self.up = PackedLinear(feedforward.up, rows=rows)
        self.gate = PackedLinear(feedforward.gate, rows=rows) if isinstance(feedforward, GatedFeedForward) else None
        self.down = PackedLinear(feedforward.down, rows=rows)

    def step(
        self, x: Tensor, number: int, slots: KVCache, table: Tensor | None, rotate: Rotate | None,
        context: tuple[CrossAttentionCache, Tensor] | None,
    ) -> Tensor:  # fmt: skip
        """Process one token of each hypothesis, (R', D) to (R', D): the rows of R hypotheses, then padding rows."""
        first, attention = self.norm_first, self.attention
        heads, groups = attention.heads, attention.groups
        parts = attention.inputs(self.norms[0](x) if first else x).view(len(x), -1, attention.width)  # (R', H + 2 G, K)
        parts = parts[: slots.num_sequences * slots.width]
        q, k, v = parts[:, :heads], parts[:, heads : heads + groups], parts[:, heads + groups :]
        slots.put(number, attention.key(k, rotate), v)
        keys, values = slots.buffers(number)
        if table is None:  # all used places are visible
            keys, values = keys[:, :, : slots.used], values[:, :, : slots.used]
        gathered = attend_buffers(attention.query(q, rotate), keys, values, table, attention.scale)
        x = attention.output(pad_rows(gathered, len(x)), add=x)
        x = x if first else self.norms[0](x)
        if self.cross is not None and context is not None:
            cache, context_bias = context
            q = self.cross.inputs(self.norms[1](x) if first else x).view(len(x), -1, self.cross.width)
            q = self.cross.query(q[: len(gathered)], None)
            attended = attend_buffers(q, *cache.buffers(number), context_bias, self.cross.scale)
            x = self.cross.output(pad_rows(attended, len(x)), add=x)
            x = x if first else self.norms[1](x)
        h = self.norms[-1](x) if first else x
        if self.gate is None:
            h = self.up(h, self.activation)
        else:
            h = self.gate(h, self.activation) * self.up(h)
        x = self.down(h, add=x)
        return x if first else self.norms[-1](x)


def _norm(norm: nn.Module) -> Norm:
    """Return a norm as a function, without the overhead of the module."""
    if type(norm) is not nn.LayerNorm:
        return norm
    shape, weight, bias, eps = norm.normalized_shape, norm.weight, norm.bias, norm.eps
    return lambda x: torch.layer_norm(x, shape, weight, bias, eps)


class FusedDecoder:
    """A decoder and its head with packed weights. Weights are copied: create one for each search."""

    def __init__(self, decoder: TransformerStack, head: LMHead, rows: int) -> None:
        fused: dict[int, FusedLayer] = {}
        for block in decoder.blocks:
            assert isinstance(block, Block)
            if id(block) not in fused:
                fused[id(block)] = FusedLayer(block, rows)
        self.layers = [fused[id(block)] for block in decoder.blocks]
        self._norm, self._pre_logits = decoder.norm, head.pre_logits
        self._output = PackedLinear(head.output, rows=rows)

    def pad(self, x: Tensor) -> Tensor:
        """Return x (R, D) with padding rows, unless its products need none."""
        return x if x.dtype == torch.float32 and len(x) <= SMALL_ROWS else pad_rows(x)

    def logits(self, x: Tensor) -> Tensor:
        """Return the logits (R, V) of the last layer's vectors (R, D)."""
        return self._output(self._pre_logits(x if self._norm is None else self._norm(x)))
