"""The Transformer: a stack of blocks, built from a configuration."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Literal

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
from clearhead.efficient import AttentionMethod, make_method
from clearhead.layers import (
    ALiBi,
    Block,
    BlockContext,
    Embedding,
    FeedForward,
    GatedFeedForward,
    LearnedPositions,
    RopeScaling,
    Rotary,
    SinusoidalPositions,
    T5Relative,
    make_norm,
)
from clearhead.models.row_padding import pad_tokens
from clearhead.vision import PatchConfig, Patches

Positions = Literal["sinusoidal", "sinusoidal_concat", "sinusoidal_fairseq", "learned", "rotary", "alibi", "t5", "none"]


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
        for layer, block in enumerate(self.blocks):
            is_local = self.local is not None and layer in self.local.layers
            x = block(x, local_context if is_local else context, layer)
        return x if self.norm is None else self.norm(x)


def tokens_before(token: int, ids: Tensor, layout: Layout) -> Tensor:
    """How many tokens of each sequence come before its first `token`, (B,); 0 where it has none."""
    found = (ids == token).nonzero().flatten()
    first = torch.full_like(layout.starts, layout.num_tokens)
    first.scatter_reduce_(0, layout.sequence_ids[found], found, "amin")
    return torch.where(first < layout.num_tokens, first - layout.offsets[:-1], 0)


@dataclass(frozen=True, kw_only=True)
class TransformerConfig:
    """The sizes and layer kinds of one stack."""

    vocab_size: int = 1  # unused if tokens are patches
    width: int
    num_layers: int
    num_heads: int
    ffn_dim: int  # inner width of the feed-forward layers
    max_len: int = 512
    num_kv_heads: int | None = None  # None: num_heads
    head_dim: int | None = None  # None: width / num_heads
    context_width: int | None = None  # of the encoder output that cross-attention reads; None: width
    num_groups: int | None = None  # layers of a group share weights (ALBERT); None: no sharing

    patches: PatchConfig | None = None  # tokens are image patches
    embedding_width: int | None = None  # None: width
    embedding_norm: bool = False
    num_segments: int = 0
    scale_embeddings: bool | None = None  # multiply token vectors by sqrt(width); None: if positions are sinusoidal

    positions: Positions = "sinusoidal"
    position_offset: int = 0  # rows of the table before the first position
    rotary_base: float = 10_000.0
    rope_scaling: RopeScaling | None = None
    num_buckets: int = 32  # T5's
    max_distance: int = 128
    window: tuple[int, int] | None = None  # tokens before and after that local layers attend to
    local_layers: tuple[int, ...] = ()
    local_rotary_base: float | None = None  # None: rotary_base

    norm: Literal["layer", "rms"] = "layer"
    norm_eps: float = 1e-5
    norm_bias: bool = True
    norm_first: bool = False
    norm_of_embedding: bool = False  # the embedding's norm replaces the first pre-norm (ModernBERT)
    activation: str = "relu"
    gated: bool = False
    bias: bool = True  # of the feed-forward layers; default of attention_bias
    attention_bias: bool | None = None
    output_bias: bool | None = None  # None: attention_bias
    qk_norm: bool = False
    scaled_scores: bool = True
    layer_scale: float | None = None  # sublayers are scaled by a vector that starts at this value; None: not

    dropout: float = 0.1
    attention_dropout: float = 0.0
    hidden_dropout: float = 0.0  # inside the feed-forward layers
    embedding_dropout: float | None = None  # None: dropout
    kernel: str = "auto"
    # methods that replace exact self-attention: {"kind": ..., its options, "layers": [...] (default: all)}
    attention: tuple[Mapping[str, Any], ...] = ()

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if str(field.type).startswith("int") and value is not None:
                may_be_0 = (*(("num_layers",) if self.patches else ()), "num_segments", "position_offset")
                minimum = 0 if field.name in may_be_0 else 1
                _check_count(field.name, value, minimum, 10_000 if field.name == "num_layers" else 2**31)
            elif "float" in str(field.type) and value is not None and (not _is_number(value) or value < 0):
                raise ValueError(f"{field.name} is {value!r}: it must be a number, 0 or more")
            elif str(field.type).startswith("bool") and value is not None and not isinstance(value, bool):
                raise ValueError(f"{field.name} is {value!r}: it must be true or false")
        for name in ("dropout", "attention_dropout", "hidden_dropout", "embedding_dropout"):
            if not 0.0 <= (getattr(self, name) or 0.0) < 1.0:
                raise ValueError(
                    f"{name} is {getattr(self, name)}: it must be a probability from 0 up to, not including, 1"
                )
        if self.positions not in Positions.__args__:
            raise ValueError(f"there are no {self.positions!r} positions: choose {', '.join(Positions.__args__)}")
        if bool(self.local_layers) != (self.window is not None):
            raise ValueError(
                "local_layers and window must be given together: which layers are local, and how far they attend"
            )

    @property
    def max_positions(self) -> int | None:
        """The maximum length of a sequence; None if positions are unlimited."""
        return None if self.positions in ("t5", "alibi", "none") else self.max_len

    @property
    def encoded_width(self) -> int:
        return self.width


def methods_by_layer(config: TransformerConfig) -> list[dict[str, Any] | None]:
    """The options of the method of each layer; None: exact attention. Of several methods, the last counts."""
    result: list[dict[str, Any] | None] = [None] * config.num_layers
    for given in config.attention:
        options = dict(given)
        layers = options.pop("layers", None)
        for layer in range(config.num_layers) if layers is None else layers:
            if isinstance(layer, bool) or not isinstance(layer, int) or not 0 <= layer < config.num_layers:
                raise ValueError(f"attention.layers has {layer!r}: layers are 0 to {config.num_layers - 1}")
            result[layer] = options
    return result


def method_for(config: TransformerConfig, options: Mapping[str, Any]) -> AttentionMethod:
    """The method that options describe, with the sizes of this model where they are not given."""
    head_dim = config.head_dim or config.width // config.num_heads
    sizes = {"width": config.width, "num_heads": config.num_heads, "head_dim": head_dim, "max_len": config.max_len}
    return make_method(options, **sizes)


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and value == value and abs(value) < 1e12


def _check_count(name: str, value: object, minimum: int, maximum: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or not minimum <= value <= maximum:
        raise ValueError(f"{name} is {value!r}: it must be an integer from {minimum} to {maximum}")


PRESETS: dict[str, TransformerConfig] = {
    "tiny": TransformerConfig(vocab_size=8_000, width=128, num_layers=2, num_heads=4, ffn_dim=512),
    "mini": TransformerConfig(vocab_size=8_000, width=256, num_layers=4, num_heads=4, ffn_dim=1024),
    "small": TransformerConfig(vocab_size=8_000, width=256, num_layers=3, num_heads=4, ffn_dim=1024),
    "base": TransformerConfig(
        vocab_size=37_000, width=512, num_layers=6, num_heads=8, ffn_dim=2048
    ),  # Vaswani et al. 2017
}


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
            layers[layer].attention.core.method = method_for(c, options)
    return TransformerStack(
        _embedding(c) if c.patches is None else _patches(c, c.patches),
        layers,
        norm=_norm(c) if c.norm_first else None,
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
    has_rotary = c.positions == "rotary" and c.local_rotary_base is not None
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
    return Block(
        attention("self"),
        feedforward(c.width, c.ffn_dim, activation=c.activation, bias=c.bias, dropout=c.hidden_dropout),
        norms,
        cross=attention("cross") if cross else None,
        norm_first=c.norm_first,
        layer_scale=c.layer_scale,
        dropout=c.dropout,
    )
