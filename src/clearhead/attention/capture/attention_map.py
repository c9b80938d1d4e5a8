"""Attention map: one captured attention call, which computes the requested weights and no others."""

import csv
from collections.abc import Callable, Iterator, Sequence
from math import ceil
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from clearhead.attention import weights
from clearhead.attention.capture.bins import Bins, Pool
from clearhead.attention.inputs import AttentionInputs
from clearhead.attention.kernels import KERNELS, choose
from clearhead.attention.method import AttentionMethod
from clearhead.attention.multihead import AttentionKind

NUM_STRIPS = 16  # horizontal strips of a map; keys that no query of a strip attends to are skipped


class AttentionMap:
    """The attention of one call. Queries and keys are counted within their sequence, from 0.

    All results are exact, before dropout, detached, and in float32 or better. With `value_weighted=True` a
    weight is multiplied by the norm of its projected value, ‖value · W_O‖ (Kobayashi et al. 2020, section 2).
    """

    def __init__(
        self,
        inputs: AttentionInputs,
        kind: AttentionKind = "self",
        kernel: str = "auto",
        output: Tensor | None = None,
        method: AttentionMethod | None = None,
    ) -> None:
        exact = inputs if method is None else method.exact_inputs(inputs)
        self.inputs = inputs if exact is None else exact
        self.kind: AttentionKind = kind
        self._method = method if exact is None else None  # weights that are no softmax over keys
        self.kernel = method.kind if method is not None else choose(inputs, 0.0) if kernel == "auto" else kernel
        self._output = output  # (D, H V), the output projection
        self._logsumexp: dict[tuple[int, int], Tensor] = {}  # (sequence, head) to logsumexp (T,), cached between tiles

    @property
    def num_heads(self) -> int:
        return self.inputs.num_heads

    @property
    def num_sequences(self) -> int:
        return self.inputs.layout_q.num_sequences

    def shape(self, sequence: int = 0) -> tuple[int, int]:
        """The number of queries and keys of a sequence."""
        return self.inputs.layout_q.host_lengths[sequence], self.inputs.layout_k.host_lengths[sequence]

    def rows(
        self, queries: Sequence[int] | slice, head: int, sequence: int = 0, *, value_weighted: bool = False
    ) -> Tensor:
        """The weights of some queries over all keys, (len, S)."""
        self._check(head, sequence)
        count = self.shape(sequence)[0]
        if not isinstance(queries, slice):
            if bad := [i for i in queries if not -count <= i < count]:
                raise ValueError(f"sequence {sequence} has queries 0 to {count - 1}, not {bad}")
            queries = [i % count for i in queries]
        # the kernels of transformers and sparse methods are exact softmax
        kernel = self._method or KERNELS.get(self.kernel, KERNELS["reference"])
        result = kernel.rows(self.inputs, sequence, head, queries)
        return result * self.norms(head, sequence) if value_weighted else result

    def head(self, head: int, sequence: int = 0, *, value_weighted: bool = False) -> Tensor:
        """All weights of one head, (T, S)."""
        self._check(head, sequence)
        out = torch.empty(self.shape(sequence), dtype=self._dtype)
        for block in self._blocks(sequence):
            out[block] = self.rows(block, head, sequence, value_weighted=value_weighted)
        return out

    def heads(self, sequence: int = 0, *, value_weighted: bool = False) -> Tensor:
        """All weights of all heads, (H, T, S)."""
        return torch.stack([self.head(h, sequence, value_weighted=value_weighted) for h in range(self.num_heads)])

    def norms(self, head: int, sequence: int = 0) -> Tensor:
        """‖value · W_O‖ of each key, (S,): the contribution of a weight of 1."""
        self._check(head, sequence)
        if self._output is None:
            raise ValueError("this attention has no known output projection, so value-weighted maps are not available")
        v = self.inputs.v[self.inputs.layout_k.rows(sequence), head // self.inputs.repeats].to(self._dtype)  # (S, V)
        width = v.shape[1]
        projection = self._output.detach()[:, head * width : (head + 1) * width].to(self._dtype)  # (D, V)
        # ‖W v‖² = v·(WᵀW)v: never more than (S, V) in memory
        return ((v @ (projection.T @ projection)) * v).sum(-1).clamp_min(0).sqrt()

    def tile(
        self,
        head: int,
        queries: slice = slice(None),
        keys: slice = slice(None),
        *,
        size: tuple[int, int] | None = None,
        pool: Pool = "max",
        sequence: int = 0,
        value_weighted: bool = False,
    ) -> Tensor:
        """A block of the weights, pooled to at most `size` cells; memory is bounded.

        Cells are as even as whole tokens allow. "max" keeps the strongest weight of a cell, "mean" the average.
        """
        self._check(head, sequence)
        if pool not in ("max", "mean"):
            raise ValueError(f"pool {pool!r}: choose 'max' or 'mean'")
        T, S = self.shape(sequence)
        (q0, q1, _), (k0, k1, _) = queries.indices(T), keys.indices(S)
        if q0 >= q1 or k0 >= k1:
            raise ValueError(f"an empty block: queries {q0} to {q1}, keys {k0} to {k1} of a {T} x {S} map")
        tall, wide = (q1 - q0, k1 - k0) if size is None else (min(size[0], q1 - q0), min(size[1], k1 - k0))
        if tall < 1 or wide < 1:
            raise ValueError(f"size {size}: at least one cell each way")
        rows, columns = Bins(q0, q1, tall), Bins(k0, k1, wide)
        if self._method is not None:
            return self._pooled_rows(head, sequence, rows, columns, pool, value_weighted)
        logsumexp = None if (k0, k1) == (0, S) else self._row_logsumexp(head, sequence)
        norms = self.norms(head, sequence) if value_weighted else None
        logs = torch.full((T,), float("-inf"), dtype=self._dtype)
        out = torch.zeros(tall, wide, dtype=self._dtype)  # 0 where no query attends to a key
        all_scores = weights.HeadScores(self.inputs, sequence, head, columns.table)
        step = ceil(tall / NUM_STRIPS)
        for run in (slice(lo, min(lo + step, tall)) for lo in range(0, tall, step)):
            touched = all_scores.touched(rows.subset(run).members)
            visible = columns.subset(touched)
            if not visible.table.numel():
                continue
            scores = all_scores if visible.table.shape == columns.table.shape else all_scores.of(touched)
            key_norms = None if norms is None else norms[visible.table]
            for block in weights.blocks(run.stop - run.start, visible.table.numel() * rows.depth, run.start):
                part = rows.subset(block)
                scored = scores(part.members).view(-1, *visible.table.shape)  # (part.depth tall', visible.depth, wide')
                if visible.real is not None:
                    scored.masked_fill_(~visible.real, float("-inf"))
                known = None if logsumexp is None else logsumexp[part.members]
                pooled, ends = _pooled(scored, visible, pool, key_norms, known)
                out[block, touched] = part.pool(pooled.view(part.depth, block.stop - block.start, -1), 0, pool)
                logs[part.members] = ends
        if logsumexp is None and (q0, q1) == (0, T):
            self._logsumexp[sequence, head] = logs  # for tiles of a part
        return out

    def overview(
        self, head: int, size: int = 512, *, pool: Pool = "max", sequence: int = 0, value_weighted: bool = False
    ) -> Tensor:
        """The whole map of a head, pooled to at most `size` x `size` cells."""
        return self.tile(head, size=(size, size), pool=pool, sequence=sequence, value_weighted=value_weighted)

    def entropy(self, sequence: int = 0) -> Tensor:
        """The entropy of each head in nats, averaged over its queries, (H,)."""
        return self._average(sequence, lambda w, rows: torch.special.entr(w).sum(-1))

    def distance(self, sequence: int = 0) -> Tensor:
        """The mean attention distance of each head in tokens, averaged over its queries, (H,)."""
        at_q = self.inputs.layout_q.positions[self.inputs.layout_q.rows(sequence)].to(self._dtype)
        at_k = self.inputs.layout_k.positions[self.inputs.layout_k.rows(sequence)].to(self._dtype)
        return self._average(sequence, lambda w, rows: (w * (at_q[rows, None] - at_k).abs()).sum(-1))

    def propagate(self, flow: Tensor, sequence: int = 0) -> Tensor:
        """`flow` (n, T) through the mean of the heads' weights, (n, S), block by block."""
        out = torch.zeros(flow.shape[0], self.shape(sequence)[1], dtype=flow.dtype)
        for head in range(self.num_heads):
            for block in self._blocks(sequence):
                out += flow[:, block] @ self.rows(block, head, sequence).to(flow.dtype)
        return out / self.num_heads

    def numpy(self, head: int, sequence: int = 0, *, value_weighted: bool = False) -> np.ndarray:
        """All weights of one head as a NumPy array, (T, S)."""
        return self.head(head, sequence, value_weighted=value_weighted).numpy()

    def to_csv(
        self,
        path: str | Path,
        head: int,
        sequence: int = 0,
        *,
        queries: Sequence[str] | None = None,
        keys: Sequence[str] | None = None,
        value_weighted: bool = False,
    ) -> None:
        """Write one head as a table, a line per query and a column per key, named by the given tokens or by number."""
        T, S = self.shape(sequence)
        names_q = [str(i) for i in range(T)] if queries is None else queries
        names_k = [str(i) for i in range(S)] if keys is None else keys
        if len(names_q) != T or len(names_k) != S:
            raise ValueError(f"the map is {T} x {S}, but {len(names_q)} query and {len(names_k)} key names were given")
        with open(path, "w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow(["", *names_k])
            for block in self._blocks(sequence):
                rows = self.rows(block, head, sequence, value_weighted=value_weighted)
                for i, row in enumerate(rows, block.start):
                    writer.writerow([names_q[i], *(f"{w:.9g}" for w in row.tolist())])

    def __repr__(self) -> str:
        sizes = f"{self.num_heads} heads, {self.num_sequences} sequences"
        return f"AttentionMap({self.kind}, {sizes}, {self.kernel} kernel)"

    @property
    def _dtype(self) -> torch.dtype:
        return torch.promote_types(self.inputs.q.dtype, torch.float32)

    def _check(self, head: int, sequence: int) -> None:
        if not 0 <= head < self.num_heads:
            raise ValueError(f"there is no head {head}: heads are 0 to {self.num_heads - 1}")
        if not 0 <= sequence < self.num_sequences:
            raise ValueError(f"there is no sequence {sequence}: the batch has 0 to {self.num_sequences - 1}")

    def _blocks(self, sequence: int) -> Iterator[slice]:
        return weights.blocks(*self.shape(sequence))

    def _pooled_rows(
        self, head: int, sequence: int, rows: Bins, columns: Bins, pool: Pool, value_weighted: bool
    ) -> Tensor:
        """A tile of weights that are no softmax over keys: whole rows, then pooled, (tall, wide)."""
        tall, wide = rows.table.shape[1], columns.table.shape[1]
        out = torch.empty(tall, wide, dtype=self._dtype)
        for block in weights.blocks(tall, self.shape(sequence)[1] * rows.depth):
            part = rows.subset(block)
            found = self.rows(part.members.tolist(), head, sequence, value_weighted=value_weighted)
            pooled = columns.pool(found[:, columns.table], 1, pool)  # (depth tall', wide)
            out[block] = part.pool(pooled.view(part.depth, -1, wide), 0, pool)
        return out

    def _row_logsumexp(self, head: int, sequence: int) -> Tensor:
        """Logsumexp of the scores of each query, (T,): it turns any block of scores into weights."""
        if (sequence, head) not in self._logsumexp:
            self.overview(head, sequence=sequence)  # stores them
        return self._logsumexp[sequence, head]

    def _average(self, sequence: int, statistic: Callable[[Tensor, slice], Tensor]) -> Tensor:
        """The mean over queries of a statistic of their weights, per head, (H,)."""
        total = torch.zeros(self.num_heads, dtype=self._dtype)
        for head in range(self.num_heads):
            for block in self._blocks(sequence):
                total[head] += statistic(self.rows(block, head, sequence), block).sum()
        return total / max(self.shape(sequence)[0], 1)


def _pooled(
    scored: Tensor, columns: Bins, pool: Pool, norms: Tensor | None, logsumexp: Tensor | None
) -> tuple[Tensor, Tensor]:
    """Scores (t, depth, wide) to pooled weights (t, wide), and the logsumexp of each row (`logsumexp` if given)."""
    flat = scored.flatten(1)  # (t, depth wide), the same memory
    if pool == "max" and norms is None:  # the largest weight of a cell is that of its largest score
        peaks = scored.amax(1)  # (t, wide)
        logsumexp = weights.log_sums(flat, peaks.amax(1)) if logsumexp is None else logsumexp
        return weights.exponentials(peaks, logsumexp), logsumexp
    logsumexp = weights.log_sums(flat.clone(), flat.amax(1)) if logsumexp is None else logsumexp
    weights.exponentials(flat, logsumexp)
    return columns.pool(scored if norms is None else scored.mul_(norms), 1, pool), logsumexp
