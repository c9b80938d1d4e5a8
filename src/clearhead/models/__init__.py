"""Models built from the bricks."""

from clearhead.models.transformer import (
    PRESETS,
    EncoderDecoder,
    Stack,
    TransformerConfig,
    build_decoder,
    build_encoder,
    build_encoder_decoder,
)

__all__ = [
    "PRESETS",
    "EncoderDecoder",
    "Stack",
    "TransformerConfig",
    "build_decoder",
    "build_encoder",
    "build_encoder_decoder",
]
