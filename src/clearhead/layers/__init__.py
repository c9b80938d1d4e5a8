"""The bricks between the tokens and the model: positions, norms, layers of each kind, embeddings, blocks, pooling."""

from clearhead.layers.blocks import Around, Block
from clearhead.layers.embeddings import Embedding
from clearhead.layers.feedforward import ACTIVATIONS, FeedForward, Gated
from clearhead.layers.loss import word_loss
from clearhead.layers.norms import NORMS, make_norm
from clearhead.layers.pooling import POOLINGS
from clearhead.layers.positions import ALiBi, Learned, Rotary, Sinusoidal, Stretch, T5Relative, Turn
from clearhead.layers.recurrent import Recurrent

__all__ = [
    "ACTIVATIONS",
    "NORMS",
    "POOLINGS",
    "ALiBi",
    "Around",
    "Block",
    "Embedding",
    "FeedForward",
    "Gated",
    "Learned",
    "Recurrent",
    "Rotary",
    "Sinusoidal",
    "Stretch",
    "T5Relative",
    "Turn",
    "make_norm",
    "word_loss",
]
