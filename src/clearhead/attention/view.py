"""View: one attention call that was looked at; it computes the weights that are asked for, and no others."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator, Sequence
from math import ceil
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from clearhead.attention import weights
from clearhead.attention.call import Call
from clearhead.attention.cells import Cells, Pool
from clearhead.attention.kernels import KERNELS, choose
from clearhead.attention.multihead import Kind

RUNS = 16  # parts of a map, from top to bottom, for which the keys that nobody sees are left out together


class View:
    """The attention of one call. Queries and keys are counted within their sequence, from 0.

    All results are exact, before dropout, detached, and in float32 or better. With `moved=True` a weight is
    multiplied by the norm of what it moves, ‖value · W_O‖ (Kobayashi et al. 2020, section 2).
    """

    def __init__(self, call: Call, kind: Kind = "self", kernel: str = "auto", output: Tensor | None = None) -> None:
        self.call = call
        self.kind: Kind = kind
        self.kernel = choose(call, 0.0) if kernel == "auto" else kernel
        self._output = output  # (D, H V), the output projection
        self._sums: dict[tuple[int, int], Tensor] = {}  # (sequence, head) to normalisers (T,), kept between tiles

    @property
    def num_heads(self) -> int:
        return self.call.num_heads

    @property
    def num_sequences(self) -> int:
        return self.call.layout_q.num_sequences

    def shape(self, sequence: int = 0) -> tuple[int, int]:
        """How many queries and keys a sequence has."""
        return self.call.layout_q.sizes[sequence], self.call.layout_k.sizes[sequence]

    def rows(self, queries: Sequence[int] | slice, head: int, sequence: int = 0, *, moved: bool = False) -> Tensor:
        """The weights of some queries over all keys, (len, S)."""
        self._check(head, sequence)
        count = self.shape(sequence)[0]
        if not isinstance(queries, slice):
            if bad := [i for i in queries if not -count <= i < count]:
                raise ValueError(f"sequence {sequence} has queries 0 to {count - 1}, not {bad}")
            queries = [i % count for i in queries]
        kernel = KERNELS.get(self.kernel, KERNELS["reference"])  # a live model's own kernel is an exact softmax
        result = kernel.rows(self.call, sequence, head, queries)  # type: ignore[arg-type]
        return result * self.norms(head, sequence) if moved else result

    def head(self, head: int, sequence: int = 0, *, moved: bool = False) -> Tensor:
        """All weights of one head, (T, S)."""
        self._check(head, sequence)
        out = torch.empty(self.shape(sequence), dtype=self._dtype)
        for block in self._blocks(sequence):
            out[block] = self.rows(block, head, sequence, moved=moved)
        return out

    def heads(self, sequence: int = 0, *, moved: bool = False) -> Tensor:
        """All weights of all heads, (H, T, S)."""
        return torch.stack([self.head(h, sequence, moved=moved) for h in range(self.num_heads)])

    def norms(self, head: int, sequence: int = 0) -> Tensor:
        """‖value · W_O‖ of each key, (S,): how much a full weight on it would move."""
        self._check(head, sequence)
        if self._output is None:
            raise ValueError("this attention came without its output projection, so what a weight moves is not known")
        v = self.call.v[self.call.layout_k.rows(sequence), head // self.call.repeats].to(self._dtype)  # (S, V)
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
        moved: bool = False,
    ) -> Tensor:
        """A rectangle of the weights, pooled to at most `size` cells; never more than a block is in memory.

        Cells are as even as whole tokens allow. "max" keeps the strongest weight of a cell, "mean" the average.
        """
        self._check(head, sequence)
        if pool not in ("max", "mean"):
            raise ValueError(f"pool {pool!r}: choose 'max' or 'mean'")
        T, S = self.shape(sequence)
        (q0, q1, _), (k0, k1, _) = queries.indices(T), keys.indices(S)
        if q0 >= q1 or k0 >= k1:
            raise ValueError(f"an empty rectangle: queries {q0} to {q1}, keys {k0} to {k1} of a {T} x {S} map")
        tall, wide = (q1 - q0, k1 - k0) if size is None else (min(size[0], q1 - q0), min(size[1], k1 - k0))
        if tall < 1 or wide < 1:
            raise ValueError(f"size {size}: at least one cell each way")
        rows, columns = Cells(q0, q1, tall), Cells(k0, k1, wide)
        sums = None if (k0, k1) == (0, S) else self._normalisers(head, sequence)
        norms = self.norms(head, sequence) if moved else None
        logs = torch.full((T,), float("-inf"), dtype=self._dtype)
        out = torch.zeros(tall, wide, dtype=self._dtype)  # and 0 it stays where no query sees a key
        every = weights.Scores(self.call, sequence, head, columns.table)
        step = ceil(tall / RUNS)
        for run in (slice(lo, min(lo + step, tall)) for lo in range(0, tall, step)):
            seen = every.touched(rows.some(run).members)
            near = columns.some(seen)
            if not near.table.numel():
                continue
            scores = every if near.table.shape == columns.table.shape else every.of(seen)
            moves = None if norms is None else norms[near.table]
            for block in weights.blocks(run.stop - run.start, near.table.numel() * rows.depth, run.start):
                part = rows.some(block)
                found = scores(part.members).view(-1, *near.table.shape)  # (part.depth tall', near.depth, wide')
                if near.real is not None:
                    found.masked_fill_(~near.real, float("-inf"))
                pooled, ends = _pooled(found, near, pool, moves, None if sums is None else sums[part.members])
                out[block, seen] = part.pool(pooled.view(part.depth, block.stop - block.start, -1), 0, pool)
                logs[part.members] = ends
        if sums is None and (q0, q1) == (0, T):
            self._sums[sequence, head] = logs  # what tiles of a part will ask for
        return out

    def overview(
        self, head: int, size: int = 512, *, pool: Pool = "max", sequence: int = 0, moved: bool = False
    ) -> Tensor:
        """The whole map of a head, pooled to at most `size` x `size` cells."""
        return self.tile(head, size=(size, size), pool=pool, sequence=sequence, moved=moved)

    def entropy(self, sequence: int = 0) -> Tensor:
        """How spread out each head is, in nats, averaged over its queries, (H,)."""
        return self._average(sequence, lambda w, rows: torch.special.entr(w).sum(-1))

    def distance(self, sequence: int = 0) -> Tensor:
        """How far each head looks, in tokens, averaged over its queries, (H,)."""
        at_q = self.call.layout_q.positions[self.call.layout_q.rows(sequence)].to(self._dtype)
        at_k = self.call.layout_k.positions[self.call.layout_k.rows(sequence)].to(self._dtype)
        return self._average(sequence, lambda w, rows: (w * (at_q[rows, None] - at_k).abs()).sum(-1))

    def carry(self, flow: Tensor, sequence: int = 0) -> Tensor:
        """`flow` (n, T) through the mean of the heads' weights, (n, S), block by block."""
        out = torch.zeros(flow.shape[0], self.shape(sequence)[1], dtype=flow.dtype)
        for head in range(self.num_heads):
            for block in self._blocks(sequence):
                out += flow[:, block] @ self.rows(block, head, sequence).to(flow.dtype)
        return out / self.num_heads

    def numpy(self, head: int, sequence: int = 0, *, moved: bool = False) -> np.ndarray:
        """All weights of one head as a NumPy array, (T, S)."""
        return self.head(head, sequence, moved=moved).numpy()

    def to_csv(
        self,
        path: str | Path,
        head: int,
        sequence: int = 0,
        *,
        queries: Sequence[str] | None = None,
        keys: Sequence[str] | None = None,
        moved: bool = False,
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
                for i, row in zip(
                    range(block.start, block.stop), self.rows(block, head, sequence, moved=moved), strict=True
                ):
                    writer.writerow([names_q[i], *(f"{w:.9g}" for w in row.tolist())])

    def __repr__(self) -> str:
        return f"View({self.kind}, {self.num_heads} heads, {self.num_sequences} sequences, {self.kernel} kernel)"

    @property
    def _dtype(self) -> torch.dtype:
        return torch.promote_types(self.call.q.dtype, torch.float32)

    def _check(self, head: int, sequence: int) -> None:
        if not 0 <= head < self.num_heads:
            raise ValueError(f"there is no head {head}: heads are 0 to {self.num_heads - 1}")
        if not 0 <= sequence < self.num_sequences:
            raise ValueError(f"there is no sequence {sequence}: the batch holds 0 to {self.num_sequences - 1}")

    def _blocks(self, sequence: int) -> Iterator[slice]:
        return weights.blocks(*self.shape(sequence))

    def _normalisers(self, head: int, sequence: int) -> Tensor:
        """log-sum-exp of each query's scores, (T,): what turns any rectangle of scores into weights."""
        if (sequence, head) not in self._sums:
            self.overview(head, sequence=sequence)  # which keeps them
        return self._sums[sequence, head]

    def _average(self, sequence: int, of_rows: Callable[[Tensor, slice], Tensor]) -> Tensor:
        """The mean over queries of a figure of their weights, per head, (H,)."""
        total = torch.zeros(self.num_heads, dtype=self._dtype)
        for head in range(self.num_heads):
            for block in self._blocks(sequence):
                total[head] += of_rows(self.rows(block, head, sequence), block).sum()
        return total / max(self.shape(sequence)[0], 1)


def _pooled(
    found: Tensor, columns: Cells, pool: Pool, norms: Tensor | None, sums: Tensor | None
) -> tuple[Tensor, Tensor]:
    """Scores (t, depth, wide) to pooled weights (t, wide), and normalisers of rows: `sums`, where keys are missing."""
    flat = found.flatten(1)  # (t, depth wide), the same memory
    if pool == "max" and norms is None:  # the largest weight of a cell is that of its largest score
        peaks = found.amax(1)  # (t, wide)
        sums = weights.log_sums(flat, peaks.amax(1)) if sums is None else sums
        return weights.exponentials(peaks, sums), sums
    sums = weights.log_sums(flat.clone(), flat.amax(1)) if sums is None else sums
    weights.exponentials(flat, sums)
    return columns.pool(found if norms is None else found.mul_(norms), 1, pool), sums
