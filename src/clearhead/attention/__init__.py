"""The attention core: layouts, masks, scores, biases, kernels, multi-head attention, caches, and looking inside."""

from clearhead.attention.attend import attend
from clearhead.attention.biases import Bias, RelativeBias
from clearhead.attention.capture.look import AttentionCapture, AttentionMap, ablate_heads, look
from clearhead.attention.inputs import AttentionInputs
from clearhead.attention.kernels import KERNELS, choose
from clearhead.attention.kv_cache import CrossAttentionCache, KeyValueStore, KVCache
from clearhead.attention.layout import Layout
from clearhead.attention.masks import Causal, DenseMask, Full, Global, Mask, Prefix, Window
from clearhead.attention.multihead import AttentionCore, MultiHead
from clearhead.attention.scores import Additive, Dot, General, ScaledDot, Score

__all__ = [
    "KERNELS", "Additive", "AttentionCapture", "AttentionCore", "AttentionInputs", "AttentionMap", "Bias", "Causal",
    "CrossAttentionCache", "DenseMask", "Dot", "Full", "General", "Global", "KVCache", "KeyValueStore", "Layout",
    "Mask", "MultiHead", "Prefix", "RelativeBias", "ScaledDot", "Score", "Window", "ablate_heads", "attend", "choose",
    "look",
]  # fmt: skip
