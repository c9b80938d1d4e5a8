"""Layers: embeddings, positions, norms, feed-forward and recurrent layers, Transformer blocks, pooling, losses."""

from clearhead.layers.blocks import Block, BlockContext, ReversibleBlock
from clearhead.layers.embeddings import Embedding
from clearhead.layers.feedforward import ACTIVATIONS, FeedForward, GatedFeedForward
from clearhead.layers.loss import linear_cross_entropy
from clearhead.layers.norms import NORMS, make_norm
from clearhead.layers.pooling import POOLINGS
from clearhead.layers.positions import (
    ALiBi,
    AxialPositions,
    LearnedPositions,
    RopeScaling,
    Rotary,
    Rotation,
    SinusoidalPositions,
    T5Relative,
)
from clearhead.layers.recurrent import Recurrent

__all__ = [
    "ACTIVATIONS", "NORMS", "POOLINGS", "ALiBi", "AxialPositions", "Block", "BlockContext", "Embedding", "FeedForward",
    "GatedFeedForward", "LearnedPositions", "Recurrent", "ReversibleBlock", "RopeScaling", "Rotary", "Rotation",
    "SinusoidalPositions", "T5Relative", "linear_cross_entropy", "make_norm",
]  # fmt: skip
