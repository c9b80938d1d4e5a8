"""The Transformer: a stack of blocks, built from bricks that a configuration names."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Literal

from torch import Tensor, nn

from clearhead.attention import (
    Bias,
    Cache,
    CacheConfig,
    Causal,
    Core,
    Dot,
    Full,
    Layout,
    Mask,
    MultiHead,
    ScaledDot,
    Window,
)
from clearhead.layers import (
    ALiBi,
    Around,
    Block,
    Embedding,
    FeedForward,
    Gated,
    Learned,
    Rotary,
    Sinusoidal,
    Stretch,
    T5Relative,
    make_norm,
)
from clearhead.models.rounding import rounded
from clearhead.vision import PatchConfig, Patches

Positions = Literal["sinusoidal", "halves", "learned", "rotary", "alibi", "t5", "none"]


class Local(nn.Module):
    """Layers that see only near tokens, with rotary positions of their own where they have them."""

    def __init__(self, layers: Sequence[int], mask: Mask, rotary: Rotary | None = None) -> None:
        super().__init__()
        self.layers = frozenset(layers)
        self.mask = mask
        self.rotary = rotary

    def forward(self, around: Around) -> Around:
        """What is around a layer, narrowed to what is near."""
        mask = self.mask if around.mask is None else around.mask & self.mask
        rotate = around.rotate if self.rotary is None else self.rotary(around.layout.positions)
        return replace(around, mask=mask, rotate=rotate)


class Stack(nn.Module):
    """An embedding, blocks, and a last norm where blocks are pre-norm. With a causal mask it is a decoder.

    The blocks are a plain list (`stack.blocks`), so that training can shard or checkpoint them from outside. A block
    that stands in the list several times is shared between those layers.
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
        local: Local | None = None,
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
        ids: Tensor,
        layout: Layout,
        *,
        segments: Tensor | None = None,
        mask: Mask | None = None,
        memory: Tensor | None = None,
        memory_layout: Layout | None = None,
        cache: Cache | None = None,
        memory_cache: Cache | None = None,
    ) -> Tensor:
        """Token ids (N,), or pictures, to vectors (N, D); `mask` replaces the stack's own."""
        embedded = self.embedding(ids, layout) if segments is None else self.embedding(ids, layout, segments)
        around = Around(
            layout,
            mask=mask,
            memory=memory,
            memory_layout=memory_layout,
            cache=cache,
            memory_cache=memory_cache,
        )
        return self.transform(embedded, around)

    def transform(self, x: Tensor, around: Around) -> Tensor:
        """The same for tokens that are vectors already, (N, D)."""
        if self.rotary is not None:
            self.rotary.check(around.layout)
        given = len(x)
        around = replace(around, mask=self.mask if around.mask is None else around.mask)
        x, around = rounded(self, x, around)
        around = replace(
            around,
            rotate=None if self.rotary is None else self.rotary(around.layout.positions),
            bias=None if self.bias is None else self.bias(),
        )
        out = self.run(x, around, around if self.local is None else self.local(around))
        return out if len(out) == given else out[:given]

    def run(self, x: Tensor, around: Around, near: Around) -> Tensor:
        """The blocks and the last norm, with all that is around them given; `near` is for local layers."""
        for layer, block in enumerate(self.blocks):
            is_local = self.local is not None and layer in self.local.layers
            x = block(x, near if is_local else around, layer)
        return x if self.norm is None else self.norm(x)


@dataclass(frozen=True, kw_only=True)
class TransformerConfig:
    """The sizes and kinds of bricks of one stack."""

    vocab_size: int = 1  # not read where tokens are patches
    width: int
    num_layers: int
    num_heads: int
    hidden: int  # width inside the feed-forward layers
    max_len: int = 512
    num_kv_heads: int | None = None  # None: as many as heads
    head_dim: int | None = None  # None: width / num_heads
    num_groups: int | None = None  # layers share weights within so many groups (ALBERT); None: every layer has its own

    patches: PatchConfig | None = None  # tokens are patches of a picture
    embedding_width: int | None = None  # None: as wide as the model
    embedding_norm: bool = False
    num_segments: int = 0
    scaled: bool | None = None  # multiply token vectors by sqrt(width); None: where positions are sinusoidal

    positions: Positions = "sinusoidal"
    position_offset: int = 0  # rows of the table before the first position
    rotary_base: float = 10_000.0
    rotary_stretch: Stretch | None = None
    num_buckets: int = 32  # T5's
    max_distance: int = 128
    window: tuple[int, int] | None = None  # tokens before and after that local layers see
    local_layers: tuple[int, ...] = ()
    local_rotary_base: float | None = None  # None: as rotary_base

    norm: Literal["layer", "rms"] = "layer"
    norm_eps: float = 1e-5
    norm_bias: bool = True
    norm_first: bool = False
    norm_of_embedding: bool = False  # pre-norm whose first norm is the embedding's (ModernBERT)
    activation: str = "relu"
    gated: bool = False
    bias: bool = True  # of the feed-forward layers, and of attention unless told
    attention_bias: bool | None = None
    output_bias: bool | None = None  # None: as attention_bias
    qk_norm: bool = False
    scaled_scores: bool = True

    dropout: float = 0.1
    attention_dropout: float = 0.0
    hidden_dropout: float = 0.0  # inside the feed-forward layers
    embedding_dropout: float | None = None  # None: as dropout
    kernel: str = "auto"

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if str(field.type).startswith("int") and value is not None:
                least = 0 if field.name in ("num_segments", "position_offset") else 1
                _check_count(field.name, value, least, 10_000 if field.name == "num_layers" else 2**31)
            elif "float" in str(field.type) and value is not None and (not _is_number(value) or value < 0):
                raise ValueError(f"{field.name} is {value!r}: it must be a number, 0 or more")
            elif str(field.type).startswith("bool") and value is not None and not isinstance(value, bool):
                raise ValueError(f"{field.name} is {value!r}: it is true or false")
        for name in ("dropout", "attention_dropout", "hidden_dropout", "embedding_dropout"):
            if not 0.0 <= (getattr(self, name) or 0.0) < 1.0:
                raise ValueError(f"{name} is {getattr(self, name)}: a probability from 0 up to, not including, 1")
        if self.positions not in Positions.__args__:  # type: ignore[attr-defined]
            raise ValueError(f"there are no {self.positions!r} positions: choose {', '.join(Positions.__args__)}")  # type: ignore[attr-defined]
        if bool(self.local_layers) != (self.window is not None):
            raise ValueError("local_layers and window go together: say which layers are local and how far they see")

    @property
    def limit(self) -> int | None:
        """The most tokens of a sequence; None where positions have no end."""
        return None if self.positions in ("t5", "alibi", "none") else self.max_len

    def cache(self) -> CacheConfig:
        """The size of a cache for this stack."""
        return CacheConfig(
            num_layers=self.num_layers,
            num_kv_heads=self.num_kv_heads or self.num_heads,
            head_dim=self.head_dim or self.width // self.num_heads,
        )


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and value == value and abs(value) < 1e12


def _check_count(name: str, value: object, least: int, most: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise ValueError(f"{name} is {value!r}: it must be a whole number of at least {least} and at most {most}")


PRESETS: dict[str, TransformerConfig] = {
    "tiny": TransformerConfig(vocab_size=8_000, width=128, num_layers=2, num_heads=4, hidden=512),
    "mini": TransformerConfig(vocab_size=8_000, width=256, num_layers=4, num_heads=4, hidden=1024),
    "small": TransformerConfig(vocab_size=8_000, width=256, num_layers=3, num_heads=4, hidden=1024),
    "base": TransformerConfig(
        vocab_size=37_000, width=512, num_layers=6, num_heads=8, hidden=2048
    ),  # Vaswani et al. 2017
}


def build_encoder(config: TransformerConfig) -> Stack:
    """A stack in which every token sees every other."""
    return _build(config, cross=False, mask=Full())


def build_decoder(config: TransformerConfig, *, cross: bool = False) -> Stack:
    """A stack in which a token sees what came before; with `cross`, also an encoder's output."""
    return _build(config, cross=cross, mask=Causal())


def _build(config: TransformerConfig, *, cross: bool, mask: Mask) -> Stack:
    c = config
    biases: dict[str, Callable[[], nn.Module]] = {
        "alibi": lambda: ALiBi(c.num_heads),
        "t5": lambda: T5Relative(c.num_heads, c.num_buckets, c.max_distance, bidirectional=isinstance(mask, Full)),
    }
    rotary = _rotary(c, c.rotary_base) if c.positions == "rotary" else None
    groups = c.num_layers if c.num_groups is None else c.num_groups
    if groups > c.num_layers:
        raise ValueError(f"{groups} groups of layers, but only {c.num_layers} layers")
    blocks = [_block(c, cross, first=i == 0) for i in range(groups)]
    return Stack(
        Patches(c.patches, c.width, dropout=_embedding_dropout(c)) if c.patches is not None else _embedding(c),
        [blocks[i * groups // c.num_layers] for i in range(c.num_layers)],
        norm=_norm(c) if c.norm_first else None,
        mask=mask,
        rotary=rotary,
        bias=biases[c.positions]() if c.positions in biases else None,  # type: ignore[arg-type]
        local=_local(c),
    )


def _embedding(c: TransformerConfig) -> Embedding:
    width = c.embedding_width or c.width
    added: dict[str, Callable[[], nn.Module]] = {
        "sinusoidal": lambda: Sinusoidal(c.max_len, width),
        "halves": lambda: Sinusoidal(c.max_len, width, interleaved=False),
        "learned": lambda: Learned(c.max_len, width, offset=c.position_offset),
    }
    tokens = nn.Embedding(c.vocab_size, width)
    nn.init.normal_(tokens.weight, std=width**-0.5)
    return Embedding(
        tokens,
        positions=added[c.positions]() if c.positions in added else None,  # type: ignore[arg-type]
        segments=_segments(c.num_segments, width) if c.num_segments else None,
        norm=_norm(c, width) if c.embedding_norm else None,
        dropout=_embedding_dropout(c),
        scaled=c.positions == "sinusoidal" if c.scaled is None else c.scaled,
        widen=None if c.embedding_width is None else nn.Linear(width, c.width),
    )


def _segments(count: int, width: int) -> nn.Embedding:
    table = nn.Embedding(count, width)
    nn.init.normal_(table.weight, std=0.02)  # of its own it is 1, which would drown what the tokens say
    return table


def _embedding_dropout(c: TransformerConfig) -> float:
    return c.dropout if c.embedding_dropout is None else c.embedding_dropout


def _rotary(c: TransformerConfig, base: float) -> Rotary:
    return Rotary(c.max_len, c.head_dim or c.width // c.num_heads, base=base, stretch=c.rotary_stretch)


def _local(c: TransformerConfig) -> Local | None:
    if c.window is None:
        return None
    own = c.positions == "rotary" and c.local_rotary_base is not None
    return Local(c.local_layers, Window(*c.window), _rotary(c, c.local_rotary_base or 0.0) if own else None)


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
            bias=c.bias if c.attention_bias is None else c.attention_bias,
            output_bias=c.output_bias,
            norms=(_norm(c, head_dim), _norm(c, head_dim)) if c.qk_norm else None,
            core=Core(kind, ScaledDot() if c.scaled_scores else Dot(), c.attention_dropout, c.kernel),
        )

    norms = [_norm(c) for _ in range(3 if cross else 2)]
    if first and c.norm_of_embedding:
        norms[0] = nn.Identity()
    feedforward = Gated if c.gated else FeedForward
    return Block(
        attention("self"),
        feedforward(c.width, c.hidden, activation=c.activation, bias=c.bias, dropout=c.hidden_dropout),
        norms,
        cross=attention("cross") if cross else None,
        norm_first=c.norm_first,
        dropout=c.dropout,
    )
