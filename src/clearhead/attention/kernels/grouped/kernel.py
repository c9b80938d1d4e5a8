"""The grouped kernel: dense products over groups of sequences of similar length. The fastest exact kernel on a CPU.

Long sequences are computed in place, very short ones are gathered (`grouping.py` forms the groups, `tiling.py` cuts
them into tiles, `compute.py` computes); padding stays inside. The backward pass is written by hand, so that the kernel
is one opaque operator under `torch.compile`.
"""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from clearhead.attention import masks
from clearhead.attention.biases import RelativeBias
from clearhead.attention.device_info import DeviceInfo
from clearhead.attention.inputs import AttentionInputs
from clearhead.attention.kernels.grouped.compute import GroupedCall, backward, forward
from clearhead.attention.layout import Layout
from clearhead.attention.weights import rows as rows  # exact softmax: these are the weights it used


def unsupported_reason(inputs: AttentionInputs, dropout: float, device: DeviceInfo) -> str | None:
    """Dot-product scores with any mask, without a bias or with a relative one; forward, backward and compiled."""
    if inputs.scale is None:
        return "it supports dot-product scores only"
    if inputs.bias is not None and not isinstance(inputs.bias, RelativeBias):
        return f"it supports `RelativeBias` only, not {type(inputs.bias).__name__}"
    return None


def run(inputs: AttentionInputs, dropout: float) -> Tensor:
    scale, bias = inputs.scale, inputs.bias
    assert scale is not None and (bias is None or isinstance(bias, RelativeBias))
    table, slopes = (None, None) if bias is None else (bias.table, bias.slopes)
    seed = torch.randint(2**62, ()) if dropout > 0 else torch.zeros((), dtype=torch.int64)
    if torch.compiler.is_compiling():
        mask_code, data = masks.serialize(inputs.mask)
        a, b = inputs.layout_q, inputs.layout_k
        layouts = (a.offsets, a.starts, b.offsets, b.starts)
        return _operator(inputs.q, inputs.k, inputs.v, table, slopes, *layouts, mask_code, data, scale, dropout, seed)[
            0
        ]
    call = GroupedCall(inputs.layout_q, inputs.layout_k, inputs.mask, scale, dropout, int(seed))
    if inputs.needs_grad:
        return _GroupedAttention.apply(inputs.q, inputs.k, inputs.v, table, slopes, call)
    return forward(inputs.q, inputs.k, inputs.v, table, slopes, call)[0]


class _GroupedAttention(torch.autograd.Function):
    """Forward and backward for eager mode."""

    @staticmethod
    def forward(
        ctx: Any, q: Tensor, k: Tensor, v: Tensor, table: Tensor | None, slopes: Tensor | None, call: GroupedCall
    ) -> Tensor:
        out, logsumexp = forward(q, k, v, table, slopes, call, keep=True)
        ctx.save_for_backward(q, k, v, table, slopes, out, logsumexp)
        ctx.call = call
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:  # type: ignore[override]
        q, k, v, table, slopes, out, logsumexp = ctx.saved_tensors
        return *backward(grad, q, k, v, table, slopes, out, logsumexp, ctx.call), None


# The same two functions as custom operators, for compiled graphs: tensors and plain values in, tensors out.


def _call(
    offsets_q: Tensor, starts_q: Tensor, offsets_k: Tensor, starts_k: Tensor,
    mask_code: str, data: list[Tensor], scale: float, dropout: float, seed: Tensor,
) -> GroupedCall:  # fmt: skip
    layout_q = Layout.from_lengths(offsets_q.diff(), starts_q).to(offsets_q.device)
    layout_k = Layout.from_lengths(offsets_k.diff(), starts_k).to(offsets_k.device)
    return GroupedCall(layout_q, layout_k, masks.deserialize(mask_code, data), scale, dropout, int(seed))


@torch.library.custom_op("clearhead::grouped_attention", mutates_args=())
def _operator(
    q: Tensor, k: Tensor, v: Tensor, table: Tensor | None, slopes: Tensor | None,
    offsets_q: Tensor, starts_q: Tensor, offsets_k: Tensor, starts_k: Tensor,
    mask_code: str, data: list[Tensor], scale: float, dropout: float, seed: Tensor,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    call = _call(offsets_q, starts_q, offsets_k, starts_k, mask_code, data, scale, dropout, seed)
    out, logsumexp = forward(q, k, v, table, slopes, call, keep=True)
    return out, logsumexp


@torch.library.custom_op("clearhead::grouped_attention_backward", mutates_args=())
def _operator_backward(
    grad: Tensor, q: Tensor, k: Tensor, v: Tensor, table: Tensor | None, slopes: Tensor | None,
    out: Tensor, logsumexp: Tensor,
    offsets_q: Tensor, starts_q: Tensor, offsets_k: Tensor, starts_k: Tensor,
    mask_code: str, data: list[Tensor], scale: float, dropout: float, seed: Tensor,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
    call = _call(offsets_q, starts_q, offsets_k, starts_k, mask_code, data, scale, dropout, seed)
    dq, dk, dv, dtable, dslopes = backward(grad, q, k, v, table, slopes, out, logsumexp, call)
    empty = q.new_zeros(0)
    return dq, dk, dv, empty if dtable is None else dtable, empty.clone() if dslopes is None else dslopes


@_operator.register_fake
def _(q: Tensor, k: Tensor, v: Tensor, *rest: Any) -> tuple[Tensor, Tensor]:
    logsumexp = torch.promote_types(q.dtype, torch.float32)
    return q.new_empty(q.shape[0], q.shape[1], v.shape[2]), q.new_empty(q.shape[0], q.shape[1], dtype=logsumexp)


@_operator_backward.register_fake
def _(
    grad: Tensor, q: Tensor, k: Tensor, v: Tensor, table: Tensor | None, slopes: Tensor | None, *rest: Any
) -> tuple[Tensor, ...]:
    empty = q.new_empty(0)
    like_table = empty if table is None else torch.empty_like(table)
    like_slopes = empty.clone() if slopes is None else torch.empty_like(slopes)
    return *(x.new_empty(x.shape) for x in (q, k, v)), like_table, like_slopes


def _setup(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    q, k, v, table, slopes, *layouts = inputs[:9]
    ctx.mask_code, data, ctx.scale, ctx.dropout, seed = inputs[9:]
    ctx.save_for_backward(q, k, v, table, slopes, *output, *layouts, seed, *data)


def _gradients(ctx: Any, grad: Tensor, _: Tensor) -> tuple[Any, ...]:
    q, k, v, table, slopes, out, logsumexp, *rest = ctx.saved_tensors
    layouts, seed, data = rest[:4], rest[4], list(rest[5:])
    dq, dk, dv, dtable, dslopes = _operator_backward(
        grad, q, k, v, table, slopes, out, logsumexp, *layouts, ctx.mask_code, data, ctx.scale, ctx.dropout, seed
    )
    bias_gradients = (None, None) if table is None else (dtable, dslopes)
    return dq, dk, dv, *bias_gradients, None, None, None, None, None, [None] * len(data), None, None, None


_operator.register_autograd(_gradients, setup_context=_setup)
