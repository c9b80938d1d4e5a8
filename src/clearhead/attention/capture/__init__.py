"""Capture: exact attention weights of a running model, on any kernel, and heads switched off."""

from clearhead.attention.capture.attention_map import AttentionMap
from clearhead.attention.capture.look import AttentionCapture, ablate_heads, look

__all__ = ["AttentionCapture", "AttentionMap", "ablate_heads", "look"]
