"""Attention as Reformer computes it: sorted chunks of hashed tokens, and chunks of neighbours (Kitaev et al. 2020).

Both depend on the length of a text, which is filled up to whole chunks: a text of at most one chunk is read in full.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from clearhead.attention.inputs import AttentionInputs
from clearhead.attention.masks import Mask
from clearhead.attention.method import AttentionMethod, SparseMethod, at_least
from clearhead.attention.weights import Which
from clearhead.efficient.block_mask import BlockMask

SELF, NEVER = -1e5, -1e9  # scores of a token with itself, and of pairs that are not allowed
EPS = 1e-6


def filled_up(length: int, unit: int, minimum: int) -> int:
    """The length of a text with the padding that Reformer adds: a multiple of `unit`, above `minimum` tokens."""
    return length if length <= minimum else -(-length // unit) * unit


class ReformerLocal(SparseMethod):
    """Chunks of tokens that attend to their own chunk, `before` chunks to the left and `after` to the right.

    The first chunk of a text reads the last one as its left neighbour, where the mask allows it. `unit` and `minimum`
    are the least common multiple and the smallest of the chunk lengths of all layers.
    """

    kind = "reformer_local"

    def __init__(
        self, *, chunk: int = 64, before: int = 1, after: int = 0, unit: int | None = None, minimum: int | None = None
    ) -> None:
        super().__init__()
        at_least(1, chunk=chunk)
        at_least(0, before=before, after=after)
        self.chunk, self.before, self.after = chunk, before, after
        self.unit, self.minimum = unit or chunk, minimum or chunk

    def mask(self, inputs: AttentionInputs) -> Mask:
        ends = tuple(s + n for s, n in zip(inputs.layout_k.host_starts, inputs.layout_k.host_lengths, strict=True))
        key = (self.kind, *self.options.values(), ends)
        return inputs.layout_k.memoize(key, lambda: BlockMask(self._table(ends), self.chunk, name=key))

    def _table(self, ends: tuple[int, ...]) -> Tensor:
        """Which chunks are allowed, (B, 1, n, n)."""
        counts = [-(-filled_up(end, self.unit, self.minimum) // self.chunk) for end in ends]
        n = max(1, *counts) if counts else 1
        i, j = torch.arange(n).unsqueeze(1), torch.arange(n)
        tables = []
        for count in counts:
            right, left = (j - i) % max(count, 1), (i - j) % max(count, 1)  # how many chunks further, in a ring
            tables.append((right <= self.after) | (left <= self.before))
        return torch.stack(tables).unsqueeze(1) if tables else torch.ones(1, 1, n, n, dtype=torch.bool)


@dataclass(frozen=True, eq=False)
class _Chunks:
    """Sorted tokens of all rounds, cut into chunks: scores with their places in the text."""

    queries: Tensor  # (H, C, c): positions
    keys: Tensor  # (H, C, s)
    weights: Tensor  # (H, C, c, s): the softmax of a chunk
    logs: Tensor  # (H, C, c): logsumexp of the scores
    size: int  # P: the tokens of the text, filled up

    def totals(self) -> Tensor:
        """Logsumexp of the scores of each token over all rounds, (H, P)."""
        order, logs = self.queries.flatten(1), self.logs.flatten(1)
        by_token = logs.gather(1, order.argsort(dim=1, stable=True))
        return by_token.unflatten(1, (self.size, -1)).logsumexp(2)


class ReformerLSH(AttentionMethod):
    """Queries that are keys too, sorted by their hash buckets and cut into chunks that attend to their neighbours.

    Keys are the queries, normalized; a token reads itself only where it finds no other. Each of several `rounds` has
    buckets of its own; a pair that several rounds find counts as often. `buckets` are as many as Reformer chooses for
    the length of a text where none are given; two numbers are factors. Directions are drawn for each head from `seed`.
    """

    kind = "reformer_lsh"
    shares_query_key = True

    def __init__(
        self,
        *,
        chunk: int = 64,
        before: int = 1,
        after: int = 0,
        rounds: int = 1,
        buckets: int | tuple[int, ...] | list[int] | None = None,
        seed: int = 0,
        unit: int | None = None,
        minimum: int | None = None,
        max_len: int = 4096,
    ) -> None:
        super().__init__()
        at_least(1, chunk=chunk, rounds=rounds, max_len=max_len)
        at_least(0, before=before, after=after, seed=seed)
        self.buckets = tuple(buckets) if isinstance(buckets, list) else buckets
        for count in self.buckets if isinstance(self.buckets, tuple) else (self.buckets,) if self.buckets else ():
            if isinstance(count, bool) or not isinstance(count, int) or count < 2 or count % 2:
                raise ValueError(f"buckets is {buckets!r}: numbers of buckets are even, a direction and its opposite")
        self.chunk, self.before, self.after, self.rounds, self.seed = chunk, before, after, rounds, seed
        self.unit, self.minimum, self.max_len = unit or chunk, minimum or chunk, max_len

    def forward(self, inputs: AttentionInputs, dropout: float = 0.0) -> Tensor:
        inputs.require_dot_products("Reformer's LSH")
        outputs = [inputs.zeros_with_grad(0)]
        for sequence in range(inputs.layout_q.num_sequences):
            count = inputs.layout_q.host_lengths[sequence]
            outputs.append(self._attend(inputs, sequence, dropout).transpose(0, 1)[-count:] if count else outputs[0])
        return torch.cat(outputs)

    @torch.no_grad()
    def rows(self, inputs: AttentionInputs, sequence: int, head: int, queries: Which) -> Tensor:
        _, states, _ = inputs.heads_of(sequence)
        length, count = states.shape[1], inputs.layout_q.host_lengths[sequence]
        device = states.device
        wanted = torch.arange(length - count, length, device=device)[queries]
        chunks = self._chunks(states, inputs.mask.band[1] == 0)
        row = torch.full((chunks.size,), -1, device=device)
        row[wanted] = torch.arange(len(wanted), device=device)
        share = (chunks.logs[head] - chunks.totals()[head][chunks.queries[head]]).exp()  # (C, c)
        pairs = chunks.weights[head].shape  # (C, c, s)
        i, j = row[chunks.queries[head]].unsqueeze(2).expand(pairs), chunks.keys[head].unsqueeze(1).expand(pairs)
        out = share.new_zeros(len(wanted), chunks.size)
        weights = chunks.weights[head] * share.unsqueeze(2)
        out.view(-1).index_add_(0, (i * chunks.size + j)[i >= 0], weights[i >= 0])
        return out[:, :length].to(torch.promote_types(inputs.q.dtype, torch.float32))

    def _attend(self, inputs: AttentionInputs, sequence: int, dropout: float) -> Tensor:
        """The output of a sequence for all of its keys, (H, S, V)."""
        _, states, v = inputs.heads_of(sequence)
        heads, length, width = v.shape
        chunks = self._chunks(states, inputs.mask.band[1] == 0)
        values = _take(F.pad(v, (0, 0, 0, chunks.size - length)), chunks.keys)  # (H, C, s, V)
        out = F.dropout(chunks.weights, dropout, training=dropout > 0) @ values
        order = chunks.queries.flatten(1)
        share = (chunks.logs.flatten(1) - chunks.totals().gather(1, order)).exp().unsqueeze(2)  # of a round
        rows = (order + chunks.size * torch.arange(heads, device=order.device).unsqueeze(1)).flatten()
        summed = out.new_zeros(heads * chunks.size, width)
        summed = summed.index_add(0, rows, (out.flatten(1, 2) * share).flatten(0, 1))
        return summed.view(heads, chunks.size, width)[:, :length]

    def _chunks(self, states: Tensor, causal: bool) -> _Chunks:
        """The scores of a text (H, S, K) chunk by chunk."""
        heads, length, width = states.shape
        size = filled_up(length, self.unit, self.minimum)
        states = F.pad(states, (0, 0, 0, size - length))
        keys = states * (states.square().mean(-1, keepdim=True) + EPS).rsqrt() / math.sqrt(width)
        if size <= self.chunk:
            order = torch.arange(size, device=states.device).expand(heads, 1, size)
            near = order
        else:
            order = self._order(states.detach(), length).unflatten(1, (-1, self.chunk))  # (H, C, c)
            near = torch.cat([order.roll(-i, 1) for i in range(-self.before, self.after + 1)], dim=2)
        scores = _take(states, order) @ _take(keys, near).transpose(2, 3)  # (H, C, c, s)
        query, key = order.unsqueeze(3), near.unsqueeze(2)
        never = key >= length
        if causal:
            never = never | (query < key)
        scores = scores.masked_fill(never, NEVER).masked_fill(query == key, SELF)  # finite: nothing else may be left
        logs = scores.logsumexp(3)
        return _Chunks(order, near, (scores - logs.unsqueeze(3)).exp(), logs, size)

    def _order(self, states: Tensor, length: int) -> Tensor:
        """The positions (H, R P) of all rounds, sorted by bucket, then by position; padding comes last in a round."""
        heads, size, width = states.shape
        factors = self._factors(size)
        generator = torch.Generator().manual_seed(self.seed)
        shape = heads, width, self.rounds, sum(factors) // 2
        directions = torch.randn(shape, generator=generator, device="cpu").to(states)
        turned = torch.einsum("hsk,hkrn->hrsn", states, directions)
        bucket, product = torch.zeros(turned.shape[:3], dtype=torch.int64, device=states.device), 1
        for part, count in zip(turned.split([n // 2 for n in factors], dim=3), factors, strict=True):
            bucket = bucket + product * torch.cat([part, -part], dim=3).argmax(3)
            product *= count
        bucket[:, :, length:] = product
        place = (bucket * size + torch.arange(size, device=states.device)).argsort(2)  # (H, R, P)
        return place.flatten(1)

    def _factors(self, size: int) -> tuple[int, ...]:
        """The numbers of buckets whose product is used for a text of this length."""
        if self.buckets is not None:
            return (self.buckets,) if isinstance(self.buckets, int) else self.buckets
        power = (2 * (size // self.chunk)).bit_length() - 1
        if 2**power > 2 * max(math.isqrt(self.max_len // self.chunk), self.chunk):
            return 2 ** (power // 2), 2 ** (power - power // 2)
        return (2**power,)


def _take(x: Tensor, rows: Tensor) -> Tensor:
    """Rows (H, C, c) of each head (H, P, width), (H, C, c, width)."""
    return x.gather(1, rows.flatten(1).unsqueeze(2).expand(-1, -1, x.shape[2])).unflatten(1, rows.shape[1:])
