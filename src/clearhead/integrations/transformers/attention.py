"""The attention implementation "clearhead" of transformers models: ragged attention without padding.

    import clearhead.integrations.transformers.attention
    model = AutoModel.from_pretrained(folder, attn_implementation="clearhead")

A packed batch (1, N) names its sequences by `cu_seq_lens_q` and `cu_seq_lens_k`, as transformers'
`DataCollatorWithFlattening(return_flash_attn_kwargs=True)` makes them. A padded batch works too: padded tokens are left
out of the attention. To keep padding out of the other layers as well, see `accelerate`.
"""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS

from clearhead.attention import AttentionInputs, Causal, Full, Layout, Mask, ScaledDot, Window
from clearhead.attention.attend import dispatch
from clearhead.attention.scores import SoftCapped

NAME = "clearhead"
_LAYOUT = "_clearhead_layout"  # attribute of a tensor of offsets: the layout they describe, made once for all layers


def attention(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    dropout: float = 0.0,
    **options: Any,
) -> tuple[Tensor, None]:
    """Attend from queries (B, H, T, K) to keys (B, G, S, K): the output (B, T, H, V), and no weights (see `look`)."""
    if options.get("output_attentions"):
        raise ValueError('attn_implementation="clearhead" returns no weights: read them with `clearhead.look(model)`')
    inputs, rows_q = _packed(module, query, key, value, attention_mask, options)
    out = dispatch(inputs, dropout)
    B, T = query.shape[0], query.shape[2]
    if rows_q is None:
        return out.view(B, T, *out.shape[1:]), None
    return out.new_zeros(B * T, *out.shape[1:]).index_copy(0, rows_q, out).view(B, T, *out.shape[1:]), None


def attention_inputs(
    module: nn.Module, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, options: Mapping[str, Any]
) -> AttentionInputs:
    """Return a call of a transformers attention module as the inputs of a clearhead kernel, without padding."""
    return _packed(module, query, key, value, mask, options)[0]


def _packed(
    module: nn.Module, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, options: Mapping[str, Any]
) -> tuple[AttentionInputs, Tensor | None]:
    """Return the inputs, and which rows of the flattened queries they are; None: all."""
    refused = [name for name in ("position_bias", "s_aux", "cache") if options.get(name) is not None]
    if refused or (mask is not None and mask.dim() != 2):
        what = refused[0] if refused else f"a mask of shape {tuple(mask.shape) if mask is not None else ()}"
        raise ValueError(
            f'attn_implementation="clearhead" cannot compute {what} ({type(module).__name__}): '
            'use attn_implementation="sdpa" for this model'
        )
    rows_q, rows_k = _valid_rows(query, key, mask)
    q, k, v = (_rows(x, rows) for x, rows in ((query, rows_q), (key, rows_k), (value, rows_k)))
    layout_q, layout_k = _layouts(query, key, mask, options)
    causal = options.get("is_causal")
    causal = bool(getattr(module, "is_causal", False) if causal is None else causal)
    scale, cap = options.get("scaling"), options.get("softcap")
    score = ScaledDot(scale) if cap is None else SoftCapped(cap, scale)
    allowed = _mask(causal, options.get("sliding_window"))
    return AttentionInputs(q, k, v, layout_q, layout_k, allowed, score, None), rows_q


def set_layout(offsets: Tensor, layout: Layout) -> Tensor:
    """Return the offsets as `cu_seq_lens`, with their layout attached."""
    setattr(offsets, _LAYOUT, layout)
    return offsets


def _layouts(query: Tensor, key: Tensor, mask: Tensor | None, options: Mapping[str, Any]) -> tuple[Layout, Layout]:
    offsets_q, offsets_k = options.get("cu_seq_lens_q"), options.get("cu_seq_lens_k")
    if offsets_q is not None and offsets_k is not None:
        layout_q = _layout_of(offsets_q)
        return layout_q, layout_q if offsets_k is offsets_q else _layout_of(offsets_k)
    (B, _, T, _), S = query.shape, key.shape[2]
    if mask is None:
        positions = options.get("position_ids")
        if B == 1 and T == S and isinstance(positions, Tensor) and positions.numel() == T:
            starts = (positions.flatten() == 0).nonzero().flatten()  # packed documents restart at position 0
            if len(starts) > 1:
                ends = torch.cat([starts[1:], starts.new_tensor([T])])
                layout = Layout.from_lengths(ends - starts, device=query.device)
                return layout, layout
        layout_k = Layout.uniform(B, S, query.device)
        return (layout_k if T == S else Layout.from_lengths([T] * B, [S - T] * B, query.device)), layout_k
    lengths = mask.sum(1)
    layout_k = Layout.from_lengths(lengths, device=query.device)
    if T == S:
        return layout_k, layout_k
    return Layout.from_lengths([T] * B, (lengths - T).clamp(min=0), query.device), layout_k


def _layout_of(offsets: Tensor) -> Layout:
    layout = getattr(offsets, _LAYOUT, None)
    if layout is None:
        layout = Layout.from_lengths(offsets.diff(), device=offsets.device)
        set_layout(offsets, layout)
    return layout


def _valid_rows(query: Tensor, key: Tensor, mask: Tensor | None) -> tuple[Tensor | None, Tensor | None]:
    """Return which rows of the flattened queries and keys are tokens; None: all."""
    if mask is None:
        return None, None
    rows = mask.bool().flatten().nonzero().flatten()
    return (rows if query.shape[2] == key.shape[2] else None), rows


def _rows(x: Tensor, rows: Tensor | None) -> Tensor:
    """Return the token rows (N, H, K) of (B, H, T, K)."""
    flat = x.transpose(1, 2).flatten(0, 1)
    return flat if rows is None else flat[rows]


def _mask(causal: bool, window: int | None) -> Mask:
    if window is None:
        return Causal() if causal else Full()
    return Window(window - 1, 0 if causal else window - 1)  # transformers counts the token itself


AttentionInterface.register(NAME, attention)
AttentionMaskInterface.register(NAME, ALL_MASK_ATTENTION_FUNCTIONS["flash_attention_2"])  # the mask stays (B, S)
