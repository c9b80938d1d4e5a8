"""Model: an encoder, a decoder or both, and a head. Every family of the field is one of these."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor, nn

from clearhead.attention import Cache, Layout
from clearhead.models.heads import HeadConfig, build_head
from clearhead.models.recurrent import RecurrentConfig, RecurrentDecoder, RecurrentEncoder, check_roles
from clearhead.models.transformer import Stack, TransformerConfig, build_decoder, build_encoder


@dataclass(frozen=True, kw_only=True)
class ModelConfig:
    """The parts of a model; with both an encoder and a decoder, the decoder attends to the encoder's output."""

    encoder: TransformerConfig | RecurrentConfig | None = None
    decoder: TransformerConfig | RecurrentConfig | None = None
    head: HeadConfig | None = None
    shared_embedding: bool = True  # one table of token vectors for the two (Vaswani et al. 2017, section 3.4)
    generator: ModelConfig | None = None  # a small model that an encoder is trained beside (ELECTRA); it shares tables

    def __post_init__(self) -> None:
        if self.encoder is None and self.decoder is None:
            raise ValueError("a model without an encoder and without a decoder: give one or both")
        stacks = [stack for stack in (self.encoder, self.decoder) if stack is not None]
        recurrent = [stack for stack in stacks if isinstance(stack, RecurrentConfig)]
        if not recurrent:
            return
        if len(recurrent) < len(stacks):
            raise ValueError("one stack is a Transformer and the other is recurrent: give two of a kind")
        check_roles(encoder=self.encoder, decoder=self.decoder)  # type: ignore[arg-type]
        if self.shared_embedding and len({(stack.vocab_size, stack.width) for stack in recurrent}) > 1:
            raise ValueError(
                "encoder and decoder differ in vocab_size or width and cannot share one table of token vectors: "
                "make them equal, or set shared_embedding=False"
            )
        if self.head is not None and self.head.width != self.output_width:
            raise ValueError(
                f"the head reads vectors of width {self.head.width}, but they are {self.output_width} wide: "
                f"make it HeadConfig(width={self.output_width})"
            )

    @property
    def stack(self) -> TransformerConfig | RecurrentConfig:
        """The stack whose vectors the head reads."""
        stack = self.encoder if self.decoder is None else self.decoder
        assert stack is not None
        return stack

    @property
    def output_width(self) -> int:
        """The width of the vectors that the head reads."""
        encodes = self.decoder is None and isinstance(self.encoder, RecurrentConfig)
        return self.encoder.encoded_width if encodes else self.stack.width  # type: ignore[union-attr]


class Model(nn.Module):
    """Token ids to what the head answers; without a head, to the vectors of the last layer."""

    def __init__(
        self,
        encoder: Stack | RecurrentEncoder | None,
        decoder: Stack | RecurrentDecoder | None,
        head: nn.Module | None = None,
    ) -> None:
        super().__init__()
        self.encoder = encoder
        self.decoder = decoder
        self.head = head
        self.generator: Model | None = None

    def states(
        self,
        ids: Tensor,
        layout: Layout,
        target: Tensor | None = None,
        target_layout: Layout | None = None,
        *,
        segments: Tensor | None = None,
        cache: Cache | None = None,
    ) -> Tensor:
        """The vectors of the last layer, (N, D): of the decoder's tokens where there is one."""
        if self.encoder is None:
            assert self.decoder is not None
            return self.decoder(ids, layout, segments=segments, cache=cache)
        memory = self.encoder(ids, layout, segments=segments)
        if self.decoder is None:
            return memory
        if target is None or target_layout is None:
            raise ValueError("an encoder-decoder reads a source and a target: give `target` and `target_layout` too")
        return self.decoder(target, target_layout, memory=memory, memory_layout=layout, cache=cache)

    def forward(
        self,
        ids: Tensor,
        layout: Layout,
        target: Tensor | None = None,
        target_layout: Layout | None = None,
        *,
        segments: Tensor | None = None,
        cache: Cache | None = None,
        places: Tensor | None = None,
    ) -> Tensor:
        """Ids (N,) of the sequences in `layout`; an encoder-decoder takes the target's as well.

        With `places` a head that reads tokens one by one answers at these tokens alone.
        """
        x = self.states(ids, layout, target, target_layout, segments=segments, cache=cache)
        x = x if places is None else x.index_select(0, places)
        read = layout if target_layout is None else target_layout
        return x if self.head is None else self.head(x, read)


def build(config: ModelConfig) -> Model:
    """A model with fresh weights."""
    encoder, decoder = _encoder(config), _decoder(config)
    if encoder is not None and decoder is not None and config.shared_embedding:
        decoder.embedding.tokens = encoder.embedding.tokens  # type: ignore[union-attr]
    last = encoder if decoder is None else decoder
    assert last is not None
    head = None if config.head is None else build_head(config.head, getattr(last.embedding, "tokens", None))  # type: ignore[arg-type]
    model = Model(encoder, decoder, head)
    if config.generator is not None:
        model.generator = _beside(model, config.generator)
    return model


def _beside(model: Model, config: ModelConfig) -> Model:
    """A generator with the tables of tokens, positions and segments of a model (Clark et al. 2020, section 3.2)."""
    made = build(config)
    assert made.encoder is not None and model.encoder is not None
    for name in ("tokens", "positions", "segments"):
        setattr(made.encoder.embedding, name, getattr(model.encoder.embedding, name))
    if config.head is not None and config.head.tied:
        made.head.output.weight = model.encoder.embedding.tokens.weight  # type: ignore[union-attr]
    return made


def _encoder(config: ModelConfig) -> Stack | RecurrentEncoder | None:
    if isinstance(config.encoder, RecurrentConfig):
        return RecurrentEncoder(config.encoder)
    return None if config.encoder is None else build_encoder(config.encoder)


def _decoder(config: ModelConfig) -> Stack | RecurrentDecoder | None:
    if isinstance(config.decoder, RecurrentConfig):
        return RecurrentDecoder(config.decoder, config.encoder)  # type: ignore[arg-type]
    return None if config.decoder is None else build_decoder(config.decoder, cross=config.encoder is not None)


def build_encoder_decoder(config: TransformerConfig, *, shared_embedding: bool = True) -> Model:
    """An encoder and a decoder of the same configuration, without a head."""
    return build(ModelConfig(encoder=config, decoder=config, shared_embedding=shared_embedding))
