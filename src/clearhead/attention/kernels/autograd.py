"""The autograd kernel: the groups of the grouped kernel for any score and bias, differentiated by autograd."""

import torch
import torch.nn.functional as F
from torch import Tensor

from clearhead.attention.device_info import DeviceInfo
from clearhead.attention.inputs import AttentionInputs
from clearhead.attention.kernels.grouped.compute import GroupedCall, heads_first, keys_of, queries_of, repeat
from clearhead.attention.kernels.grouped.tiling import Tiler
from clearhead.attention.weights import rows as rows  # exact softmax: these are the weights it used


def unsupported_reason(inputs: AttentionInputs, dropout: float, device: DeviceInfo) -> str | None:
    return "the autograd kernel cannot enter a compiled graph" if torch.compiler.is_compiling() else None


def run(inputs: AttentionInputs, dropout: float) -> Tensor:
    plan = GroupedCall(inputs.layout_q, inputs.layout_k, inputs.mask, 1.0, dropout, 0).plan
    heads, bias = inputs.num_heads, inputs.bias
    tiler = Tiler(inputs.layout_q, inputs.layout_k, inputs.mask, heads, inputs.q.dtype, lambda count, T, S: True)
    q, k, v = inputs.q, repeat(inputs.k, heads), repeat(inputs.v, heads)
    in_place = gathered = [q, k, v]
    if plan.queries is not None and plan.keys is not None:
        gathered = [q.index_select(0, plan.queries.gather), *(x.index_select(0, plan.keys.gather) for x in (k, v))]
    by_head = [heads_first(x) for x in in_place], [heads_first(x) for x in gathered]
    parts, tokens = [inputs.zeros_with_grad(0)], [torch.zeros(0, dtype=torch.int64, device=q.device)]
    pool: list[Tensor] = []
    for group in plan.groups:
        all_q, all_k, all_v = by_head[0 if group.in_place else 1]
        gq, gk, gv = queries_of(all_q, group), keys_of(all_k, group, group.S), keys_of(all_v, group, group.S)
        outputs = []
        for tile in tiler.tiles(group):
            scores = inputs.score.pair(tile.queries(gq), tile.keys(gk), tile.h)  # (b, h, t, s)
            block = group, tile.b, tile.t, tile.s
            if bias is not None:
                scores = scores + bias(*tiler.positions(*block)).to(scores.dtype)
            masked = tile.hidden
            if tile.causal:  # the fused kernel takes a flag instead
                masked = ~inputs.mask.allows(*tiler.positions(*block, within=False)).unsqueeze(1)
            if masked is not None:
                scores = scores.masked_fill(masked, float("-inf"))
            weights = F.dropout(torch.softmax(scores, dim=-1), dropout, training=dropout > 0)
            out = weights @ tile.keys(gv)
            outputs.append(out if tile.empty_rows is None else out.masked_fill(tile.empty_rows, 0.0))
        output = torch.cat(outputs, dim=2).transpose(1, 2).flatten(0, 1)  # (count T, H, V)
        if group.in_place:
            parts.append(output)
            tokens.append(torch.arange(group.row_q, group.row_q + len(output), device=q.device))
        else:
            pool.append(output)
    if plan.queries is not None:
        parts.append(torch.cat(pool).index_select(0, plan.queries.rows))
        tokens.append(plan.queries.tokens)
    total = sum(map(len, tokens))
    order = torch.full((len(q),), total, device=q.device)
    order[torch.cat(tokens)] = torch.arange(total, device=q.device)
    # the last row is for tokens without a group
    return torch.cat([*parts, inputs.zeros_with_grad(1)]).index_select(0, order)
