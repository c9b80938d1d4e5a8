"""The Transformer: encoder, decoder, and both together, built from bricks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from torch import Tensor, nn

from clearhead.attention import Bias, Cache, CacheConfig, Causal, Core, Full, Layout, Mask, MultiHead
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
    T5Relative,
    make_norm,
)

Positions = Literal["sinusoidal", "learned", "rotary", "alibi", "t5", "none"]


class Stack(nn.Module):
    """An embedding, blocks, and a last norm where blocks are pre-norm. With a causal mask it is a decoder.

    The blocks are a plain list (`stack.blocks`), so that training can shard or checkpoint them from outside.
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
    ) -> None:
        super().__init__()
        self.embedding = embedding
        self.blocks = nn.ModuleList(blocks)
        self.norm = norm
        self.mask = Full() if mask is None else mask
        self.rotary = rotary
        self.bias = bias

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
        """Token ids (N,) to vectors (N, D); `mask` replaces the stack's own."""
        embedded = self.embedding(ids, layout) if segments is None else self.embedding(ids, layout, segments)
        return self.transform(
            embedded,
            layout,
            mask=mask,
            memory=memory,
            memory_layout=memory_layout,
            cache=cache,
            memory_cache=memory_cache,
        )

    def transform(
        self,
        x: Tensor,
        layout: Layout,
        *,
        mask: Mask | None = None,
        memory: Tensor | None = None,
        memory_layout: Layout | None = None,
        cache: Cache | None = None,
        memory_cache: Cache | None = None,
    ) -> Tensor:
        """The same for tokens that are vectors already, (N, D)."""
        if self.rotary is not None:
            self.rotary.check(layout)
        around = Around(
            layout,
            mask=self.mask if mask is None else mask,
            rotate=self.rotary,
            bias=None if self.bias is None else self.bias(),
            memory=memory,
            memory_layout=memory_layout,
            cache=cache,
            memory_cache=memory_cache,
        )
        for layer, block in enumerate(self.blocks):
            x = block(x, around, layer)
        return x if self.norm is None else self.norm(x)


class EncoderDecoder(nn.Module):
    """An encoder whose output a decoder attends to (Vaswani et al. 2017, figure 1)."""

    def __init__(self, encoder: Stack, decoder: Stack) -> None:
        super().__init__()
        self.encoder = encoder
        self.decoder = decoder

    def forward(self, source: Tensor, source_layout: Layout, target: Tensor, target_layout: Layout) -> Tensor:
        """Source ids (M,) and target ids (N,), of as many sequences, to the decoder's vectors (N, D)."""
        memory = self.encoder(source, source_layout)
        return self.decoder(target, target_layout, memory=memory, memory_layout=source_layout)


@dataclass(frozen=True, kw_only=True)
class TransformerConfig:
    """The sizes and kinds of bricks of one stack."""

    vocab_size: int
    width: int
    num_layers: int
    num_heads: int
    hidden: int  # width inside the feed-forward layers
    max_len: int = 512
    num_kv_heads: int | None = None  # None: as many as heads
    head_dim: int | None = None  # None: width / num_heads
    positions: Positions = "sinusoidal"
    norm: Literal["layer", "rms"] = "layer"
    norm_eps: float = 1e-5
    norm_first: bool = False
    activation: str = "relu"
    gated: bool = False
    bias: bool = True
    dropout: float = 0.1
    attention_dropout: float = 0.0
    kernel: str = "auto"

    def __post_init__(self) -> None:
        for name in ("vocab_size", "width", "num_layers", "num_heads", "hidden", "max_len"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}: it must be at least 1")
        for name in ("dropout", "attention_dropout"):
            if not 0.0 <= getattr(self, name) < 1.0:
                raise ValueError(f"{name} is {getattr(self, name)}: a probability from 0 up to, not including, 1")
        if self.positions not in Positions.__args__:  # type: ignore[attr-defined]
            raise ValueError(f"there are no {self.positions!r} positions: choose {', '.join(Positions.__args__)}")  # type: ignore[attr-defined]

    def cache(self) -> CacheConfig:
        """The size of a cache for this stack."""
        return CacheConfig(
            num_layers=self.num_layers,
            num_kv_heads=self.num_kv_heads or self.num_heads,
            head_dim=self.head_dim or self.width // self.num_heads,
        )


PRESETS: dict[str, TransformerConfig] = {
    "tiny": TransformerConfig(vocab_size=8_000, width=128, num_layers=2, num_heads=4, hidden=512),
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


def build_encoder_decoder(config: TransformerConfig, *, shared_embedding: bool = True) -> EncoderDecoder:
    """Both; `shared_embedding` uses one table of token vectors for the two (Vaswani et al. 2017, section 3.4)."""
    encoder, decoder = build_encoder(config), build_decoder(config, cross=True)
    if shared_embedding:
        decoder.embedding.tokens = encoder.embedding.tokens  # type: ignore[union-attr]
    return EncoderDecoder(encoder, decoder)


def _build(config: TransformerConfig, *, cross: bool, mask: Mask) -> Stack:
    c = config
    added: dict[str, Callable[[], nn.Module]] = {
        "sinusoidal": lambda: Sinusoidal(c.max_len, c.width),
        "learned": lambda: Learned(c.max_len, c.width),
    }
    biases: dict[str, Callable[[], nn.Module]] = {
        "alibi": lambda: ALiBi(c.num_heads),
        "t5": lambda: T5Relative(c.num_heads, bidirectional=isinstance(mask, Full)),
    }
    tokens = nn.Embedding(c.vocab_size, c.width)
    nn.init.normal_(tokens.weight, std=c.width**-0.5)
    head_dim = c.head_dim or c.width // c.num_heads
    return Stack(
        Embedding(
            tokens,
            positions=added[c.positions]() if c.positions in added else None,  # type: ignore[arg-type]
            dropout=c.dropout,
            scaled=c.positions == "sinusoidal",
        ),
        [_block(c, cross) for _ in range(c.num_layers)],
        norm=make_norm(c.norm, c.width, c.norm_eps) if c.norm_first else None,
        mask=mask,
        rotary=Rotary(c.max_len, head_dim) if c.positions == "rotary" else None,
        bias=biases[c.positions]() if c.positions in biases else None,  # type: ignore[arg-type]
    )


def _block(c: TransformerConfig, cross: bool) -> Block:
    def attention(kind: Literal["self", "cross"]) -> MultiHead:
        core = Core(kind, dropout=c.attention_dropout, kernel=c.kernel)
        return MultiHead(c.width, c.num_heads, num_kv_heads=c.num_kv_heads, head_dim=c.head_dim, bias=c.bias, core=core)

    feedforward = Gated if c.gated else FeedForward
    return Block(
        attention("self"),
        feedforward(c.width, c.hidden, activation=c.activation, bias=c.bias, dropout=c.dropout),
        [make_norm(c.norm, c.width, c.norm_eps) for _ in range(3 if cross else 2)],
        cross=attention("cross") if cross else None,
        norm_first=c.norm_first,
        dropout=c.dropout,
    )
