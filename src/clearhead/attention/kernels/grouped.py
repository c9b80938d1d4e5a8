"""The grouped kernel: dense work over groups of like length. The fastest exact kernel on a CPU.

Sequences of equal or nearly equal length are computed side by side (`plan.py` forms the groups, `pieces.py`
cuts them); what padding that takes stays inside. A piece is done by torch's fused kernel or by plain batched
matmuls in cache-sized blocks, whichever was measured faster for its size, dtype and direction. The backward
pass is written out, so that the whole is one opaque operator under `torch.compile`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

from clearhead.attention import masks
from clearhead.attention.biases import Relative
from clearhead.attention.call import Call
from clearhead.attention.layout import Layout
from clearhead.attention.masks import Causal, Full, Mask
from clearhead.attention.pieces import Cutter, Piece
from clearhead.attention.plan import Group, Plan, Pool, plan
from clearhead.attention.weights import rows as rows  # exact softmax: these are the weights it used

LONG = 4096  # beyond this many tokens masks are made piece by piece and not kept

_flash = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu.default
_softmax_backward = torch.ops.aten._softmax_backward_data.default
_flash_backward = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward.default


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
    return _forward(call.q, call.k, call.v, table, slopes, work)[0]


def _is_rectangle(call: Call, dropout: float) -> bool:
    """Is the whole batch one piece that torch's fused kernel does best, in both directions?"""
    q, T, S = call.q, call.layout_q.length, call.layout_k.length
    if torch.compiler.is_compiling() or not T or not S or dropout > 0 or call.bias is not None or call.scale is None:
        return False
    if call.repeats > 1 or call.v.shape[2] != q.shape[2] or q.device.type != "cpu":
        return False
    masked = isinstance(call.mask, Causal) and T == S and call.layout_q is call.layout_k
    size = call.layout_q.num_sequences, T, S
    best = _fused_is_faster(q.dtype, *size, backward=False)
    best = best and (not call.needs_grad or _fused_is_faster(q.dtype, *size, backward=True))
    return best and (masked or isinstance(call.mask, Full))


def _rectangle(call: Call) -> Tensor:
    """Equal lengths are an easy layout: one call on views of the token matrices."""
    count, causal = call.layout_q.num_sequences, isinstance(call.mask, Causal)
    q, k, v = (x.view(count, -1, *x.shape[1:]).transpose(1, 2) for x in (call.q, call.k, call.v))  # (B, H, T, K)
    out = F.scaled_dot_product_attention(q, k, v, is_causal=causal, scale=call.scale)
    return out.transpose(1, 2).flatten(0, 1)


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
        return self._kept(("plan", sizes), lambda: plan(self.layout_q.sizes, sizes, self.layout_q.device))

    def pieces(
        self, q: Tensor, k: Tensor, v: Tensor, biased: bool, backward: bool
    ) -> tuple[Cutter, Iterable[tuple[Group, Iterable[Piece]]]]:
        """The groups of the plan, each with the pieces it is computed in."""
        plain = biased or self.dropout > 0 or q.shape[2] != v.shape[2] or q.device.type != "cpu"
        heads, dtype = q.shape[1], q.dtype

        def fused(count: int, T: int, S: int) -> bool:
            return not plain and _fused_is_faster(dtype, count, T, S, backward)

        stretch = not (plain or backward) and isinstance(self.mask, (Full, Causal)) and _finite(k) and _finite(v)
        cutter = Cutter(self.layout_q, self.layout_k, self.mask, heads, dtype, fused, stretch)
        if self.layout_q.max_len > LONG:
            return cutter, ((g, cutter.cut(g)) for g in self.plan.groups)
        key = "pieces", id(self.mask), id(self.layout_k), heads, dtype, plain, backward, stretch
        cut = self._kept(key, lambda: (self.mask, self.layout_k, [(g, list(cutter.cut(g))) for g in self.plan.groups]))
        return cutter, cut[2]

    def _kept(self, key: Any, make: Callable[[], Any]) -> Any:
        """What the layers of a model share is made once and kept on the layout of the batch."""
        held: dict[Any, Any] = self.layout_q.__dict__.setdefault("_kept", {})
        if key not in held:
            held[key] = make()
        return held[key]


def _fused_is_faster(dtype: torch.dtype, count: int, T: int, S: int, backward: bool) -> bool:
    """Does torch's fused kernel beat plain matmuls on this many sequences, queries and keys? Measured on a CPU."""
    pairs = T * S
    if dtype in (torch.float32, torch.float64):
        return not (backward and count == 1 and 32 * 32 < pairs < 192 * 192)
    if dtype == torch.bfloat16:
        return pairs >= (2048 * 2048 if backward else 12 * 12)
    return False


def _finite(x: Tensor) -> bool:
    """Is every value finite? What a mask hides is multiplied by zero, and zero times infinity is not zero."""
    return bool(torch.isfinite(x.sum()))


def _queries(x: Tensor, group: Group) -> Tensor:
    """A group's rows of a token matrix that was turned by `_turn`, as (count, heads, T, ...)."""
    return _rows(x, group.row_q, len(group.members), group.T)


def _keys(x: Tensor, group: Group, width: int) -> Tensor:
    """The same for keys and values, (count, heads, width, ...)."""
    return _rows(x, group.row_k, len(group.members), width)


def _turn(x: Tensor) -> Tensor:
    """(rows, heads, ...) as (1, heads, rows, ...): one sequence is then one slice of it."""
    return x.transpose(0, 1).unsqueeze(0)


def _rows(x: Tensor, first: int, count: int, length: int) -> Tensor:
    part = x.narrow(2, first, count * length)  # (1, heads, count length, ...)
    return part if count == 1 else part.squeeze(0).unflatten(1, (count, length)).transpose(0, 1)


def _forward(
    q: Tensor, k: Tensor, v: Tensor, table: Tensor | None, slopes: Tensor | None, work: Work, keep: bool = False
) -> tuple[Tensor, Tensor]:
    """The output (N, H, V); with `keep`, also each row's log-normaliser where the fused kernel gave it, (N, H)."""
    plan, heads = work.plan, q.shape[1]
    bias = None if table is None or slopes is None else Relative(table, slopes)
    cutter, cut = work.pieces(q, k, v, bias is not None, backward=False)
    k, v = _repeat(k, heads), _repeat(v, heads)
    out = _room(q, len(q), heads, v.shape[2], plan)
    sums = [torch.zeros(len(q), heads, dtype=torch.float32, device=q.device)] if keep else []
    lying = pooled = [q, k, v, out, *sums]
    if plan.queries is not None and plan.keys is not None:
        held = [
            (q, plan.queries),
            (k, plan.keys),
            (v, plan.keys),
            (out, plan.queries),
            *((x, plan.queries) for x in sums),
        ]
        pooled = [x.index_select(0, p.gather) if i < 3 else _like(x, len(p.gather)) for i, (x, p) in enumerate(held)]
    turned = [_turn(x) for x in lying], [_turn(x) for x in pooled]
    for group, pieces in cut:
        all_q, all_k, all_v, all_out, *all_sums = turned[0 if group.lying else 1]
        width = cutter.width(group)
        gq, gk, gv = _queries(all_q, group), _keys(all_k, group, width), _keys(all_v, group, width)
        gout = _queries(all_out, group)
        for piece in pieces:
            part, logs = _piece_forward(
                piece.queries(gq), piece.keys(gk), piece.keys(gv), piece, group, cutter, bias, work
            )
            piece.queries(gout).copy_(part)
            if logs is not None and all_sums:
                piece.queries(_queries(all_sums[0], group)).copy_(logs)
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
        if work.dropout > 0:
            weights = weights * _kept(weights, piece, group, work)
        out, sums = torch.bmm(weights, _flat(v)).unflatten(0, q.shape[:2]), None
    return (out if piece.dead is None else out.masked_fill(piece.dead, 0.0)), sums


def _backward(
    grad: Tensor, q: Tensor, k: Tensor, v: Tensor, table: Tensor | None, slopes: Tensor | None,
    out: Tensor, sums: Tensor, work: Work,
) -> tuple[Tensor, Tensor, Tensor, Tensor | None, Tensor | None]:  # fmt: skip
    """Gradients of queries, keys, values and of the bias."""
    plan, heads, key_heads = work.plan, q.shape[1], k.shape[1]
    bias = None if table is None or slopes is None else Relative(table, slopes)
    cutter, cut = work.pieces(q, k, v, bias is not None, backward=True)
    k, v = _repeat(k, heads), _repeat(v, heads)
    dtable = None if table is None else torch.zeros_like(table)
    dslopes = None if slopes is None else torch.zeros_like(slopes)
    dq, dk, dv = (_room(x, len(x), heads, x.shape[2], plan) for x in (q, k, v))
    lying = pooled = [grad, q, out, sums, dq, k, v, dk, dv]  # rows of queries, then rows of keys
    if plan.queries is not None and plan.keys is not None:
        by_query = [x.index_select(0, plan.queries.gather) for x in lying[:4]]
        by_key = [x.index_select(0, plan.keys.gather) for x in lying[5:7]]
        pooled = [*by_query, _like(dq, len(by_query[1])), *by_key, *(_like(x, len(by_key[0])) for x in (dk, dv))]
    turned = [_turn(x) for x in lying], [_turn(x) for x in pooled]
    for group, pieces in cut:
        rows = turned[0 if group.lying else 1]
        ggrad, gq, gout, gsums, gdq = (_queries(x, group) for x in rows[:5])
        gk, gv, gdk, gdv = (_keys(x, group, group.S) for x in rows[5:])
        ggrad = _without_padding(ggrad, group, work.layout_q)
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
                _, at_q, at_k = cutter.positions(group, piece.b, piece.t, piece.s)
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
    dweights = torch.bmm(grad, v.transpose(1, 2))
    used = weights
    if work.dropout > 0:
        kept = _kept(weights, piece, group, work)
        used = weights * kept
        dweights *= kept
    dscores = _softmax_backward(dweights, weights, -1, weights.dtype)
    _multiply_into(into[0], dscores, k, work.scale, add=False)
    _multiply_into(into[1], dscores.transpose(1, 2), q, work.scale, add=shared)
    _multiply_into(into[2], used.transpose(1, 2), grad, 1.0, add=shared)
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
    scores = torch.baddbmm(q.new_empty(1, 1, 1), q, k.transpose(1, 2), beta=0, alpha=scale)
    if bias is not None or piece.hidden is not None:
        shaped = scores.unflatten(0, lead)  # (b, h, t, s), the same memory
        if bias is not None:
            shaped += bias.heads(piece.h)(*cutter.positions(group, piece.b, piece.t, piece.s))
        if piece.hidden is not None:
            shaped.masked_fill_(piece.hidden, float("-inf"))
    return torch.softmax(scores, dim=-1)


def _multiply_into(held: Tensor, a: Tensor, b: Tensor, scale: float, add: bool) -> None:
    """Held (b, h, rows, columns) gets, or grows by, scale · a @ b, where a and b are (b h, ...)."""
    found = torch.baddbmm(a.new_empty(1, 1, 1), a, b, beta=0, alpha=scale).unflatten(0, held.shape[:2])
    held.add_(found) if add else held.copy_(found)


def _flat(x: Tensor) -> Tensor:
    """(b, h, length, width) as (b h, length, width); a copy unless it is one sequence."""
    return x.flatten(0, 1)


def _kept(weights: Tensor, piece: Piece, group: Group, work: Work) -> Tensor:
    """The dropout mask of one piece, 0 or 1 / (1 - p): drawn again in backward from the same seed."""
    generator = torch.Generator(weights.device).manual_seed(
        (work.seed + 1_000_003 * group.row_q + piece.number) % 2**63
    )
    kept = torch.empty_like(weights, memory_format=torch.contiguous_format)
    return kept.bernoulli_(1 - work.dropout, generator=generator).div_(1 - work.dropout)


def _room(like: Tensor, rows: int, heads: int, width: int, plan: Plan) -> Tensor:
    """Room for a result; at zero where a token takes no part and nobody would write it."""
    make = like.new_zeros if plan.idle else like.new_empty
    return make(rows, heads, width)


def _like(x: Tensor, rows: int) -> Tensor:
    return x.new_empty(rows, *x.shape[1:])


def _return(pooled: Tensor, out: Tensor, pool: Pool) -> None:
    """Bring the rows of the pool back to their tokens."""
    out.index_copy_(0, pool.tokens, pooled.index_select(0, pool.rows))


def _repeat(x: Tensor, heads: int) -> Tensor:
    """Key heads (rows, G, width) spread over the query heads that share them."""
    return x if x.shape[1] == heads else x.repeat_interleave(heads // x.shape[1], dim=1)


def _fold(x: Tensor, key_heads: int) -> Tensor:
    """The gradient of `_repeat`."""
    return x if x.shape[1] == key_heads else x.unflatten(1, (key_heads, -1)).sum(2)


def _without_padding(grad: Tensor, group: Group, layout: Layout) -> Tensor:
    """The gradient of a group's outputs with its padded rows, which nobody read, at zero."""
    sizes = [layout.sizes[i] for i in group.members]
    if min(sizes) == group.T:
        return grad
    row = torch.arange(group.T, device=grad.device)
    padded = row >= torch.tensor(sizes, device=grad.device).view(-1, 1)
    return grad.masked_fill(padded.view(len(sizes), 1, group.T, 1), 0.0)


def _any_score(call: Call, dropout: float) -> Tensor:
    """Scores that are not dot products, and biases of any kind: the same groups, differentiated by autograd."""
    work = Work(call.layout_q, call.layout_k, call.mask, 1.0, dropout, 0)
    plan, heads, bias = work.plan, call.num_heads, call.bias
    cutter = Cutter(call.layout_q, call.layout_k, call.mask, heads, call.q.dtype, lambda count, T, S: True)
    q, k, v = call.q, _repeat(call.k, heads), _repeat(call.v, heads)
    lying = pooled = [q, k, v]
    if plan.queries is not None and plan.keys is not None:
        pooled = [q.index_select(0, plan.queries.gather), *(x.index_select(0, plan.keys.gather) for x in (k, v))]
    turned = [_turn(x) for x in lying], [_turn(x) for x in pooled]
    parts, tokens = [call.nothing(0)], [torch.zeros(0, dtype=torch.int64, device=q.device)]
    pool: list[Tensor] = []
    for group in plan.groups:
        all_q, all_k, all_v = turned[0 if group.lying else 1]
        gq, gk, gv = _queries(all_q, group), _keys(all_k, group, group.S), _keys(all_v, group, group.S)
        strips = []
        for piece in cutter.cut(group):
            scores = call.score.pair(piece.queries(gq), piece.keys(gk), piece.h)  # (b, h, t, s)
            where = cutter.positions(group, piece.b, piece.t, piece.s)
            if bias is not None:
                scores = scores + bias(*where).to(scores.dtype)
            hidden = ~call.mask.allows(*where).unsqueeze(1) if piece.causal else piece.hidden
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
        out, sums = _forward(q, k, v, table, slopes, work, keep=True)
        ctx.save_for_backward(q, k, v, table, slopes, out, sums)
        ctx.work = work
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:  # type: ignore[override]
        q, k, v, table, slopes, out, sums = ctx.saved_tensors
        return *_backward(grad, q, k, v, table, slopes, out, sums, ctx.work), None


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
    out, sums = _forward(q, k, v, table, slopes, work, keep=True)
    return out, sums


@torch.library.custom_op("clearhead::grouped_attention_backward", mutates_args=())
def _operator_backward(
    grad: Tensor, q: Tensor, k: Tensor, v: Tensor, table: Tensor | None, slopes: Tensor | None,
    out: Tensor, sums: Tensor,
    offsets_q: Tensor, starts_q: Tensor, offsets_k: Tensor, starts_k: Tensor,
    words: str, data: list[Tensor], scale: float, dropout: float, seed: Tensor,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
    work = _work(offsets_q, starts_q, offsets_k, starts_k, words, data, scale, dropout, seed)
    dq, dk, dv, dtable, dslopes = _backward(grad, q, k, v, table, slopes, out, sums, work)
    none = q.new_zeros(0)
    return dq, dk, dv, none if dtable is None else dtable, none.clone() if dslopes is None else dslopes


@_operator.register_fake
def _(q: Tensor, k: Tensor, v: Tensor, *rest: Any) -> tuple[Tensor, Tensor]:
    return q.new_empty(q.shape[0], q.shape[1], v.shape[2]), q.new_empty(q.shape[0], q.shape[1], dtype=torch.float32)


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
