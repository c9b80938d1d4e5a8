"""The bucketed kernel: sequences padded to a few common lengths, all their heads in a handful of batched products.

Each head of each sequence is copied into a bucket of a round number of tokens: a few batched products replace
hundreds of small ones, and their shapes repeat. Padding rows are zeros and are masked. Weights that dropout removes are
kept for the backward pass with a negative sign, so that one array holds both.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from clearhead.attention import dropout_mask
from clearhead.attention.device_info import DeviceInfo
from clearhead.attention.inputs import AttentionInputs
from clearhead.attention.masks import Causal, Full
from clearhead.attention.tuning import TUNING
from clearhead.attention.weights import rows as rows  # exact softmax: these are the weights it used

MASKED_SCORE = -1e9  # added to a masked score; its exponential is 0

_softmax_backward = torch.ops.aten._softmax_backward_data.default
_where_positive = torch.ops.aten.threshold_backward.default


@dataclass(frozen=True, eq=False)
class Bucket:
    """Sequences of similar length: `count` buckets of `side` tokens, one per sequence and head."""

    count: int
    side: int
    additive_mask: Tensor  # (count or 1, 1 or side, side)

    def dtype(self, like: Tensor) -> torch.dtype:
        """Short buckets compute in float32: oneDNN would compile code for each bfloat16 shape."""
        return torch.float32 if self.side <= TUNING.bucket_max_len else like.dtype


@dataclass(frozen=True, eq=False)
class BucketIndex:
    """The gather of rows into buckets, and scatter."""

    gather: Tensor  # (rows of all buckets,) the row of the batch that each holds
    scatter: Tensor  # (N H,) the inverse


@dataclass(frozen=True, eq=False)
class BucketPlan:
    """The buckets of a batch and the rows (token, head) in them; padding is gathered from one row after the last."""

    buckets: tuple[Bucket, ...]
    queries: BucketIndex
    keys: BucketIndex


@dataclass(frozen=True, eq=False)
class SoftmaxArgs:
    """The scale of scores, and dropout with its seed."""

    scale: float
    dropout: float
    seed: int

    @property
    def keep_scale(self) -> float:
        return dropout_mask.keep_scale(self.dropout) if self.dropout else 1.0


def unsupported_reason(inputs: AttentionInputs, dropout: float, device: DeviceInfo) -> str | None:
    """Dot products without a bias on a CPU; full masks, or causal self-attention."""
    q, a, b = inputs.q, inputs.layout_q, inputs.layout_k
    if device.type != "cpu" or q.dtype not in (torch.bfloat16, torch.float32):
        return f"it computes in float32 and bfloat16 on a CPU, not in {q.dtype} on {device.type}"
    if torch.compiler.is_compiling():
        return "the bucketed kernel does not trace"
    if inputs.scale is None or inputs.bias is not None:
        return "it supports dot-product scores without a bias"
    if inputs.repeats > 1 or q.shape[2] != inputs.v.shape[2]:
        return "queries, keys and values must have equal heads and widths"
    if not a.num_sequences:
        return "the batch has no sequence"
    same = a.host_lengths == b.host_lengths and a.host_starts == b.host_starts
    if isinstance(inputs.mask, Full) or (isinstance(inputs.mask, Causal) and same):
        return None
    return "it supports full masks, and causal masks where queries and keys have equal positions"


def run(inputs: AttentionInputs, dropout: float) -> Tensor:
    plan = _plan(inputs)
    assert inputs.scale is not None
    args = SoftmaxArgs(inputs.scale, dropout, int(torch.randint(2**62, ())) if dropout else 0)
    if inputs.needs_grad:
        return _BucketedAttention.apply(inputs.q, inputs.k, inputs.v, plan, args)
    gathered = _gather(inputs.q, plan.queries), _gather(inputs.k, plan.keys), _gather(inputs.v, plan.keys)
    return _scatter(_forward(*gathered, plan, args)[0], plan.queries, inputs.num_heads)


def _forward(
    q: Tensor, k: Tensor, v: Tensor, plan: BucketPlan, args: SoftmaxArgs, keep: bool = False
) -> tuple[Tensor, list[Tensor]]:
    """The output of each row, and the weights of every bucket; those that dropout removed are negative."""
    out, kept = torch.empty_like(q), list[Tensor]()
    with torch.autocast("cpu", enabled=False):  # scores and weights are float32 also under autocast
        for i, (bucket, (gq, gk, gv, gout)) in enumerate(_each(plan.buckets, q, k, v, out)):
            scores = torch.baddbmm(bucket.additive_mask, gq.float(), gk.float().transpose(1, 2), alpha=args.scale)
            weights = torch.softmax(scores, -1)
            used = weights.to(bucket.dtype(q))
            if args.dropout:
                weights = dropout_mask.negate_dropped(used, args.dropout, args.seed + i)
                used = torch.relu(weights)
            _product_into(gout, used, gv, args.keep_scale)
            if keep:
                kept.append(weights)
    return out, kept


class _BucketedAttention(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, q: Tensor, k: Tensor, v: Tensor, plan: BucketPlan, args: SoftmaxArgs) -> Tensor:
        gathered = _gather(q, plan.queries), _gather(k, plan.keys), _gather(v, plan.keys)
        out, weights = _forward(*gathered, plan, args, keep=True)
        ctx.save_for_backward(*gathered, *weights)
        ctx.plan, ctx.args, ctx.heads = plan, args, q.shape[1]
        return _scatter(out, plan.queries, ctx.heads)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:  # type: ignore[override]
        q, k, v, *kept = ctx.saved_tensors
        plan, args = ctx.plan, ctx.args
        grad = _gather(grad, plan.queries)
        dq, dk, dv = torch.empty_like(q), torch.empty_like(k), torch.empty_like(v)
        rows = _each(plan.buckets, q, k, v, grad, dq, dk, dv)
        for (bucket, (gq, gk, gv, ggrad, gdq, gdk, gdv)), weights in zip(rows, kept, strict=True):
            # in float32: the softmax backward subtracts their mean
            dweights = torch.bmm(ggrad.float(), gv.float().transpose(1, 2))
            used, wide = weights.to(bucket.dtype(q)), weights.float()
            if args.dropout:
                used, dweights = torch.relu(used), _where_positive(dweights, wide, 0)
                wide = wide.abs()
            dscores = _softmax_backward(dweights, wide, -1, torch.float32).to(used.dtype)
            _product_into(gdq, dscores, gk, args.scale * args.keep_scale)
            _product_into(gdk, dscores.transpose(1, 2), gq, args.scale * args.keep_scale)
            _product_into(gdv, used.transpose(1, 2), ggrad, args.keep_scale)
        result = [_scatter(d, index, ctx.heads) for d, index in ((dq, plan.queries), (dk, plan.keys), (dv, plan.keys))]
        return *result, None, None


def _product_into(out: Tensor, a: Tensor, b: Tensor, scale: float) -> None:
    """Write scale · a @ b, computed in the dtype of a, into `out`."""
    if out.dtype == a.dtype:
        torch.baddbmm(out, a, b, beta=0, alpha=scale, out=out)
    else:
        out.copy_(torch.baddbmm(a.new_empty(1, 1, 1), a, b.to(a.dtype), beta=0, alpha=scale))


def _each(buckets: Sequence[Bucket], *gathered: Tensor) -> Any:
    """The buckets, each with its part of every gathered matrix, (count, side, width)."""
    begin = 0
    for bucket in buckets:
        rows = slice(begin, begin + bucket.count * bucket.side)
        begin = rows.stop
        yield bucket, [x[rows].view(bucket.count, bucket.side, -1) for x in gathered]


def _gather(x: Tensor, index: BucketIndex) -> Tensor:
    """(N, H, K) to the rows of all buckets, (rows, K)."""
    width = x.shape[2]
    return torch.cat([x.reshape(-1, width), x.new_zeros(1, width)]).index_select(0, index.gather)


def _scatter(gathered: Tensor, index: BucketIndex, heads: int) -> Tensor:
    return gathered.index_select(0, index.scatter).unflatten(0, (-1, heads))


def _plan(inputs: AttentionInputs) -> BucketPlan:
    sizes, causal = inputs.layout_k.host_lengths, isinstance(inputs.mask, Causal)
    key = "buckets", sizes, inputs.num_heads, causal
    lengths, heads = inputs.layout_q.host_lengths, inputs.num_heads
    return inputs.layout_q.memoize(key, lambda: plan_buckets(lengths, sizes, heads, causal))


def plan_buckets(sizes_q: Sequence[int], sizes_k: Sequence[int], heads: int, causal: bool) -> BucketPlan:
    """Plan the buckets of sequences with these query and key lengths."""
    lengths = np.array(sizes_q), np.array(sizes_k)
    starts = [np.cumsum(n) - n for n in lengths]
    padding_rows = [int(n.sum()) * heads for n in lengths]  # the padding row
    sides = _sides(np.maximum(*lengths))
    buckets: list[Bucket] = []
    rows: tuple[list[np.ndarray], list[np.ndarray]] = ([], [])
    for members, side in _blocks(sides, heads):
        place = np.arange(side)
        for n, start, padding, result in zip(lengths, starts, padding_rows, rows, strict=True):
            token = np.where(place < n[members, None], start[members, None] + place, -1)
            row = token[:, None, :] * heads + np.arange(heads)[:, None]  # (members, H, side)
            result.append(np.where(token[:, None, :] < 0, padding, row).reshape(-1))
        if causal:
            mask = np.triu(np.full((1, side, side), MASKED_SCORE, dtype=np.float32), 1)
        else:
            mask = np.where(place < lengths[1][members, None], 0.0, MASKED_SCORE).astype(np.float32)
            mask = np.repeat(mask, heads, axis=0)[:, None, :]  # (members H, 1, side)
        buckets.append(Bucket(len(members) * heads, side, torch.from_numpy(mask)))
    queries, keys = (_index(np.concatenate(part), padding) for part, padding in zip(rows, padding_rows, strict=True))
    return BucketPlan(tuple(buckets), queries, keys)


def _index(gather: np.ndarray, padding: int) -> BucketIndex:
    scatter = np.empty(padding + 1, dtype=np.int64)
    scatter[gather] = np.arange(len(gather))
    return BucketIndex(torch.from_numpy(gather), torch.from_numpy(scatter[:-1]))


def _sides(lengths: np.ndarray) -> np.ndarray:
    unit = np.where(lengths <= TUNING.bucket_max_len, TUNING.bucket_multiple, TUNING.bucket_multiple_long)
    return np.maximum(1, -(-lengths // unit)) * unit


def _blocks(sides: np.ndarray, heads: int) -> list[tuple[np.ndarray, int]]:
    """The sequences of each side, as many at a time as the CPU cache holds."""
    result = []
    for side in np.unique(sides).tolist():
        members, capacity = np.flatnonzero(sides == side), max(1, TUNING.block_scores // (heads * side**2))
        result += [(members[i : i + capacity], side) for i in range(0, len(members), capacity)]
    return result
