"""Models: Transformer and recurrent encoders and decoders, and heads."""

from clearhead.models.heads import HeadConfig, build_head
from clearhead.models.model import Model, ModelConfig, build, build_encoder_decoder
from clearhead.models.recurrent import RecurrentConfig, RecurrentDecoder, RecurrentEncoder
from clearhead.models.transformer import SlidingWindow, TransformerStack, build_decoder, build_encoder
from clearhead.models.transformer_config import PRESETS, TransformerConfig

__all__ = [
    "PRESETS", "HeadConfig", "Model", "ModelConfig", "RecurrentConfig", "RecurrentDecoder", "RecurrentEncoder",
    "SlidingWindow", "TransformerConfig", "TransformerStack", "build", "build_decoder", "build_encoder",
    "build_encoder_decoder", "build_head",
]  # fmt: skip
