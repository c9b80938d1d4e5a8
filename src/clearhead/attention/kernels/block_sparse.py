"""The block_sparse kernel: dense products over the blocks of keys that a mask touches.

Queries are cut into blocks, and each block reads the blocks of keys in which its mask allows anything, side by side.
Only blocks that the mask does not fully allow are masked. Time and memory grow with the number of touched blocks: for
windows, global tokens and random blocks they are linear in the length.
"""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

from clearhead.attention import dropout_mask
from clearhead.attention.inputs import AttentionInputs
from clearhead.attention.kernels.block_plan import BlockCall, BlockTile, HeadPlan
from clearhead.attention.layout import each_head
from clearhead.attention.masks import Causal, Full
from clearhead.attention.tuning import TUNING
from clearhead.attention.weights import rows as rows  # exact softmax: these are the weights it used

_softmax_backward = torch.ops.aten._softmax_backward_data.default


def unsupported_reason(inputs: AttentionInputs, dropout: float) -> str | None:
    """Dot-product scores with any mask, without a bias; forward and backward on a CPU."""
    if torch.compiler.is_compiling():
        return "the block_sparse kernel does not trace"
    if inputs.scale is None or inputs.bias is not None:
        return "it supports dot-product scores without a bias"
    if inputs.q.device.type != "cpu":
        return "it runs on a CPU"
    return None


def is_preferred(inputs: AttentionInputs, dropout: float) -> bool:
    """True for long sequences of which the mask touches little, and for masks whose heads differ."""
    if inputs.mask.per_head:
        return True
    if inputs.layout_q.max_len < TUNING.sparse_from or isinstance(inputs.mask, (Full, Causal)):
        return False
    return BlockCall(inputs.layout_q, inputs.layout_k, inputs.mask).share * TUNING.sparse_fraction <= 1


def run(inputs: AttentionInputs, dropout: float) -> Tensor:
    assert inputs.scale is not None
    seed = int(torch.randint(2**62, ())) if dropout > 0 else 0
    call = BlockCall(inputs.layout_q, inputs.layout_k, inputs.mask, inputs.scale, dropout, seed)
    if inputs.needs_grad:
        return _BlockSparse.apply(inputs.q, inputs.k, inputs.v, call)
    return forward(inputs.q, inputs.k, inputs.v, call)


def _blocks(x: Tensor, rows: slice, head: int) -> Tensor:
    """One head of a sequence, (blocks size, width), contiguous; zeros fill the last block."""
    part = x[rows, head]
    missing = -len(part) % TUNING.sparse_block
    return F.pad(part, (0, 0, 0, missing)) if missing else part.contiguous()


def forward(q: Tensor, k: Tensor, v: Tensor, call: BlockCall) -> Tensor:
    """The output, (N, H, V)."""
    out = q.new_zeros(len(q), q.shape[1], v.shape[2])
    for sequence, head, rows_q, rows_k in each_head(call.layout_q, call.layout_k, q.shape[1]):
        group = head // (q.shape[1] // k.shape[1])
        hq, hk, hv = q[rows_q, head], _blocks(k, rows_k, group), _blocks(v, rows_k, group)
        hout, plan = out[rows_q, head], call.plan(sequence, head)
        for number, tile in enumerate(plan.tiles):
            weights, empty = _weights(tile.queries(hq), tile.gather(hk), tile, plan, call.scale)
            scale_up = 1.0
            if call.dropout > 0:
                weights = weights.mul_(call.kept(weights, sequence, head, number))
                scale_up = dropout_mask.keep_scale(call.dropout)
            part = _product(weights, tile.gather(hv), scale_up)
            tile.queries(hout).copy_(part if empty is None else part.masked_fill_(empty, 0.0))
    return out


def backward(grad: Tensor, q: Tensor, k: Tensor, v: Tensor, call: BlockCall) -> tuple[Tensor, Tensor, Tensor]:
    """The gradients of queries, keys and values; the weights are computed again."""
    dq, dk, dv = torch.zeros_like(q), torch.zeros_like(k), torch.zeros_like(v)
    for sequence, head, rows_q, rows_k in each_head(call.layout_q, call.layout_k, q.shape[1]):
        group = head // (q.shape[1] // k.shape[1])
        hgrad, hq, hdq = (x[rows_q, head] for x in (grad, q, dq))
        hk, hv = _blocks(k, rows_k, group), _blocks(v, rows_k, group)
        hdk, hdv, plan = torch.zeros_like(hk), torch.zeros_like(hv), call.plan(sequence, head)
        for number, tile in enumerate(plan.tiles):
            queries, keys, values = tile.queries(hq), tile.gather(hk), tile.gather(hv)
            weights, empty = _weights(queries, keys, tile, plan, call.scale)
            up = tile.queries(hgrad) if empty is None else tile.queries(hgrad).masked_fill(empty, 0.0)
            used, scale_up = weights, 1.0
            if call.dropout > 0:
                kept, scale_up = call.kept(weights, sequence, head, number), dropout_mask.keep_scale(call.dropout)
                used = weights * kept
                dweights = _product(up, values.transpose(1, 2), scale_up).mul_(kept)
            else:
                dweights = torch.bmm(up, values.transpose(1, 2))
            dscores = _softmax_backward(dweights, weights, -1, weights.dtype)
            tile.queries(hdq).copy_(_product(dscores, keys, call.scale))
            tile.add(hdk, _product(dscores.transpose(1, 2), queries, call.scale))
            tile.add(hdv, _product(used.transpose(1, 2), up, scale_up))
        length = rows_k.stop - rows_k.start
        dk[rows_k, group] += hdk[:length]
        dv[rows_k, group] += hdv[:length]
    return dq, dk, dv


def _weights(
    queries: Tensor, keys: Tensor, tile: BlockTile, plan: HeadPlan, scale: float
) -> tuple[Tensor, Tensor | None]:
    """The weights of a tile, (m, t, n size), and its rows without a key."""
    scores = _product(queries, keys.transpose(1, 2), scale)
    empty = plan.hide(scores, tile)
    return torch.softmax(scores if empty is None else scores.masked_fill_(empty, 0.0), dim=-1), empty


def _product(a: Tensor, b: Tensor, scale: float) -> Tensor:
    return torch.baddbmm(a.new_empty(1, 1, 1), a, b, beta=0, alpha=scale)


class _BlockSparse(torch.autograd.Function):
    """Forward and backward; only the inputs are kept between them."""

    @staticmethod
    def forward(ctx: Any, q: Tensor, k: Tensor, v: Tensor, call: BlockCall) -> Tensor:
        ctx.save_for_backward(q, k, v)
        ctx.call = call
        return forward(q, k, v, call)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:  # type: ignore[override]
        q, k, v = ctx.saved_tensors
        return *backward(grad, q, k, v, ctx.call), None
