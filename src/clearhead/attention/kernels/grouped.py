"""The grouped kernel: dense work over groups of like length. The fastest exact kernel on a CPU.

Sequences are computed where they lie, very short ones side by side (`plan.py` forms the groups, `pieces.py` cuts
them, `work.py` computes); what padding that takes stays inside. The backward pass is written out, so that the
whole is one opaque operator under `torch.compile`.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

from clearhead.attention import masks, squares
from clearhead.attention.biases import Relative, Written
from clearhead.attention.call import Call
from clearhead.attention.layout import Layout
from clearhead.attention.masks import Causal, Full
from clearhead.attention.pieces import Cutter
from clearhead.attention.weights import rows as rows  # exact softmax: these are the weights it used
from clearhead.attention.work import Work, backward, forward, fused_is_faster, keys_of, queries_of, repeat, turn


def refuse(call: Call, dropout: float) -> str | None:
    """Any mask, score and bias, forward and backward; a compiled graph takes dot products and relative biases."""
    if torch.compiler.is_compiling():
        if call.scale is None:
            return "a score that is not a dot product cannot enter a compiled graph"
        if call.bias is not None and not isinstance(call.bias, Relative):
            return f"a bias of type {type(call.bias).__name__} cannot enter a compiled graph: use `Relative`"
    return None


def run(call: Call, dropout: float) -> Tensor:
    """Attend: (N, H, V)."""
    scale, bias = call.scale, call.bias
    if _is_rectangle(call, dropout):
        return _rectangle(call)
    if squares.fits(call, dropout):
        return squares.run(call, dropout)
    if scale is None or not (bias is None or isinstance(bias, Relative)):
        return _any_score(call, dropout)
    table, slopes = (None, None) if bias is None else (bias.table, bias.slopes)
    seed = torch.randint(2**62, ()) if dropout > 0 else torch.zeros((), dtype=torch.int64)
    if torch.compiler.is_compiling():
        words, data = masks.encode(call.mask)
        a, b = call.layout_q, call.layout_k
        layouts = (a.offsets, a.starts, b.offsets, b.starts)
        return _operator(call.q, call.k, call.v, table, slopes, *layouts, words, data, scale, dropout, seed)[0]
    work = Work(call.layout_q, call.layout_k, call.mask, scale, dropout, int(seed))
    if call.needs_grad:
        return _Attention.apply(call.q, call.k, call.v, table, slopes, work)  # type: ignore[no-any-return]
    return forward(call.q, call.k, call.v, table, slopes, work)[0]


def _is_rectangle(call: Call, dropout: float) -> bool:
    """Is the whole batch one piece that torch's fused kernel does best, in both directions?"""
    q, T, S = call.q, call.layout_q.length, call.layout_k.length
    if torch.compiler.is_compiling() or not T or not S or dropout > 0 or call.scale is None:
        return False
    if isinstance(call.bias, Written):
        return isinstance(call.mask, Full) and not call.needs_grad and _is_written_for(call.bias, call)
    if call.bias is not None:
        return False
    if call.repeats > 1 or call.v.shape[2] != q.shape[2] or q.device.type != "cpu":
        return False
    masked = isinstance(call.mask, Causal) and T == S and call.layout_q is call.layout_k
    size = call.layout_q.num_sequences, T, S
    best = fused_is_faster(q.dtype, *size, backward=False)
    best = best and (not call.needs_grad or fused_is_faster(q.dtype, *size, backward=True))
    return best and (masked or isinstance(call.mask, Full))


def _is_written_for(bias: Written, call: Call) -> bool:
    """Are the rows and columns of a written bias the queries and keys of this rectangle, one by one?"""
    counted = bias.first == 0 and not any(call.layout_q.firsts) and not any(call.layout_k.firsts)
    due = call.layout_q.num_sequences, call.num_heads, call.layout_q.length, call.layout_k.length
    return counted and all(size in (1, wanted) for size, wanted in zip(bias.table.shape, due, strict=True))


def _rectangle(call: Call) -> Tensor:
    """Equal lengths are an easy layout: one call on views of the token matrices."""
    count, causal = call.layout_q.num_sequences, isinstance(call.mask, Causal)
    q, k, v = (x.view(count, -1, *x.shape[1:]).transpose(1, 2) for x in (call.q, call.k, call.v))  # (B, H, T, K)
    added = call.bias.table.to(q.dtype) if isinstance(call.bias, Written) else None
    shared = call.repeats > 1
    out = F.scaled_dot_product_attention(
        q, k, v, attn_mask=added, is_causal=causal, scale=call.scale, enable_gqa=shared
    )
    return out.transpose(1, 2).flatten(0, 1)


def _any_score(call: Call, dropout: float) -> Tensor:
    """Scores that are not dot products, and biases of any kind: the same groups, differentiated by autograd."""
    work = Work(call.layout_q, call.layout_k, call.mask, 1.0, dropout, 0)
    plan, heads, bias = work.plan, call.num_heads, call.bias
    cutter = Cutter(call.layout_q, call.layout_k, call.mask, heads, call.q.dtype, lambda count, T, S: True)
    q, k, v = call.q, repeat(call.k, heads), repeat(call.v, heads)
    lying = pooled = [q, k, v]
    if plan.queries is not None and plan.keys is not None:
        pooled = [q.index_select(0, plan.queries.gather), *(x.index_select(0, plan.keys.gather) for x in (k, v))]
    turned = [turn(x) for x in lying], [turn(x) for x in pooled]
    parts, tokens = [call.nothing(0)], [torch.zeros(0, dtype=torch.int64, device=q.device)]
    pool: list[Tensor] = []
    for group in plan.groups:
        all_q, all_k, all_v = turned[0 if group.lying else 1]
        gq, gk, gv = queries_of(all_q, group), keys_of(all_k, group, group.S), keys_of(all_v, group, group.S)
        strips = []
        for piece in cutter.cut(group):
            scores = call.score.pair(piece.queries(gq), piece.keys(gk), piece.h)  # (b, h, t, s)
            rectangle = group, piece.b, piece.t, piece.s
            if bias is not None:
                scores = scores + bias(*cutter.positions(*rectangle)).to(scores.dtype)
            hidden = piece.hidden
            if piece.causal:  # the fused kernel would know by a flag
                hidden = ~call.mask.allows(*cutter.positions(*rectangle, within=False)).unsqueeze(1)
            if hidden is not None:
                scores = scores.masked_fill(hidden, float("-inf"))
            weights = F.dropout(torch.softmax(scores, dim=-1), dropout, training=dropout > 0)
            out = weights @ piece.keys(gv)
            strips.append(out if piece.dead is None else out.masked_fill(piece.dead, 0.0))
        merged = torch.cat(strips, dim=2).transpose(1, 2).flatten(0, 1)  # (count T, H, V)
        if group.lying:
            parts.append(merged)
            tokens.append(torch.arange(group.row_q, group.row_q + len(merged), device=q.device))
        else:
            pool.append(merged)
    if plan.queries is not None:
        parts.append(torch.cat(pool).index_select(0, plan.queries.rows))
        tokens.append(plan.queries.tokens)
    order = torch.full((len(q),), sum(map(len, tokens)), device=q.device)
    order[torch.cat(tokens)] = torch.arange(int(order[:1].sum()) if len(q) else 0, device=q.device)
    return torch.cat([*parts, call.nothing(1)]).index_select(0, order)  # the last row is for tokens of no group


class _Attention(torch.autograd.Function):
    """Forward and backward for eager mode."""

    @staticmethod
    def forward(
        ctx: Any, q: Tensor, k: Tensor, v: Tensor, table: Tensor | None, slopes: Tensor | None, work: Work
    ) -> Tensor:
        out, sums = forward(q, k, v, table, slopes, work, keep=True)
        ctx.save_for_backward(q, k, v, table, slopes, out, sums)
        ctx.work = work
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:  # type: ignore[override]
        q, k, v, table, slopes, out, sums = ctx.saved_tensors
        return *backward(grad, q, k, v, table, slopes, out, sums, ctx.work), None


# The same two functions as one operator, for compiled graphs: tensors and plain values in, tensors out.


def _work(
    offsets_q: Tensor, starts_q: Tensor, offsets_k: Tensor, starts_k: Tensor,
    words: str, data: list[Tensor], scale: float, dropout: float, seed: Tensor,
) -> Work:  # fmt: skip
    layout_q = Layout.of(offsets_q.diff(), starts_q).to(offsets_q.device)
    layout_k = Layout.of(offsets_k.diff(), starts_k).to(offsets_k.device)
    return Work(layout_q, layout_k, masks.decode(words, data), scale, dropout, int(seed))


@torch.library.custom_op("clearhead::grouped_attention", mutates_args=())
def _operator(
    q: Tensor, k: Tensor, v: Tensor, table: Tensor | None, slopes: Tensor | None,
    offsets_q: Tensor, starts_q: Tensor, offsets_k: Tensor, starts_k: Tensor,
    words: str, data: list[Tensor], scale: float, dropout: float, seed: Tensor,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    work = _work(offsets_q, starts_q, offsets_k, starts_k, words, data, scale, dropout, seed)
    out, sums = forward(q, k, v, table, slopes, work, keep=True)
    return out, sums


@torch.library.custom_op("clearhead::grouped_attention_backward", mutates_args=())
def _operator_backward(
    grad: Tensor, q: Tensor, k: Tensor, v: Tensor, table: Tensor | None, slopes: Tensor | None,
    out: Tensor, sums: Tensor,
    offsets_q: Tensor, starts_q: Tensor, offsets_k: Tensor, starts_k: Tensor,
    words: str, data: list[Tensor], scale: float, dropout: float, seed: Tensor,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
    work = _work(offsets_q, starts_q, offsets_k, starts_k, words, data, scale, dropout, seed)
    dq, dk, dv, dtable, dslopes = backward(grad, q, k, v, table, slopes, out, sums, work)
    none = q.new_zeros(0)
    return dq, dk, dv, none if dtable is None else dtable, none.clone() if dslopes is None else dslopes


@_operator.register_fake
def _(q: Tensor, k: Tensor, v: Tensor, *rest: Any) -> tuple[Tensor, Tensor]:
    sums = torch.promote_types(q.dtype, torch.float32)
    return q.new_empty(q.shape[0], q.shape[1], v.shape[2]), q.new_empty(q.shape[0], q.shape[1], dtype=sums)


@_operator_backward.register_fake
def _(
    grad: Tensor, q: Tensor, k: Tensor, v: Tensor, table: Tensor | None, slopes: Tensor | None, *rest: Any
) -> tuple[Tensor, ...]:
    none = q.new_empty(0)
    like_table = none if table is None else torch.empty_like(table)
    like_slopes = none.clone() if slopes is None else torch.empty_like(slopes)
    return *(x.new_empty(x.shape) for x in (q, k, v)), like_table, like_slopes


def _setup(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    q, k, v, table, slopes, *layouts = inputs[:9]
    ctx.words, data, ctx.scale, ctx.dropout, seed = inputs[9:]
    ctx.save_for_backward(q, k, v, table, slopes, *output, *layouts, seed, *data)


def _gradients(ctx: Any, grad: Tensor, _: Tensor) -> tuple[Any, ...]:
    q, k, v, table, slopes, out, sums, *rest = ctx.saved_tensors
    layouts, seed, data = rest[:4], rest[4], list(rest[5:])
    dq, dk, dv, dtable, dslopes = _operator_backward(
        grad, q, k, v, table, slopes, out, sums, *layouts, ctx.words, data, ctx.scale, ctx.dropout, seed
    )
    of_bias = (None, None) if table is None else (dtable, dslopes)
    return dq, dk, dv, *of_bias, None, None, None, None, None, [None] * len(data), None, None, None


_operator.register_autograd(_gradients, setup_context=_setup)
