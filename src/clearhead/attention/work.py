"""Work: the forward and backward pass of grouped attention, piece by piece.

Each piece is done by torch's fused kernel or by plain batched matmuls in cache-sized blocks, whichever was
measured faster for its size, dtype and direction.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from clearhead.attention import drops
from clearhead.attention.biases import Relative
from clearhead.attention.layout import Layout
from clearhead.attention.masks import Causal, Full, Mask, signature
from clearhead.attention.pieces import Cutter, Piece
from clearhead.attention.plan import Group, Plan, Pool, plan

LONG = 4096  # beyond this many tokens masks are made piece by piece and not kept
WARM = 448  # below so many tokens, bfloat16 goes backward in float32: oneDNN would write code for each new shape first

_flash = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu.default
_softmax_backward = torch.ops.aten._softmax_backward_data.default
_flash_backward = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward.default


@dataclass(frozen=True, eq=False)
class Work:
    """What one call computes, apart from its tensors."""

    layout_q: Layout
    layout_k: Layout
    mask: Mask
    scale: float
    dropout: float
    seed: int

    @property
    def plan(self) -> Plan:
        """The plan of these two layouts."""
        sizes = self.layout_k.sizes
        return self.layout_q.kept(("plan", sizes), lambda: plan(self.layout_q.sizes, sizes, self.layout_q.device))

    def pieces(
        self, q: Tensor, k: Tensor, v: Tensor, biased: bool, backward: bool, logs: bool = False
    ) -> tuple[Cutter, Iterable[tuple[Group, Iterable[Piece]]]]:
        """The groups of the plan, each with the pieces it is computed in; with `logs`, all that can be are fused."""
        plain = biased or self.dropout > 0 or q.shape[2] != v.shape[2] or q.device.type != "cpu"
        heads, dtype = q.shape[1], q.dtype

        def fused(count: int, T: int, S: int) -> bool:
            return not plain and (logs or fused_is_faster(dtype, count, T, S, backward))

        stretch = not (plain or backward) and isinstance(self.mask, (Full, Causal)) and self.plan.stretches
        stretch = stretch and _finite(k) and _finite(v)
        cutter = Cutter(self.layout_q, self.layout_k, self.mask, heads, dtype, fused, stretch)
        if self.layout_q.max_len > LONG:
            return cutter, ((g, cutter.cut(g)) for g in self.plan.groups)
        key = "pieces", signature(self.mask), id(self.layout_k), heads, dtype, plain, backward, logs, stretch

        def cut() -> tuple[Mask, Layout, list[tuple[Group, list[Piece]]]]:  # with what the key's numbers stand for
            return self.mask, self.layout_k, [(group, list(cutter.cut(group))) for group in self.plan.groups]

        return cutter, self.layout_q.kept(key, cut)[2]


def fused_is_faster(dtype: torch.dtype, count: int, T: int, S: int, backward: bool) -> bool:
    """Does torch's fused kernel beat plain matmuls on this many sequences, queries and keys? Measured on a CPU."""
    pairs = T * S
    if dtype in (torch.float32, torch.float64):
        return not (backward and count == 1 and 32 * 32 < pairs < 192 * 192)
    if dtype == torch.bfloat16:
        return pairs >= (2048 * 2048 if backward else 12 * 12)
    return False


def _widens(q: Tensor, work: Work) -> bool:
    """Does the backward pass of this call compute in float32, though its numbers are bfloat16?"""
    short = max(work.layout_q.max_len, work.layout_k.max_len) < WARM
    return short and q.dtype == torch.bfloat16 and q.device.type == "cpu"


def _finite(x: Tensor) -> bool:
    """Is every value finite? What a mask hides is multiplied by zero, and zero times infinity is not zero."""
    return bool(torch.isfinite(x.sum()))


def queries_of(x: Tensor, group: Group) -> Tensor:
    """A group's rows of a token matrix that was turned by `turn`, as (count, heads, T, ...)."""
    return _rows(x, group.row_q, len(group.members), group.T)


def keys_of(x: Tensor, group: Group, width: int) -> Tensor:
    """The same for keys and values, (count, heads, width, ...)."""
    return _rows(x, group.row_k, len(group.members), width)


def turn(x: Tensor) -> Tensor:
    """(rows, heads, ...) as (1, heads, rows, ...): one sequence is then one slice of it."""
    return x.transpose(0, 1).unsqueeze(0)


def _rows(x: Tensor, first: int, count: int, length: int) -> Tensor:
    part = x.narrow(2, first, count * length)  # (1, heads, count length, ...)
    return part if count == 1 else part.squeeze(0).unflatten(1, (count, length)).transpose(0, 1)


def forward(
    q: Tensor, k: Tensor, v: Tensor, table: Tensor | None, slopes: Tensor | None, work: Work, keep: bool = False
) -> tuple[Tensor, Tensor]:
    """The output (N, H, V); with `keep`, also each row's log-normaliser where the fused kernel gave it, (N, H)."""
    plan, heads = work.plan, q.shape[1]
    bias = None if table is None or slopes is None else Relative(table, slopes)
    cutter, cut = work.pieces(q, k, v, bias is not None, backward=False, logs=keep and _widens(q, work))
    k, v = repeat(k, heads), repeat(v, heads)
    out = _room(q, len(q), heads, v.shape[2], plan)
    sums = [q.new_zeros(len(q), heads, dtype=torch.promote_types(q.dtype, torch.float32))] if keep else []
    lying = pooled = [q, k, v, out, *sums]
    if plan.queries is not None and plan.keys is not None:
        pq, pk, pv = (x.index_select(0, p.gather) for x, p in ((q, plan.queries), (k, plan.keys), (v, plan.keys)))
        pooled = [pq, pk, pv, *(_like(x, len(pq)) for x in (out, *sums))]
    turned = [turn(x) for x in lying], [turn(x) for x in pooled]
    for group, pieces in cut:
        all_q, all_k, all_v, all_out, *all_sums = turned[0 if group.lying else 1]
        width = cutter.width(group)
        gq, gk, gv = queries_of(all_q, group), keys_of(all_k, group, width), keys_of(all_v, group, width)
        gout = queries_of(all_out, group)
        for piece in pieces:
            part, logs = _piece_forward(
                piece.queries(gq), piece.keys(gk), piece.keys(gv), piece, group, cutter, bias, work
            )
            piece.queries(gout).copy_(part)
            if logs is not None and all_sums:
                piece.queries(queries_of(all_sums[0], group)).copy_(logs)
    if plan.queries is not None:
        for x, home in zip(pooled[3:], lying[3:], strict=True):
            _return(x, home, plan.queries)
    return out, sums[0] if sums else q.new_zeros(0)


def _piece_forward(
    q: Tensor, k: Tensor, v: Tensor, piece: Piece, group: Group, cutter: Cutter, bias: Relative | None, work: Work
) -> tuple[Tensor, Tensor | None]:
    """The output of one piece (b, h, t, V), and its log-normalisers (b, h, t) from the fused kernel."""
    if piece.fused:
        out, sums = _flash(q, k, v, 0.0, piece.causal, attn_mask=piece.minus, scale=work.scale)
    else:
        weights = _weights(_flat(q), _flat(k), q.shape[:2], piece, group, cutter, bias, work.scale)
        grown = 1.0
        if work.dropout > 0:
            weights, grown = weights.mul_(_survivors(weights, piece, group, work)), drops.growth(work.dropout)
        out, sums = _product(weights, _flat(v), grown).unflatten(0, q.shape[:2]), None
    return (out if piece.dead is None else out.masked_fill(piece.dead, 0.0)), sums


def backward(
    grad: Tensor, q: Tensor, k: Tensor, v: Tensor, table: Tensor | None, slopes: Tensor | None,
    out: Tensor, sums: Tensor, work: Work,
) -> tuple[Tensor, Tensor, Tensor, Tensor | None, Tensor | None]:  # fmt: skip
    """Gradients of queries, keys, values and of the bias."""
    if _widens(q, work):
        wide = grad.float(), q.float(), k.float(), v.float()
        dq, dk, dv, dtable, dslopes = backward(*wide, table, slopes, out.float(), sums, work)
        return dq.to(q.dtype), dk.to(q.dtype), dv.to(q.dtype), dtable, dslopes
    plan, heads, key_heads = work.plan, q.shape[1], k.shape[1]
    bias = None if table is None or slopes is None else Relative(table, slopes)
    cutter, cut = work.pieces(q, k, v, bias is not None, backward=True)
    k, v = repeat(k, heads), repeat(v, heads)
    dtable = None if table is None else torch.zeros_like(table)
    dslopes = None if slopes is None else torch.zeros_like(slopes)
    dq, dk, dv = (_room(x, len(x), heads, x.shape[2], plan) for x in (q, k, v))
    lying = pooled = [grad, q, out, sums, dq, k, v, dk, dv]  # rows of queries, then rows of keys
    if plan.queries is not None and plan.keys is not None:
        by_query = [x.index_select(0, plan.queries.gather) for x in lying[:4]]
        by_query[0].index_fill_(0, plan.queries.padding, 0.0)  # nobody read those outputs
        by_key = [x.index_select(0, plan.keys.gather) for x in lying[5:7]]
        pooled = [*by_query, _like(dq, len(by_query[1])), *by_key, *(_like(x, len(by_key[0])) for x in (dk, dv))]
    turned = [turn(x) for x in lying], [turn(x) for x in pooled]
    for group, pieces in cut:
        rows = turned[0 if group.lying else 1]
        ggrad, gq, gout, gsums, gdq = (queries_of(x, group) for x in rows[:5])
        gk, gv, gdk, gdv = (keys_of(x, group, group.S) for x in rows[5:])
        shared = False
        for piece in pieces:
            if not shared and piece.t != slice(0, group.T):  # strips of queries, each of which adds to the same keys
                shared = True
                gdk.zero_()
                gdv.zero_()
            into = piece.queries(gdq), piece.keys(gdk), piece.keys(gdv)
            inputs = piece.queries(ggrad), piece.queries(gq), piece.keys(gk), piece.keys(gv)
            if piece.fused:
                found = _fused_backward(piece, *inputs, piece.queries(gout), piece.queries(gsums), work)
                into[0].copy_(found[0])
                for held, new in zip(into[1:], found[1:], strict=True):
                    held.add_(new) if shared else held.copy_(new)
                continue
            dscores = _plain_backward(*inputs, into, shared, piece, group, cutter, bias, work)
            if bias is not None and dtable is not None and dslopes is not None:
                _, at_q, at_k = cutter.positions(group, piece.b, piece.t, piece.s, within=False)
                by_table, by_slope = bias.heads(piece.h).backward(dscores, at_q, at_k)
                dtable[piece.h] += by_table
                dslopes[piece.h] += by_slope
    if plan.queries is not None and plan.keys is not None:
        _return(pooled[4], dq, plan.queries)
        _return(pooled[7], dk, plan.keys)
        _return(pooled[8], dv, plan.keys)
    return dq, _fold(dk, key_heads), _fold(dv, key_heads), dtable, dslopes


def _fused_backward(
    piece: Piece, grad: Tensor, q: Tensor, k: Tensor, v: Tensor, out: Tensor, sums: Tensor, work: Work
) -> tuple[Tensor, Tensor, Tensor]:
    grad = grad if piece.dead is None else grad.masked_fill(piece.dead, 0.0)
    return _flash_backward(grad, q, k, v, out, sums, 0.0, piece.causal, attn_mask=piece.minus, scale=work.scale)


def _plain_backward(
    grad: Tensor, q: Tensor, k: Tensor, v: Tensor, into: tuple[Tensor, Tensor, Tensor], shared: bool,
    piece: Piece, group: Group, cutter: Cutter, bias: Relative | None, work: Work,
) -> Tensor:  # fmt: skip
    """Write one piece's gradients of queries, keys and values; returns those of its scores, (b, h, t, s)."""
    lead = q.shape[:2]  # sequences and heads, one dimension while we multiply
    grad = grad if piece.dead is None else grad.masked_fill(piece.dead, 0.0)
    grad, q, k, v = _flat(grad), _flat(q), _flat(k), _flat(v)
    weights = _weights(q, k, lead, piece, group, cutter, bias, work.scale)
    used, grown = weights, 1.0
    if work.dropout > 0:
        kept, grown = _survivors(weights, piece, group, work), drops.growth(work.dropout)
        used = weights * kept
        dweights = _product(grad, v.transpose(1, 2), grown).mul_(kept)
    else:
        dweights = torch.bmm(grad, v.transpose(1, 2))
    dscores = _softmax_backward(dweights, weights, -1, weights.dtype)
    _multiply_into(into[0], dscores, k, work.scale, add=False)
    _multiply_into(into[1], dscores.transpose(1, 2), q, work.scale, add=shared)
    _multiply_into(into[2], used.transpose(1, 2), grad, grown, add=shared)
    return dscores.unflatten(0, lead)


def _weights(
    q: Tensor,
    k: Tensor,
    lead: Sequence[int],
    piece: Piece,
    group: Group,
    cutter: Cutter,
    bias: Relative | None,
    scale: float,
) -> Tensor:
    """softmax(q·k · scale + bias, where allowed) of one piece, (b h, t, s)."""
    scores = _product(q, k.transpose(1, 2), scale)
    if bias is not None or piece.hidden is not None:
        shaped = scores.unflatten(0, lead)  # (b, h, t, s), the same memory
        if bias is not None:
            shaped += bias.heads(piece.h)(*cutter.positions(group, piece.b, piece.t, piece.s, within=False))
        if piece.hidden is not None:
            shaped.masked_fill_(piece.hidden, float("-inf"))
    return torch.softmax(scores, dim=-1)


def _product(a: Tensor, b: Tensor, scale: float) -> Tensor:
    """Scale · a @ b, of (b h, ...) matrices."""
    return torch.baddbmm(a.new_empty(1, 1, 1), a, b, beta=0, alpha=scale)


def _multiply_into(held: Tensor, a: Tensor, b: Tensor, scale: float, add: bool) -> None:
    """Held (b, h, rows, columns) gets, or grows by, scale · a @ b, where a and b are (b h, ...)."""
    found = _product(a, b, scale).unflatten(0, held.shape[:2])
    held.add_(found) if add else held.copy_(found)


def _flat(x: Tensor) -> Tensor:
    """(b, h, length, width) as (b h, length, width); a copy unless it is one sequence."""
    return x.flatten(0, 1)


def _survivors(weights: Tensor, piece: Piece, group: Group, work: Work) -> Tensor:
    """The dropout mask of one piece, drawn again in backward from the same seed: both directions cut alike."""
    seed = (work.seed + 1_000_003 * group.row_q + piece.number) % 2**63
    return drops.draw(weights.shape, work.dropout, seed, weights)


def _room(like: Tensor, rows: int, heads: int, width: int, plan: Plan) -> Tensor:
    """Room for a result; at zero where a token takes no part and nobody would write it."""
    make = like.new_zeros if plan.idle else like.new_empty
    return make(rows, heads, width)


def _like(x: Tensor, rows: int) -> Tensor:
    return x.new_empty(rows, *x.shape[1:])


def _return(pooled: Tensor, out: Tensor, pool: Pool) -> None:
    """Bring the rows of the pool back to their tokens."""
    out.index_copy_(0, pool.tokens, pooled.index_select(0, pool.rows))


def repeat(x: Tensor, heads: int) -> Tensor:
    """Key heads (rows, G, width) spread over the query heads that share them."""
    return x if x.shape[1] == heads else x.repeat_interleave(heads // x.shape[1], dim=1)


def _fold(x: Tensor, key_heads: int) -> Tensor:
    """The gradient of `repeat`."""
    return x if x.shape[1] == key_heads else x.unflatten(1, (key_heads, -1)).sum(2)
