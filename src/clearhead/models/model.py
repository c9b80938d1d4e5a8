"""Model: an encoder, a decoder or both, with an optional head."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

from clearhead.attention import KeyValueStore, Layout
from clearhead.models.heads import HeadConfig, build_head
from clearhead.models.recurrent import RecurrentConfig, RecurrentDecoder, RecurrentEncoder, check_roles
from clearhead.models.transformer import TransformerStack, build_decoder, build_encoder
from clearhead.models.transformer_config import TransformerConfig
from clearhead.vision import PatchConfig


@dataclass(frozen=True, kw_only=True)
class ModelConfig:
    """The parts of a model; with both an encoder and a decoder, the decoder attends to the encoder output."""

    encoder: TransformerConfig | RecurrentConfig | None = None
    decoder: TransformerConfig | RecurrentConfig | None = None
    head: HeadConfig | None = None
    shared_embedding: bool = True  # encoder and decoder share token embeddings (Vaswani et al. 2017, section 3.4)
    generator: ModelConfig | None = None  # ELECTRA's generator; shares the embeddings

    def __post_init__(self) -> None:
        if self.encoder is None and self.decoder is None:
            raise ValueError("a model needs an encoder, a decoder or both: none was given")
        encoder, decoder = self.encoder, self.decoder
        if isinstance(decoder, TransformerConfig):
            if isinstance(encoder, RecurrentConfig):
                raise ValueError("the encoder is recurrent and the decoder is a Transformer: make both the same kind")
            return
        if isinstance(encoder, TransformerConfig):
            if decoder is None:
                return
            if encoder.patches is None:
                raise ValueError(
                    "the encoder is a Transformer and the decoder is recurrent: make both the same kind, unless the "
                    "encoder reads images"
                )
            if self.shared_embedding:
                raise ValueError("the encoder reads images and has no token embeddings: set shared_embedding=False")
        check_roles(encoder=encoder, decoder=decoder)
        sizes = {(stack.vocab_size, stack.width) for stack in (encoder, decoder) if stack is not None}
        if self.shared_embedding and len(sizes) > 1:
            raise ValueError(
                "encoder and decoder differ in vocab_size or width and cannot share token embeddings: "
                "make them equal, or set shared_embedding=False"
            )
        if self.head is not None and self.head.width != self.output_width:
            raise ValueError(
                f"the head expects width {self.head.width}, but the hidden states have width {self.output_width}: "
                f"use HeadConfig(width={self.output_width})"
            )

    @property
    def stack(self) -> TransformerConfig | RecurrentConfig:
        """The stack whose output the head reads."""
        stack = self.encoder if self.decoder is None else self.decoder
        assert stack is not None
        return stack

    @property
    def patches(self) -> PatchConfig | None:
        """How images are divided into tokens; None: the model reads text."""
        return self.encoder.patches if isinstance(self.encoder, TransformerConfig) else None

    @property
    def output_width(self) -> int:
        """The width of the hidden states that the head reads."""
        if self.decoder is None or isinstance(self.decoder, TransformerConfig):
            return self.stack.encoded_width
        return self.decoder.width


class Model(nn.Module):
    """Maps token ids to the output of the head; without a head, to the hidden states of the last layer."""

    def __init__(
        self,
        encoder: TransformerStack | RecurrentEncoder | None,
        decoder: TransformerStack | RecurrentDecoder | None,
        head: nn.Module | None = None,
        memory_projection: nn.Linear | None = None,
    ) -> None:
        super().__init__()
        self.encoder = encoder
        self.decoder = decoder
        self.head = head
        self.memory_projection = memory_projection  # from the encoder's width to the decoder's, where they differ
        self.generator: Model | None = None

    def hidden_states(
        self,
        ids: Tensor | Sequence[Tensor],
        layout: Layout,
        target: Tensor | None = None,
        target_layout: Layout | None = None,
        *,
        segments: Tensor | None = None,
        cache: KeyValueStore | None = None,
        sources: Sequence[int] | None = None,
    ) -> Tensor:
        """Returns the hidden states of the last layer, (N, D): the decoder's if there is one.

        With `sources`, the number of the source that each target belongs to, several targets share a source, which is
        encoded once.
        """
        if self.encoder is None:
            assert self.decoder is not None
            return self.decoder(ids, layout, segments=segments, cache=cache)
        if self.decoder is None:
            return self.encoder(ids, layout, segments=segments)
        if target is None or target_layout is None:
            raise ValueError("an encoder-decoder needs a source and a target: give `target` and `target_layout` too")
        memory = self.encode(ids, layout, segments=segments)
        if sources is not None:
            memory, layout = memory.index_select(0, layout.row_indices(sources)), layout.select(sources)
        return self.decoder(target, target_layout, memory=memory, memory_layout=layout, cache=cache)

    def encode(self, ids: Tensor | Sequence[Tensor], layout: Layout, *, segments: Tensor | None = None) -> Tensor:
        """Returns the encoder output as the decoder reads it, (N, D)."""
        assert self.encoder is not None
        memory = self.encoder(ids, layout, segments=segments)
        return memory if self.memory_projection is None else self.memory_projection(memory)

    def forward(
        self,
        ids: Tensor | Sequence[Tensor],
        layout: Layout,
        target: Tensor | None = None,
        target_layout: Layout | None = None,
        *,
        segments: Tensor | None = None,
        cache: KeyValueStore | None = None,
        places: Tensor | None = None,
        sources: Sequence[int] | None = None,
    ) -> Tensor:
        """Maps ids (N,) of the sequences in `layout`, and the target's for an encoder-decoder, to the head's output.

        Instead of ids, a model of images reads a tensor (B, C, H, W), or a list of images of several sizes.
        With `places`, a per-token head runs on the tokens at these indices only; `sources` is that of `hidden_states`.
        """
        x = self.hidden_states(ids, layout, target, target_layout, segments=segments, cache=cache, sources=sources)
        x = x if places is None else x.index_select(0, places)
        output_layout = layout if target_layout is None else target_layout
        return x if self.head is None else self.head(x, output_layout)


def shared_copy(model: Model) -> Model:
    """Returns a copy that shares all parameters and buffers with the model, so that its modules can be replaced."""
    shared: dict[int, Any] = {id(tensor): tensor for tensor in (*model.parameters(), *model.buffers())}
    return copy.deepcopy(model, shared)


def build(config: ModelConfig) -> Model:
    """Builds a model with newly initialized weights."""
    encoder, decoder = _encoder(config), _decoder(config)
    if encoder is not None and decoder is not None and config.shared_embedding:
        decoder.embedding.tokens = encoder.embedding.tokens  # type: ignore[union-attr]
    last = encoder if decoder is None else decoder
    assert last is not None
    head = None if config.head is None else build_head(config.head, getattr(last.embedding, "tokens", None))  # type: ignore[arg-type]
    model = Model(encoder, decoder, head, _memory_projection(config))
    if config.generator is not None:
        model.generator = _build_generator(model, config.generator)
    return model


def _memory_projection(config: ModelConfig) -> nn.Linear | None:
    stacks = config.encoder, config.decoder
    if not all(isinstance(stack, TransformerConfig) for stack in stacks):
        return None
    encoder, decoder = (stack for stack in stacks if isinstance(stack, TransformerConfig))
    projected = encoder.width != decoder.width and decoder.context_width is None
    return nn.Linear(encoder.width, decoder.width) if projected else None


def _build_generator(model: Model, config: ModelConfig) -> Model:
    """Builds a generator that shares the embeddings of a model (Clark et al. 2020, section 3.2)."""
    generator = build(config)
    assert generator.encoder is not None and model.encoder is not None
    for name in ("tokens", "positions", "segments"):
        setattr(generator.encoder.embedding, name, getattr(model.encoder.embedding, name))
    if config.head is not None and config.head.tied:
        generator.head.output.weight = model.encoder.embedding.tokens.weight  # type: ignore[union-attr]
    return generator


def _encoder(config: ModelConfig) -> TransformerStack | RecurrentEncoder | None:
    if isinstance(config.encoder, RecurrentConfig):
        return RecurrentEncoder(config.encoder)
    return None if config.encoder is None else build_encoder(config.encoder)


def _decoder(config: ModelConfig) -> TransformerStack | RecurrentDecoder | None:
    if isinstance(config.decoder, RecurrentConfig):
        return RecurrentDecoder(config.decoder, config.encoder)
    return None if config.decoder is None else build_decoder(config.decoder, cross=config.encoder is not None)


def build_encoder_decoder(config: TransformerConfig, *, shared_embedding: bool = True) -> Model:
    """Builds an encoder-decoder with the same configuration for both, without a head."""
    return build(ModelConfig(encoder=config, decoder=config, shared_embedding=shared_embedding))
