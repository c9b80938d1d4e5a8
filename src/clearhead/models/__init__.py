"""Models built from the bricks."""

from clearhead.models.heads import HeadConfig, build_head
from clearhead.models.model import Model, ModelConfig, build, build_encoder_decoder
from clearhead.models.recurrent import RecurrentConfig, RecurrentDecoder, RecurrentEncoder
from clearhead.models.transformer import (
    PRESETS,
    Local,
    Stack,
    TransformerConfig,
    build_decoder,
    build_encoder,
)

__all__ = [
    "PRESETS",
    "HeadConfig",
    "Local",
    "Model",
    "ModelConfig",
    "RecurrentConfig",
    "RecurrentDecoder",
    "RecurrentEncoder",
    "Stack",
    "TransformerConfig",
    "build",
    "build_decoder",
    "build_encoder",
    "build_encoder_decoder",
    "build_head",
]
