"""The Transformer: a stack of blocks, built from a configuration."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from clearhead.attention import (
    AttentionCore,
    Bias,
    Causal,
    Dot,
    Full,
    KeyValueStore,
    Layout,
    Mask,
    MultiHead,
    ScaledDot,
    Window,
)
from clearhead.layers import (
    ALiBi,
    AxialPositions,
    Block,
    BlockContext,
    Embedding,
    FeedForward,
    GatedFeedForward,
    LearnedPositions,
    ReversibleBlock,
    Rotary,
    SinusoidalPositions,
    T5Relative,
    make_norm,
)
from clearhead.models.row_padding import pad_tokens
from clearhead.models.transformer_config import TransformerConfig, method_for, methods_by_layer
from clearhead.vision import PatchConfig, Patches


class SlidingWindow(nn.Module):
    """Layers with sliding-window attention, and optionally rotary positions of their own."""

    def __init__(self, layers: Sequence[int], mask: Mask, rotary: Rotary | None = None) -> None:
        super().__init__()
        self.layers = frozenset(layers)
        self.mask = mask
        self.rotary = rotary

    def forward(self, context: BlockContext) -> BlockContext:
        mask = self.mask if context.mask is None else context.mask & self.mask
        rotate = context.rotate if self.rotary is None else self.rotary(context.layout.positions)
        return replace(context, mask=mask, rotate=rotate)


class TransformerStack(nn.Module):
    """An embedding, blocks, and a final norm if blocks are pre-norm. With a causal mask it is a decoder.

    The blocks are a plain list (`stack.blocks`), so that training can shard or checkpoint them from outside. A block
    that occurs several times in the list is shared between those layers.
    """

    def __init__(
        self,
        embedding: nn.Module,
        blocks: Sequence[Block],
        *,
        norm: nn.Module | None = None,
        mask: Mask | None = None,
        rotary: Rotary | None = None,
        bias: Callable[[], Bias] | None = None,
        local: SlidingWindow | None = None,
    ) -> None:
        super().__init__()
        self.embedding = embedding
        self.blocks = nn.ModuleList(blocks)
        self.norm = norm
        self.mask = Full() if mask is None else mask
        self.rotary = rotary
        self.bias = bias
        self.local = local

    def forward(
        self,
        ids: Tensor | Sequence[Tensor],
        layout: Layout,
        *,
        segments: Tensor | None = None,
        mask: Mask | None = None,
        memory: Tensor | None = None,
        memory_layout: Layout | None = None,
        cache: KeyValueStore | None = None,
        memory_cache: KeyValueStore | None = None,
    ) -> Tensor:
        """Maps token ids (N,), or images, to hidden states (N, D); `mask` replaces the stack's own."""
        embedded = self.embedding(ids, layout) if segments is None else self.embedding(ids, layout, segments)
        context = BlockContext(
            layout, mask=mask, memory=memory, memory_layout=memory_layout, cache=cache, memory_cache=memory_cache
        )
        if (token := self.global_until) is not None and isinstance(ids, Tensor):
            context = replace(context, global_tokens=tokens_before(token, ids, layout))
        return self.transform(embedded, context)

    @property
    def global_until(self) -> int | None:
        """The token id that an attention method of the stack names: tokens before its first one are global."""
        methods = (block.attention.core.method for block in self.blocks if isinstance(block, Block))
        return next((m.global_until for m in methods if m is not None and m.global_until is not None), None)

    def transform(self, x: Tensor, context: BlockContext) -> Tensor:
        if self.rotary is not None:
            self.rotary.check(context.layout)
        num_rows = len(x)
        context = replace(context, mask=self.mask if context.mask is None else context.mask)
        x, context = pad_tokens(self, x, context)
        global_tokens = context.global_tokens
        if global_tokens is not None:  # padding sequences have none
            global_tokens = F.pad(global_tokens, (0, context.layout.num_sequences - len(global_tokens)))
        context = replace(
            context,
            rotate=None if self.rotary is None else self.rotary(context.layout.positions),
            bias=None if self.bias is None else self.bias(),
            global_tokens=global_tokens,
        )
        out = self.run(x, context, context if self.local is None else self.local(context))
        return out if len(out) == num_rows else out[:num_rows]

    def run(self, x: Tensor, context: BlockContext, local_context: BlockContext) -> Tensor:
        """Runs the blocks and the final norm; `local_context` is for sliding-window layers."""
        if self.blocks and isinstance(self.blocks[0], ReversibleBlock):
            x = torch.cat([x, x], dim=1)  # both streams begin with the embedding
        for layer, block in enumerate(self.blocks):
            is_local = self.local is not None and layer in self.local.layers
            x = block(x, local_context if is_local else context, layer)
        return x if self.norm is None else self.norm(x)


def tokens_before(token: int, ids: Tensor, layout: Layout) -> Tensor:
    """How many tokens of each sequence come before its first `token`, (B,); 0 where it has none."""
    places = torch.where(ids == token, torch.arange(len(ids), device=ids.device), layout.num_tokens)
    first = torch.full_like(layout.starts, layout.num_tokens)
    first.scatter_reduce_(0, layout.sequence_ids, places, "amin")
    return torch.where(first < layout.num_tokens, first - layout.offsets[:-1], 0)


def build_encoder(config: TransformerConfig) -> TransformerStack:
    """Builds a stack in which every token attends to every other."""
    return _build(config, cross=False, mask=Full())


def build_decoder(config: TransformerConfig, *, cross: bool = False) -> TransformerStack:
    """Builds a stack with causal attention; with `cross`, it also attends to an encoder output."""
    return _build(config, cross=cross, mask=Causal())


def _build(config: TransformerConfig, *, cross: bool, mask: Mask) -> TransformerStack:
    c = config
    biases: dict[str, Callable[[], nn.Module]] = {
        "alibi": lambda: ALiBi(c.num_heads),
        "t5": lambda: T5Relative(c.num_heads, c.num_buckets, c.max_distance, bidirectional=isinstance(mask, Full)),
    }
    groups = c.num_layers if c.num_groups is None else c.num_groups
    if groups > c.num_layers:
        raise ValueError(f"{groups} groups of layers, but only {c.num_layers} layers")
    blocks = [_block(c, cross, first=i == 0) for i in range(groups)]
    layers = [blocks[i * groups // c.num_layers] for i in range(c.num_layers)]
    for layer, options in enumerate(methods_by_layer(c)):
        if options is not None:
            attention = layers[layer].attention
            attention.core.method = method_for(c, options)
            if attention.core.method.shares_query_key:
                attention.key = attention.query
    return TransformerStack(
        _embedding(c) if c.patches is None else _patches(c, c.patches),
        layers,
        norm=_norm(c, c.encoded_width) if c.norm_first else None,
        mask=mask,
        rotary=make_rotary(c, c.rotary_base) if c.positions == "rotary" else None,
        bias=biases[c.positions]() if c.positions in biases else None,
        local=make_local(c),
    )


def _patches(c: TransformerConfig, patches: PatchConfig) -> Patches:
    norm = _norm(c) if c.embedding_norm else None
    return Patches(patches, c.width, norm=norm, dropout=_embedding_dropout(c))


def make_positions(c: TransformerConfig) -> nn.Module | None:
    """The positions that are added to token vectors; None where positions are elsewhere, or there are none."""
    width = c.embedding_width or c.width
    tables: dict[str, Callable[[], nn.Module]] = {
        "sinusoidal": lambda: SinusoidalPositions(c.max_len, width),
        "sinusoidal_concat": lambda: SinusoidalPositions(c.max_len, width, interleaved=False),
        "sinusoidal_fairseq": lambda: SinusoidalPositions(
            c.max_len, width, interleaved=False, base=10_000 ** (width / (width - 2)), offset=c.position_offset
        ),
        "learned": lambda: LearnedPositions(c.max_len, width, offset=c.position_offset),
    }
    if c.axes is not None:
        return AxialPositions(c.axes)
    return tables[c.positions]() if c.positions in tables else None


def _embedding(c: TransformerConfig) -> Embedding:
    width = c.embedding_width or c.width
    tokens = nn.Embedding(c.vocab_size, width)
    nn.init.normal_(tokens.weight, std=width**-0.5)
    return Embedding(
        tokens,
        positions=make_positions(c),
        segments=_segments(c.num_segments, width) if c.num_segments else None,
        norm=_norm(c, width) if c.embedding_norm else None,
        dropout=_embedding_dropout(c),
        scale=c.positions == "sinusoidal" if c.scale_embeddings is None else c.scale_embeddings,
        projection=None if c.embedding_width is None else nn.Linear(width, c.width),
    )


def _segments(count: int, width: int) -> nn.Embedding:
    table = nn.Embedding(count, width)
    nn.init.normal_(table.weight, std=0.02)  # torch's default of 1 would dominate the token vectors
    return table


def _embedding_dropout(c: TransformerConfig) -> float:
    return c.dropout if c.embedding_dropout is None else c.embedding_dropout


def make_rotary(c: TransformerConfig, base: float) -> Rotary:
    return Rotary(c.max_len, c.head_dim or c.width // c.num_heads, base=base, scaling=c.rope_scaling)


def make_local(c: TransformerConfig) -> SlidingWindow | None:
    if c.window is None:
        return None
    has_rotary = c.positions in ("rotary", "none") and c.local_rotary_base is not None
    rotary = make_rotary(c, c.local_rotary_base or 0.0) if has_rotary else None
    return SlidingWindow(c.local_layers, Window(*c.window), rotary)


def _norm(c: TransformerConfig, width: int | None = None) -> nn.Module:
    return make_norm(c.norm, width or c.width, c.norm_eps, bias=c.norm_bias)


def _block(c: TransformerConfig, cross: bool, first: bool) -> Block:
    def attention(kind: Literal["self", "cross"]) -> MultiHead:
        head_dim = c.head_dim or c.width // c.num_heads
        return MultiHead(
            c.width,
            c.num_heads,
            num_kv_heads=c.num_kv_heads,
            head_dim=c.head_dim,
            context_width=c.context_width if kind == "cross" else None,
            bias=c.bias if c.attention_bias is None else c.attention_bias,
            output_bias=c.output_bias,
            norms=(_norm(c, head_dim), _norm(c, head_dim)) if c.qk_norm else None,
            core=AttentionCore(kind, ScaledDot() if c.scaled_scores else Dot(), c.attention_dropout, c.kernel),
        )

    norms = [_norm(c) for _ in range(3 if cross else 2)]
    if first and c.norm_of_embedding:
        norms[0] = nn.Identity()
    feedforward = GatedFeedForward if c.gated else FeedForward
    return (ReversibleBlock if c.reversible else Block)(
        attention("self"),
        feedforward(c.width, c.ffn_dim, activation=c.activation, bias=c.bias, dropout=c.hidden_dropout),
        norms,
        cross=attention("cross") if cross else None,
        norm_first=c.norm_first,
        layer_scale=c.layer_scale,
        dropout=c.dropout,
    )
