"""The block_sparse kernel: torch's fused attention over the blocks of keys that a mask touches.

Queries are cut into blocks, and each block reads the blocks of keys in which its mask allows anything, side by side.
Many blocks are one call of the fused attention, as if they were a batch. Time and memory grow with the number of
touched blocks: for windows, global tokens and random blocks they are linear in the length.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

from clearhead.attention import dropout_mask
from clearhead.attention.device_info import DeviceInfo
from clearhead.attention.inputs import AttentionInputs
from clearhead.attention.kernels.block_plan import BlockCall, BlockTile, HeadPlan
from clearhead.attention.layout import each_head
from clearhead.attention.tuning import TUNING
from clearhead.attention.weights import rows as rows  # exact softmax: these are the weights it used


def unsupported_reason(inputs: AttentionInputs, dropout: float, device: DeviceInfo) -> str | None:
    """Dot-product scores with any mask, without a bias; forward and backward on a CPU."""
    if torch.compiler.is_compiling():
        return "the block_sparse kernel does not trace"
    if inputs.scale is None or inputs.bias is not None:
        return "it supports dot-product scores without a bias"
    if device.type != "cpu":
        return "it runs on a CPU"
    return None


def run(inputs: AttentionInputs, dropout: float) -> Tensor:
    assert inputs.scale is not None
    seed = int(torch.randint(2**62, ())) if dropout > 0 else 0
    call = BlockCall(inputs.layout_q, inputs.layout_k, inputs.mask, inputs.scale, dropout, seed)
    if inputs.needs_grad:
        return _BlockSparse.apply(inputs.q, inputs.k, inputs.v, call)
    return forward(inputs.q, inputs.k, inputs.v, call)


def forward(q: Tensor, k: Tensor, v: Tensor, call: BlockCall) -> Tensor:
    """The output, (N, H, V)."""
    out = q.new_zeros(len(q), q.shape[1], v.shape[2])
    for part in _parts(q, k, call):
        hq, hout = (x[part.rows_q, part.columns] for x in (q, out))
        hk, hv = part.blocks(k), part.blocks(v)
        for number, tile in enumerate(part.plan.tiles):
            tile.queries(hout).copy_(_attend(part, number, tile, tile.queries(hq), tile.gather(hk), tile.gather(hv)))
    return out


def backward(grad: Tensor, q: Tensor, k: Tensor, v: Tensor, call: BlockCall) -> tuple[Tensor, Tensor, Tensor]:
    """The gradients of queries, keys and values; each tile is computed again."""
    dq, dk, dv = torch.zeros_like(q), torch.zeros_like(k), torch.zeros_like(v)
    for part in _parts(q, k, call):
        hq, hdq, hgrad = (x[part.rows_q, part.columns] for x in (q, dq, grad))
        hk, hv = part.blocks(k), part.blocks(v)
        hdk, hdv = torch.zeros_like(hk), torch.zeros_like(hv)
        for number, tile in enumerate(part.plan.tiles):
            leaves = [x.detach().requires_grad_() for x in (tile.queries(hq), tile.gather(hk), tile.gather(hv))]
            with torch.enable_grad():
                out = _attend(part, number, tile, *leaves)
            grads = torch.autograd.grad(out, leaves, tile.queries(hgrad))
            tile.queries(hdq).copy_(grads[0])
            tile.add(hdk, grads[1])
            tile.add(hdv, grads[2])
        part.add(dk, hdk)
        part.add(dv, hdv)
    return dq, dk, dv


@dataclass(frozen=True, eq=False)
class _Part:
    """Heads of one sequence that share a plan."""

    call: BlockCall
    plan: HeadPlan
    sequence: int
    heads: range
    repeats: int
    rows_q: slice
    rows_k: slice

    @property
    def columns(self) -> slice:
        return slice(self.heads.start, self.heads.stop)

    @property
    def groups(self) -> slice:
        """The key heads that these heads read."""
        return slice(self.heads.start // self.repeats, (self.heads.stop - 1) // self.repeats + 1)

    def blocks(self, x: Tensor) -> Tensor:
        """Keys or values for each head, (blocks size, h, width); zeros fill the last block."""
        part = x[self.rows_k, self.groups]
        if self.repeats > 1 and len(self.heads) > 1:
            part = part.repeat_interleave(self.repeats, 1)
        missing = -len(part) % TUNING.sparse_block
        return F.pad(part, (0, 0, 0, 0, 0, missing)) if missing else part

    def add(self, total: Tensor, part: Tensor) -> None:
        """Add gradients of blocks (blocks size, h, width) to those of all keys or values."""
        part = part[: self.rows_k.stop - self.rows_k.start]
        if self.repeats > 1 and len(self.heads) > 1:
            part = part.unflatten(1, (-1, self.repeats)).sum(2)
        total[self.rows_k, self.groups] += part


def _parts(q: Tensor, k: Tensor, call: BlockCall) -> Iterator[_Part]:
    """All heads of a sequence at once, unless their masks differ and it is long: then they read different blocks."""
    num_heads = q.shape[1]
    for sequence, head, rows_q, rows_k in each_head(call.layout_q, call.layout_k, num_heads):
        pairs = (rows_q.stop - rows_q.start) * (rows_k.stop - rows_k.start)
        step = 1 if call.mask.per_head and pairs > TUNING.sparse_tile_scores else num_heads
        if head % step == 0:
            heads, repeats = range(head, head + step), num_heads // k.shape[1]
            yield _Part(call, call.plan(sequence, heads), sequence, heads, repeats, rows_q, rows_k)


def _attend(part: _Part, number: int, tile: BlockTile, queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
    """The output of a tile, (m, h, t, V)."""
    call, empty = part.call, tile.empty
    allowed = tile.allowed if tile.allowed is None or empty is None else tile.allowed | empty
    if call.dropout > 0:
        scores = queries @ keys.transpose(2, 3) * call.scale
        scores = scores if allowed is None else scores.masked_fill(~allowed, float("-inf"))
        weights = torch.softmax(scores, dim=-1)
        out = (weights * call.kept(weights, part.sequence, part.heads, number)) @ values
        out = out * dropout_mask.keep_scale(call.dropout)
    else:
        out = F.scaled_dot_product_attention(queries, keys, values, attn_mask=allowed, scale=call.scale)
    return out if empty is None else out.masked_fill(empty, 0.0)


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
