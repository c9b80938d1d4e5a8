"""The flex kernel: torch's FlexAttention over the whole token matrix. Any mask; on a CPU forward only."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

import torch
from torch import Tensor
from torch.nn.attention import flex_attention as flex
from torch.nn.attention.flex_attention import BlockMask, create_block_mask, flex_attention

from clearhead.attention.call import Call
from clearhead.attention.weights import rows as rows  # exact softmax: these are the weights it used


def refuse(call: Call, dropout: float) -> str | None:
    """Dot products without dropout; no backward on a CPU."""
    if call.scale is None:
        return "FlexAttention takes dot-product scores only"
    if dropout > 0:
        return "FlexAttention has no dropout"
    if call.q.device.type == "cpu" and call.needs_grad:
        return "FlexAttention has no backward on a CPU"
    if call.q.device.type == "cpu" and torch.compiler.is_compiling():
        return "compiled FlexAttention fails on a CPU for some lengths"
    if call.q.shape[2] != call.v.shape[2]:
        return "FlexAttention wants values as wide as keys"
    return None


def run(call: Call, dropout: float) -> Tensor:
    """Attend over all tokens as one sequence, where pairs of different sequences are masked out: (N, H, V)."""
    if not call.q.shape[0] or not call.k.shape[0]:
        return call.nothing(call.q.shape[0])
    a, b = call.layout_q, call.layout_k
    bias = call.bias

    def mask_mod(_b: Tensor, _h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        same = a.sequence_ids[i] == b.sequence_ids[j]
        return same & call.mask.allows(a.sequence_ids[i], a.positions[i], b.positions[j])

    def score_mod(score: Tensor, _b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        assert bias is not None
        where = (a.sequence_ids[i], a.positions[i], b.positions[j])
        tile = bias(*(x.view(1, 1, 1) for x in where))  # (1, H, 1, 1)
        return score + tile.reshape(-1).index_select(0, h.view(1)).view(()).to(score.dtype)

    block_mask: BlockMask = create_block_mask(mask_mod, None, None, a.num_tokens, b.num_tokens, device=call.q.device)  # type: ignore[arg-type]
    q, k, v = (x.transpose(0, 1).unsqueeze(0) for x in (call.q, call.k, call.v))  # (1, H, N, K)
    if q.device.type == "cpu":  # it refuses tensors that ask for gradients even where none are taken
        q, k, v = q.detach(), k.detach(), v.detach()
    with _as_written(q.device.type == "cpu"):
        out = flex_attention(
            q, k, v,
            score_mod=score_mod if bias is not None else None,  # type: ignore[arg-type]
            block_mask=block_mask, scale=call.scale, enable_gqa=call.repeats > 1,
        )  # fmt: skip
    assert isinstance(out, Tensor)
    return out[0].transpose(0, 1)


@contextmanager
def _as_written(wanted: bool) -> Generator[None]:
    """Run FlexAttention's own Python instead of tracing it: a trace is kept per kind of mask, and fails on the next."""
    before = flex._FLEX_ATTENTION_DISABLE_COMPILE_DEBUG
    flex._FLEX_ATTENTION_DISABLE_COMPILE_DEBUG = wanted or before
    try:
        yield
    finally:
        flex._FLEX_ATTENTION_DISABLE_COMPILE_DEBUG = before
