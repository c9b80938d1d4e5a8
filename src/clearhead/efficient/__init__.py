"""Efficient attention: sparse, hashed, low-rank and linear methods, exchangeable in one model."""

from clearhead.attention.method import AttentionMethod, SparseMethod
from clearhead.efficient.gated_linear import GatedLinear
from clearhead.efficient.low_rank import Linformer, Nystrom
from clearhead.efficient.lsh import LSH
from clearhead.efficient.methods import METHODS, make_method
from clearhead.efficient.patterns import BigBird, Longformer, SinkWindow, Strided
from clearhead.efficient.performer import Performer
from clearhead.efficient.selected_blocks import SelectedBlocks
from clearhead.efficient.sorted_chunks import ReformerLocal, ReformerLSH

__all__ = [
    "LSH", "METHODS", "AttentionMethod", "BigBird", "GatedLinear", "Linformer", "Longformer", "Nystrom", "Performer",
    "ReformerLSH", "ReformerLocal", "SelectedBlocks", "SinkWindow", "SparseMethod", "Strided", "make_method",
]  # fmt: skip
