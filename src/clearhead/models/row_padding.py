"""Row padding: rounds the number of tokens of a batch up, so that matrix shapes repeat.

On a CPU, oneDNN compiles a kernel for every new shape of a product, which takes several times as long as the product
itself. Ragged batches have a new number of tokens each time; rounded up, nearly every shape has occurred before. Images
of a model's own size need none: they all have the same number of tokens. The padding rows are sequences of zeros of
their own, which attend to no other sequence; they are cut off at the end, and what `look` captures has none.
"""

from dataclasses import replace

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from clearhead.attention import Causal, Full, Layout, Window
from clearhead.attention.tuning import TUNING
from clearhead.layers import BlockContext
from clearhead.vision import Patches

PADDING_LENGTH = 16  # rows of one padding sequence
SHORT_TEXT = 128  # tokens; one text of up to so many is not padded in float32


def pad_tokens(stack: nn.Module, x: Tensor, context: BlockContext) -> tuple[Tensor, BlockContext]:
    """Returns the tokens (N, D) and memory (M, D) followed by padding rows, where that is faster."""
    if torch.compiler.is_compiling() or _has_repeating_shapes(stack, context) or not _is_worthwhile(x, context):
        return x, context
    memory, layout_k = context.memory, context.memory_layout
    more_q, more_k = missing_rows(len(x)), 0 if memory is None else missing_rows(len(memory))
    if not (more_q or more_k) or not _hooks_accept_padding(stack):
        return x, context
    count = -(-max(more_q, more_k) // PADDING_LENGTH)
    context = replace(context, layout=_extend_layout(context.layout, more_q, count))
    if memory is not None and layout_k is not None:
        context = replace(context, memory=pad_rows(memory), memory_layout=_extend_layout(layout_k, more_k, count))
    return pad_rows(x), context


def pad_rows(x: Tensor, rows: int | None = None) -> Tensor:
    """Pads x (R, D) with zero rows to `rows`, by default to the next round number."""
    missing = missing_rows(len(x)) if rows is None else rows - len(x)
    return F.pad(x, (0, 0, 0, missing)) if missing else x


def missing_rows(tokens: int) -> int:
    """Returns the number of padding rows up to the next round number."""
    multiple = 2 ** (tokens // TUNING.row_padding_fraction).bit_length() // 2
    return -tokens % min(TUNING.row_multiple_max, max(TUNING.row_multiple_min, multiple))


def _hooks_accept_padding(stack: nn.Module) -> bool:
    """Returns whether every hook of the stack and its submodules is marked by `accepts_padding`."""
    registered = (hooks for m in stack.modules() for hooks in (m._forward_hooks, m._forward_pre_hooks))
    return all(getattr(hook, "accepts_padding", False) for hooks in registered for hook in hooks.values())


def _has_repeating_shapes(stack: nn.Module, context: BlockContext) -> bool:
    """Returns whether the tokens are those of images of one size."""
    return isinstance(getattr(stack, "embedding", None), Patches) and context.layout.length is not None


def _is_worthwhile(x: Tensor, context: BlockContext) -> bool:
    """Returns whether oneDNN computes the products and the mask applies to any number of sequences."""
    if x.device.type != "cpu" or context.cache is not None or not len(x):
        return False
    bfloat16 = torch.is_autocast_enabled("cpu") or x.dtype == torch.bfloat16
    onednn = bfloat16 or not torch.is_grad_enabled()
    alone = context.layout.num_sequences == 1 and len(x) <= SHORT_TEXT and context.memory is None
    if alone and not bfloat16:  # the padding sequence costs more than the few new shapes: docs/decisions.md
        return False
    return onednn and context.memory_cache is None and isinstance(context.mask, (Full, Causal, Window))


def _extend_layout(layout: Layout, tokens: int, sequences: int) -> Layout:
    """Returns the layout with `sequences` more sequences, which share `tokens`; the first ones are full."""
    return layout.with_padding([min(PADDING_LENGTH, max(0, tokens - PADDING_LENGTH * i)) for i in range(sequences)])
