"""Compute: the forward and backward pass of grouped attention, tile by tile.

Each tile is computed by torch's fused kernel or by plain batched matmuls in cache-sized blocks, whichever is faster for
its size, dtype and direction (`tuning.py`).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from clearhead.attention import dropout_mask
from clearhead.attention.biases import RelativeBias
from clearhead.attention.fused_attention import fused_backward, fused_forward
from clearhead.attention.kernels.grouped.grouping import GatherIndex, GroupPlan, SequenceGroup, plan_groups
from clearhead.attention.kernels.grouped.tiling import Tile, Tiler
from clearhead.attention.layout import Layout
from clearhead.attention.masks import Causal, Full, Mask, cache_key
from clearhead.attention.tuning import TUNING

_softmax_backward = torch.ops.aten._softmax_backward_data.default


@dataclass(frozen=True, eq=False)
class GroupedCall:
    """The arguments of one call besides its tensors."""

    layout_q: Layout
    layout_k: Layout
    mask: Mask
    scale: float
    dropout: float
    seed: int

    @property
    def plan(self) -> GroupPlan:
        sizes = self.layout_k.host_lengths
        lengths, device = self.layout_q.host_lengths, self.layout_q.device
        return self.layout_q.memoize(("plan", sizes), lambda: plan_groups(lengths, sizes, device))

    def tiles(
        self, q: Tensor, k: Tensor, v: Tensor, biased: bool, backward: bool, logs: bool = False
    ) -> tuple[Tiler, Iterable[tuple[SequenceGroup, Iterable[Tile]]]]:
        """The groups of the plan, each with its tiles; with `logs`, every tile that can be is fused."""
        plain = biased or self.dropout > 0 or q.shape[2] != v.shape[2] or q.device.type != "cpu"
        heads, dtype = q.shape[1], q.dtype

        def fused(count: int, T: int, S: int) -> bool:
            return not plain and (logs or TUNING.fused_is_faster(dtype, count, T, S, backward))

        pad_keys = not (plain or backward) and isinstance(self.mask, (Full, Causal)) and self.plan.pads_keys
        pad_keys = pad_keys and _finite(k) and _finite(v)
        tiler = Tiler(self.layout_q, self.layout_k, self.mask, heads, dtype, fused, pad_keys)
        if self.layout_q.max_len > TUNING.cache_masks_below:
            return tiler, ((g, tiler.tiles(g)) for g in self.plan.groups)
        key = "tiles", cache_key(self.mask), id(self.layout_k), heads, dtype, plain, backward, logs, pad_keys

        def make() -> tuple[Mask, Layout, list[tuple[SequenceGroup, list[Tile]]]]:
            # mask and layout are kept alive: the key holds their ids
            return self.mask, self.layout_k, [(group, list(tiler.tiles(group))) for group in self.plan.groups]

        return tiler, self.layout_q.memoize(key, make)[2]


def _uses_float32(q: Tensor, call: GroupedCall) -> bool:
    """True if the backward pass of this bfloat16 call computes in float32."""
    short = max(call.layout_q.max_len, call.layout_k.max_len) < TUNING.float32_backward_below
    return short and q.dtype == torch.bfloat16 and q.device.type == "cpu"


def _finite(x: Tensor) -> bool:
    """True if every value is finite: masked values are multiplied by 0, and 0 · inf is NaN."""
    return bool(torch.isfinite(x.sum()))


def queries_of(x: Tensor, group: SequenceGroup) -> Tensor:
    """The queries of a group from a `heads_first` matrix, (count, heads, T, ...)."""
    return _rows(x, group.row_q, len(group.members), group.T)


def keys_of(x: Tensor, group: SequenceGroup, width: int) -> Tensor:
    """The keys or values of a group, (count, heads, width, ...)."""
    return _rows(x, group.row_k, len(group.members), width)


def heads_first(x: Tensor) -> Tensor:
    """(rows, heads, ...) as (1, heads, rows, ...): one sequence is one slice of it."""
    return x.transpose(0, 1).unsqueeze(0)


def _rows(x: Tensor, first: int, count: int, length: int) -> Tensor:
    part = x.narrow(2, first, count * length)  # (1, heads, count length, ...)
    return part if count == 1 else part.squeeze(0).unflatten(1, (count, length)).transpose(0, 1)


def forward(
    q: Tensor, k: Tensor, v: Tensor, table: Tensor | None, slopes: Tensor | None, call: GroupedCall, keep: bool = False
) -> tuple[Tensor, Tensor]:
    """The output (N, H, V); with `keep`, also the logsumexp of each row where the fused kernel gives it, (N, H)."""
    plan, heads = call.plan, q.shape[1]
    bias = None if table is None or slopes is None else RelativeBias(table, slopes)
    tiler, groups = call.tiles(q, k, v, bias is not None, backward=False, logs=keep and _uses_float32(q, call))
    k, v = repeat(k, heads), repeat(v, heads)
    out = _empty(q, len(q), heads, v.shape[2], plan)
    logsumexp = [q.new_zeros(len(q), heads, dtype=torch.promote_types(q.dtype, torch.float32))] if keep else []
    in_place_rows = gathered = [q, k, v, out, *logsumexp]
    if plan.queries is not None and plan.keys is not None:
        pq, pk, pv = (x.index_select(0, p.gather) for x, p in ((q, plan.queries), (k, plan.keys), (v, plan.keys)))
        gathered = [pq, pk, pv, *(_like(x, len(pq)) for x in (out, *logsumexp))]
    by_head = [heads_first(x) for x in in_place_rows], [heads_first(x) for x in gathered]
    for group, tiles in groups:
        all_q, all_k, all_v, all_out, *all_logsumexp = by_head[0 if group.in_place else 1]
        width = tiler.width(group)
        gq, gk, gv = queries_of(all_q, group), keys_of(all_k, group, width), keys_of(all_v, group, width)
        gout = queries_of(all_out, group)
        for tile in tiles:
            part, logs = _tile_forward(tile.queries(gq), tile.keys(gk), tile.keys(gv), tile, group, tiler, bias, call)
            tile.queries(gout).copy_(part)
            if logs is not None and all_logsumexp:
                tile.queries(queries_of(all_logsumexp[0], group)).copy_(logs)
    if plan.queries is not None:
        for x, home in zip(gathered[3:], in_place_rows[3:], strict=True):
            _scatter_back(x, home, plan.queries)
    return out, logsumexp[0] if logsumexp else q.new_zeros(0)


def _tile_forward(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    tile: Tile,
    group: SequenceGroup,
    tiler: Tiler,
    bias: RelativeBias | None,
    call: GroupedCall,
) -> tuple[Tensor, Tensor | None]:
    """The output of one tile (b, h, t, V), and its logsumexp (b, h, t) from the fused kernel."""
    if tile.fused:
        out, logsumexp = fused_forward(q, k, v, call.scale, tile.additive_mask, tile.causal)
    else:
        weights = _weights(_flat(q), _flat(k), q.shape[:2], tile, group, tiler, bias, call.scale)
        scale_up = 1.0
        if call.dropout > 0:
            weights, scale_up = (
                weights.mul_(_dropout_mask(weights, tile, group, call)),
                dropout_mask.keep_scale(call.dropout),
            )
        out, logsumexp = _product(weights, _flat(v), scale_up).unflatten(0, q.shape[:2]), None
    return (out if tile.empty_rows is None else out.masked_fill(tile.empty_rows, 0.0)), logsumexp


def backward(
    grad: Tensor, q: Tensor, k: Tensor, v: Tensor, table: Tensor | None, slopes: Tensor | None,
    out: Tensor, logsumexp: Tensor, call: GroupedCall,
) -> tuple[Tensor, Tensor, Tensor, Tensor | None, Tensor | None]:  # fmt: skip
    """Gradients of queries, keys, values and of the bias."""
    if _uses_float32(q, call):
        wide = grad.float(), q.float(), k.float(), v.float()
        dq, dk, dv, dtable, dslopes = backward(*wide, table, slopes, out.float(), logsumexp, call)
        return dq.to(q.dtype), dk.to(q.dtype), dv.to(q.dtype), dtable, dslopes
    plan, heads, key_heads = call.plan, q.shape[1], k.shape[1]
    bias = None if table is None or slopes is None else RelativeBias(table, slopes)
    tiler, groups = call.tiles(q, k, v, bias is not None, backward=True)
    k, v = repeat(k, heads), repeat(v, heads)
    dtable = None if table is None else torch.zeros_like(table)
    dslopes = None if slopes is None else torch.zeros_like(slopes)
    dq, dk, dv = (_empty(x, len(x), heads, x.shape[2], plan) for x in (q, k, v))
    in_place_rows = gathered = [grad, q, out, logsumexp, dq, k, v, dk, dv]  # rows of queries, then rows of keys
    if plan.queries is not None and plan.keys is not None:
        by_query = [x.index_select(0, plan.queries.gather) for x in in_place_rows[:4]]
        by_query[0].index_fill_(0, plan.queries.padding, 0.0)  # these outputs are padding
        by_key = [x.index_select(0, plan.keys.gather) for x in in_place_rows[5:7]]
        gathered = [*by_query, _like(dq, len(by_query[1])), *by_key, *(_like(x, len(by_key[0])) for x in (dk, dv))]
    by_head = [heads_first(x) for x in in_place_rows], [heads_first(x) for x in gathered]
    for group, tiles in groups:
        rows = by_head[0 if group.in_place else 1]
        ggrad, gq, gout, glogsumexp, gdq = (queries_of(x, group) for x in rows[:5])
        gk, gv, gdk, gdv = (keys_of(x, group, group.S) for x in rows[5:])
        shared = False
        for tile in tiles:
            if not shared and tile.t != slice(0, group.T):  # several strips of queries add to the same keys
                shared = True
                gdk.zero_()
                gdv.zero_()
            into = tile.queries(gdq), tile.keys(gdk), tile.keys(gdv)
            inputs = tile.queries(ggrad), tile.queries(gq), tile.keys(gk), tile.keys(gv)
            if tile.fused:
                gradients = _fused_backward(tile, *inputs, tile.queries(gout), tile.queries(glogsumexp), call)
                into[0].copy_(gradients[0])
                for held, new in zip(into[1:], gradients[1:], strict=True):
                    held.add_(new) if shared else held.copy_(new)
                continue
            dscores = _plain_backward(*inputs, into, shared, tile, group, tiler, bias, call)
            if bias is not None and dtable is not None and dslopes is not None:
                _, at_q, at_k = tiler.positions(group, tile.b, tile.t, tile.s, within=False)
                by_table, by_slope = bias.heads(tile.h).backward(dscores, at_q, at_k)
                dtable[tile.h] += by_table
                dslopes[tile.h] += by_slope
    if plan.queries is not None and plan.keys is not None:
        _scatter_back(gathered[4], dq, plan.queries)
        _scatter_back(gathered[7], dk, plan.keys)
        _scatter_back(gathered[8], dv, plan.keys)
    return dq, _fold(dk, key_heads), _fold(dv, key_heads), dtable, dslopes


def _fused_backward(
    tile: Tile, grad: Tensor, q: Tensor, k: Tensor, v: Tensor, out: Tensor, logsumexp: Tensor, call: GroupedCall
) -> tuple[Tensor, Tensor, Tensor]:
    grad = grad if tile.empty_rows is None else grad.masked_fill(tile.empty_rows, 0.0)
    return fused_backward(grad, q, k, v, out, logsumexp, call.scale, tile.additive_mask, tile.causal)


def _plain_backward(
    grad: Tensor, q: Tensor, k: Tensor, v: Tensor, into: tuple[Tensor, Tensor, Tensor], shared: bool,
    tile: Tile, group: SequenceGroup, tiler: Tiler, bias: RelativeBias | None, call: GroupedCall,
) -> Tensor:  # fmt: skip
    """Write the gradients of queries, keys and values of one tile; returns those of its scores, (b, h, t, s)."""
    lead = q.shape[:2]  # sequences and heads: one dimension in the products
    grad = grad if tile.empty_rows is None else grad.masked_fill(tile.empty_rows, 0.0)
    grad, q, k, v = _flat(grad), _flat(q), _flat(k), _flat(v)
    weights = _weights(q, k, lead, tile, group, tiler, bias, call.scale)
    used, scale_up = weights, 1.0
    if call.dropout > 0:
        kept, scale_up = _dropout_mask(weights, tile, group, call), dropout_mask.keep_scale(call.dropout)
        used = weights * kept
        dweights = _product(grad, v.transpose(1, 2), scale_up).mul_(kept)
    else:
        dweights = torch.bmm(grad, v.transpose(1, 2))
    dscores = _softmax_backward(dweights, weights, -1, weights.dtype)
    _multiply_into(into[0], dscores, k, call.scale, add=False)
    _multiply_into(into[1], dscores.transpose(1, 2), q, call.scale, add=shared)
    _multiply_into(into[2], used.transpose(1, 2), grad, scale_up, add=shared)
    return dscores.unflatten(0, lead)


def _weights(
    q: Tensor,
    k: Tensor,
    lead: Sequence[int],
    tile: Tile,
    group: SequenceGroup,
    tiler: Tiler,
    bias: RelativeBias | None,
    scale: float,
) -> Tensor:
    """softmax(q·k · scale + bias, where allowed) of one tile, (b h, t, s)."""
    scores = _product(q, k.transpose(1, 2), scale)
    if bias is not None or tile.hidden is not None:
        shaped = scores.unflatten(0, lead)  # (b, h, t, s), the same memory
        if bias is not None:
            shaped += bias.heads(tile.h)(*tiler.positions(group, tile.b, tile.t, tile.s, within=False))
        if tile.hidden is not None:
            shaped.masked_fill_(tile.hidden, float("-inf"))
    return torch.softmax(scores, dim=-1)


def _product(a: Tensor, b: Tensor, scale: float) -> Tensor:
    return torch.baddbmm(a.new_empty(1, 1, 1), a, b, beta=0, alpha=scale)


def _multiply_into(out: Tensor, a: Tensor, b: Tensor, scale: float, add: bool) -> None:
    """Write or add scale · a @ b of (b h, ...) matrices into `out` (b, h, rows, columns)."""
    product = _product(a, b, scale).unflatten(0, out.shape[:2])
    out.add_(product) if add else out.copy_(product)


def _flat(x: Tensor) -> Tensor:
    """(b, h, length, width) as (b h, length, width); a copy unless it is one sequence."""
    return x.flatten(0, 1)


def _dropout_mask(weights: Tensor, tile: Tile, group: SequenceGroup, call: GroupedCall) -> Tensor:
    """The dropout mask of one tile, drawn again in backward from the same seed."""
    seed = (call.seed + 1_000_003 * group.row_q + tile.number) % 2**63
    return dropout_mask.keep_mask(weights.shape, call.dropout, seed, weights)


def _empty(like: Tensor, rows: int, heads: int, width: int, plan: GroupPlan) -> Tensor:
    """An empty result; zeros where some token is in no group and would not be written."""
    make = like.new_zeros if plan.idle else like.new_empty
    return make(rows, heads, width)


def _like(x: Tensor, rows: int) -> Tensor:
    return x.new_empty(rows, *x.shape[1:])


def _scatter_back(gathered: Tensor, out: Tensor, index: GatherIndex) -> None:
    out.index_copy_(0, index.tokens, gathered.index_select(0, index.rows))


def repeat(x: Tensor, heads: int) -> Tensor:
    """Key heads (rows, G, width) repeated for the query heads that share them."""
    return x if x.shape[1] == heads else x.repeat_interleave(heads // x.shape[1], dim=1)


def _fold(x: Tensor, key_heads: int) -> Tensor:
    return x if x.shape[1] == key_heads else x.unflatten(1, (key_heads, -1)).sum(2)
