"""The reference kernel: one sequence at a time, written to be read. All others are tested against it."""

import torch
import torch.nn.functional as F
from torch import Tensor

from clearhead.attention.device_info import DeviceInfo
from clearhead.attention.inputs import AttentionInputs
from clearhead.attention.weights import rows as rows  # the same softmax, for some rows


def unsupported_reason(inputs: AttentionInputs, dropout: float, device: DeviceInfo) -> str | None:
    return None


def run(inputs: AttentionInputs, dropout: float) -> Tensor:
    """softmax(score(q, k) + bias, where the mask allows) · v, for each sequence: (N, H, V)."""
    outputs = [inputs.zeros_with_grad(0)]
    for sequence in range(inputs.layout_q.num_sequences):
        weights = dense_weights(inputs, sequence)  # (H, T, S)
        weights = F.dropout(weights, dropout, training=dropout > 0)
        v = inputs.v[inputs.layout_k.rows(sequence)].repeat_interleave(inputs.repeats, dim=1)  # (S, H, V)
        outputs.append(torch.einsum("hts,shv->thv", weights, v))
    return torch.cat(outputs)


def dense_weights(inputs: AttentionInputs, sequence: int) -> Tensor:
    """The attention weights of one sequence, (H, T, S). A fully masked row is all zeros."""
    rows_q, rows_k = inputs.layout_q.rows(sequence), inputs.layout_k.rows(sequence)
    q = inputs.q[rows_q].transpose(0, 1)  # (H, T, K)
    k = inputs.k[rows_k].repeat_interleave(inputs.repeats, dim=1).transpose(0, 1)  # (H, S, K)
    sequence_index = torch.tensor([[[sequence]]], device=q.device)
    t = inputs.layout_q.positions[rows_q].view(1, -1, 1)
    s = inputs.layout_k.positions[rows_k].view(1, 1, -1)

    scores = inputs.score.pair(q, k)
    if inputs.bias is not None:
        scores = scores + inputs.bias(sequence_index, t, s)[0].to(scores.dtype)
    allowed = inputs.mask.allows_heads(sequence, range(inputs.num_heads), t[0], s[0])  # (H or 1, T, S)
    empty = ~allowed.any(-1, keepdim=True)  # (H or 1, T, 1)
    scores = scores.masked_fill(~(allowed | empty), float("-inf"))
    return torch.softmax(scores, dim=-1).masked_fill(empty, 0.0)
