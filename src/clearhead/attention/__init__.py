"""The attention core: layouts, masks, scores, biases, kernels, multi-head attention, caches, and looking inside."""

from clearhead.attention.attend import attend
from clearhead.attention.biases import Bias, Relative
from clearhead.attention.cache import Cache, CacheConfig, OutOfBlocks
from clearhead.attention.call import Call
from clearhead.attention.kernels import KERNELS, choose
from clearhead.attention.layout import Layout
from clearhead.attention.look import Seen, View, look, without
from clearhead.attention.masks import Causal, Explicit, Full, Global, Mask, Prefix, Window
from clearhead.attention.multihead import Core, MultiHead
from clearhead.attention.scores import Additive, Dot, General, ScaledDot, Score

__all__ = [
    "KERNELS",
    "Additive",
    "Bias",
    "Cache",
    "CacheConfig",
    "Call",
    "Causal",
    "Core",
    "Dot",
    "Explicit",
    "Full",
    "General",
    "Global",
    "Layout",
    "Mask",
    "MultiHead",
    "OutOfBlocks",
    "Prefix",
    "Relative",
    "ScaledDot",
    "Score",
    "Seen",
    "View",
    "Window",
    "attend",
    "choose",
    "look",
    "without",
]
