"""The reference kernel: one sequence at a time, every step visible. The truth the others are tested against."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from clearhead.attention.call import Call
from clearhead.attention.weights import rows as rows  # the same softmax, for some rows


def refuse(call: Call, dropout: float) -> str | None:
    """It can do everything."""
    return None


def run(call: Call, dropout: float) -> Tensor:
    """softmax(score(q, k) + bias, where the mask allows) · v, for each sequence: (N, H, V)."""
    outputs = [call.nothing(0)]
    for sequence in range(call.layout_q.num_sequences):
        weights = weigh(call, sequence)  # (H, T, S)
        weights = F.dropout(weights, dropout, training=dropout > 0)
        v = call.v[call.layout_k.rows(sequence)].repeat_interleave(call.repeats, dim=1)  # (S, H, V)
        outputs.append(torch.einsum("hts,shv->thv", weights, v))
    return torch.cat(outputs)


def weigh(call: Call, sequence: int) -> Tensor:
    """The attention weights of one sequence, (H, T, S). A row that may attend to nothing is all zeros."""
    rows_q, rows_k = call.layout_q.rows(sequence), call.layout_k.rows(sequence)
    q = call.q[rows_q].transpose(0, 1)  # (H, T, K)
    k = call.k[rows_k].repeat_interleave(call.repeats, dim=1).transpose(0, 1)  # (H, S, K)
    where = torch.tensor([[[sequence]]], device=q.device)
    t = call.layout_q.positions[rows_q].view(1, -1, 1)
    s = call.layout_k.positions[rows_k].view(1, 1, -1)

    scores = call.score.pair(q, k)
    if call.bias is not None:
        scores = scores + call.bias(where, t, s)[0].to(scores.dtype)
    allowed = call.mask.allows(where, t, s).expand(1, t.shape[1], s.shape[2])  # (1, T, S)
    dead = ~allowed.any(-1, keepdim=True)  # (1, T, 1)
    scores = scores.masked_fill(~(allowed | dead), float("-inf"))
    return torch.softmax(scores, dim=-1).masked_fill(dead, 0.0)
