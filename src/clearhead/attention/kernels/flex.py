"""The flex kernel: torch's FlexAttention over the whole token matrix. Any mask; on a CPU forward only."""

from collections.abc import Generator
from contextlib import contextmanager

import torch
from torch import Tensor
from torch.nn.attention import flex_attention as flex
from torch.nn.attention.flex_attention import BlockMask, create_block_mask, flex_attention

from clearhead.attention.device_info import DeviceInfo
from clearhead.attention.inputs import AttentionInputs
from clearhead.attention.weights import rows as rows  # exact softmax: these are the weights it used


def unsupported_reason(inputs: AttentionInputs, dropout: float, device: DeviceInfo) -> str | None:
    if inputs.scale is None:
        return "FlexAttention supports dot-product scores only"
    if dropout > 0:
        return "FlexAttention has no dropout"
    if device.type == "cpu" and inputs.needs_grad:
        return "FlexAttention has no backward on a CPU"
    if device.type == "cpu" and torch.compiler.is_compiling():
        return "compiled FlexAttention fails on a CPU for some lengths"
    if inputs.q.shape[2] != inputs.v.shape[2]:
        return "FlexAttention needs values as wide as keys"
    return None


def run(inputs: AttentionInputs, dropout: float) -> Tensor:
    """Attend over all tokens as one sequence, where pairs of different sequences are masked out: (N, H, V)."""
    if not inputs.q.shape[0] or not inputs.k.shape[0]:
        return inputs.zeros_with_grad(inputs.q.shape[0])
    a, b = inputs.layout_q, inputs.layout_k
    bias = inputs.bias

    def mask_mod(_b: Tensor, _h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        same = a.sequence_ids[i] == b.sequence_ids[j]
        return same & inputs.mask.allows(a.sequence_ids[i], a.positions[i], b.positions[j])

    def score_mod(score: Tensor, _b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        assert bias is not None
        where = (a.sequence_ids[i], a.positions[i], b.positions[j])
        tile = bias(*(x.view(1, 1, 1) for x in where))  # (1, H, 1, 1)
        return score + tile.reshape(-1).index_select(0, h.view(1)).view(()).to(score.dtype)

    block_mask: BlockMask = create_block_mask(mask_mod, None, None, a.num_tokens, b.num_tokens, device=inputs.q.device)
    q, k, v = (x.transpose(0, 1).unsqueeze(0) for x in (inputs.q, inputs.k, inputs.v))  # (1, H, N, K)
    if q.device.type == "cpu":  # it refuses tensors that require gradients even under no_grad
        q, k, v = q.detach(), k.detach(), v.detach()
    with _uncompiled(q.device.type == "cpu"):
        out = flex_attention(
            q, k, v,
            score_mod=score_mod if bias is not None else None,
            block_mask=block_mask, scale=inputs.scale, enable_gqa=inputs.repeats > 1,
        )  # fmt: skip
    assert isinstance(out, Tensor)
    return out[0].transpose(0, 1)


@contextmanager
def _uncompiled(wanted: bool) -> Generator[None]:
    """Run FlexAttention without compiling it: its compiled graph is cached per mask type and fails on the next one."""
    before = flex._FLEX_ATTENTION_DISABLE_COMPILE_DEBUG
    flex._FLEX_ATTENTION_DISABLE_COMPILE_DEBUG = wanted or before
    try:
        yield
    finally:
        flex._FLEX_ATTENTION_DISABLE_COMPILE_DEBUG = before
