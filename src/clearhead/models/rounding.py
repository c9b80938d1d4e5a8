"""Rounding: rows that belong to nobody, so that the shapes of products come again.

On a CPU oneDNN writes machine code for every new shape of a product, which takes several times as long as the product
itself. Ragged batches have a new number of tokens each time; filled up to a round one, nearly every shape is an old
one. The rows added are sequences of their own, of zeros, that see and are seen by nobody else; they are cut off at the
end.
"""

from __future__ import annotations

from dataclasses import replace

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from clearhead.attention import Causal, Full, Layout, Window
from clearhead.layers import Around

SHARE = 16  # at most a sixteenth is added
LEAST, MOST = 16, 256  # what a number of tokens is a multiple of
TOGETHER = 16  # rows of nobody that are one sequence


def rounded(stack: nn.Module, x: Tensor, around: Around) -> tuple[Tensor, Around]:
    """The same tokens (N, D) and memory (M, D) with rows of nobody behind them, where that pays."""
    if torch.compiler.is_compiling() or not _pays(x, around):
        return x, around
    memory, layout_k = around.memory, around.memory_layout
    more_q, more_k = missing_rows(len(x)), 0 if memory is None else missing_rows(len(memory))
    if not (more_q or more_k) or _is_watched(stack):
        return x, around
    count = -(-max(more_q, more_k) // TOGETHER)
    around = replace(around, layout=_longer(around.layout, more_q, count))
    if memory is not None and layout_k is not None:
        around = replace(around, memory=widened(memory), memory_layout=_longer(layout_k, more_k, count))
    return widened(x), around


def widened(x: Tensor, rows: int | None = None) -> Tensor:
    """Rows of zeros behind x (R, D), up to so many in all, or else to a round number."""
    missing = missing_rows(len(x)) if rows is None else rows - len(x)
    return F.pad(x, (0, 0, 0, missing)) if missing else x


def missing_rows(tokens: int) -> int:
    """How many tokens there are to the next round number."""
    unit = min(MOST, max(LEAST, 2 ** (tokens // SHARE).bit_length() // 2))
    return -tokens % unit


def _pays(x: Tensor, around: Around) -> bool:
    """Are the products oneDNN's, and do the masks hold for any number of sequences?"""
    if x.device.type != "cpu" or around.cache is not None or not len(x):
        return False
    onednn = not torch.is_grad_enabled() or torch.is_autocast_enabled("cpu") or x.dtype == torch.bfloat16
    return onednn and around.memory_cache is None and isinstance(around.mask, (Full, Causal, Window))


def _is_watched(stack: nn.Module) -> bool:
    """Does somebody see or change what passes inside? Then it is what was given, and no row more."""
    return any(module._forward_hooks or module._forward_pre_hooks for module in stack.modules())


def _longer(layout: Layout, tokens: int, sequences: int) -> Layout:
    """The layout with so many sequences more, which share these tokens: the first ones are full."""
    sizes = (*layout.sizes, *(min(TOGETHER, max(0, tokens - TOGETHER * i)) for i in range(sequences)))
    return Layout.of(sizes, (*layout.firsts, *(0,) * sequences), layout.device)
