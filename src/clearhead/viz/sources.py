"""Sources of attention weights for the viewer.

A source provides its shape, the weights of a head and tiles of them. `Captured` computes them from what `look`
recorded; `CapturedSteps` joins the steps of a generation; `Precomputed` holds weights from elsewhere, such as image
patches or a published map.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from clearhead.attention import AttentionMap
from clearhead.attention.capture.bins import Bins, Pool


class HeadVectors(NamedTuple):
    """The queries (T, K), keys (S, K) and values (S, V) of one head, and the scale of q·k."""

    queries: Tensor
    keys: Tensor
    values: Tensor
    scale: float


class AttentionSource(Protocol):
    """One attention layer over one input."""

    @property
    def num_heads(self) -> int:
        """Heads of this attention."""
        ...

    @property
    def shape(self) -> tuple[int, int]:
        """The numbers of queries and keys, (T, S)."""
        ...

    def head(self, head: int) -> Tensor:
        """Return all weights of one head, (T, S)."""
        ...

    def tile(self, head: int, queries: slice, keys: slice, size: tuple[int, int], pool: Pool) -> Tensor:
        """Return a rectangle of the weights, pooled to at most `size` cells."""
        ...

    def norms(self, head: int) -> Tensor | None:
        """Return the norm of each value vector after the output projection, (S,); None where it is not known."""
        ...

    def vectors(self, head: int) -> HeadVectors | None:
        """Return the vectors behind the weights; None unless the weights are plain softmax(q·k)."""
        ...

    def head_stats(self) -> tuple[list[float], list[float]] | None:
        """Return the mean entropy and mean distance of each head; None where they are not measured."""
        ...


@dataclass(frozen=True, eq=False)
class Captured:
    """One sequence of a captured attention map."""

    view: AttentionMap
    sequence: int = 0

    @property
    def num_heads(self) -> int:
        return self.view.num_heads

    @property
    def shape(self) -> tuple[int, int]:
        return self.view.shape(self.sequence)

    def head(self, head: int) -> Tensor:
        return self.view.head(head, self.sequence)

    def tile(self, head: int, queries: slice, keys: slice, size: tuple[int, int], pool: Pool) -> Tensor:
        return self.view.tile(head, queries, keys, size=size, pool=pool, sequence=self.sequence)

    def norms(self, head: int) -> Tensor | None:
        try:
            return self.view.norms(head, self.sequence)
        except ValueError:  # captured without the output projection
            return None

    def vectors(self, head: int) -> HeadVectors | None:
        inputs = self.view.inputs
        if inputs.scale is None or inputs.bias is not None:
            return None
        rows_q, rows_k = inputs.layout_q.rows(self.sequence), inputs.layout_k.rows(self.sequence)
        kv_head = head // inputs.repeats
        vectors = inputs.q[rows_q, head], inputs.k[rows_k, kv_head], inputs.v[rows_k, kv_head]
        return HeadVectors(*(x.float() for x in vectors), scale=inputs.scale)

    def head_stats(self) -> tuple[list[float], list[float]] | None:
        return self.view.entropy(self.sequence).tolist(), self.view.distance(self.sequence).tolist()


@dataclass(frozen=True, eq=False)
class CapturedSteps:
    """The steps of a generation as one map; each step has as many keys as tokens before it."""

    steps: Sequence[Captured]

    @property
    def num_heads(self) -> int:
        return self.steps[0].num_heads

    @property
    def shape(self) -> tuple[int, int]:
        shapes = [step.shape for step in self.steps]
        return sum(T for T, _ in shapes), max(S for _, S in shapes)

    def head(self, head: int) -> Tensor:
        num_keys = self.shape[1]
        parts = [step.head(head) for step in self.steps]
        return torch.cat([torch.nn.functional.pad(part, (0, num_keys - part.shape[1])) for part in parts])

    def tile(self, head: int, queries: slice, keys: slice, size: tuple[int, int], pool: Pool) -> Tensor:
        return pooled(self.head(head)[queries, keys], size, pool)

    def norms(self, head: int) -> Tensor | None:
        return self.steps[-1].norms(head)

    def vectors(self, head: int) -> HeadVectors | None:
        steps = [vectors for step in self.steps if (vectors := step.vectors(head)) is not None]
        if len(steps) < len(self.steps):
            return None
        return steps[-1]._replace(queries=torch.cat([vectors.queries for vectors in steps]))

    def head_stats(self) -> tuple[list[float], list[float]] | None:
        return None


class WeightsAlone:
    """A source that has no queries, keys or values behind its weights."""

    def norms(self, head: int) -> Tensor | None:
        return None

    def vectors(self, head: int) -> HeadVectors | None:
        return None

    def head_stats(self) -> tuple[list[float], list[float]] | None:
        return None


@dataclass(frozen=True, eq=False)
class Precomputed(WeightsAlone):
    """Given weights, (H, T, S)."""

    weights: Tensor

    def __post_init__(self) -> None:
        if self.weights.ndim != 3:
            raise ValueError(f"weights must have the shape (heads, queries, keys), got {tuple(self.weights.shape)}")

    @property
    def num_heads(self) -> int:
        return self.weights.shape[0]

    @property
    def shape(self) -> tuple[int, int]:
        return self.weights.shape[1], self.weights.shape[2]

    def head(self, head: int) -> Tensor:
        return self.weights[head].float()

    def tile(self, head: int, queries: slice, keys: slice, size: tuple[int, int], pool: Pool) -> Tensor:
        return pooled(self.head(head)[queries, keys], size, pool)


def pooled(weights: Tensor, size: tuple[int, int], pool: Pool) -> Tensor:
    """Return a matrix pooled to at most `size` cells of nearly equal size."""
    rows, columns = (Bins(0, n, min(limit, n)) for n, limit in zip(weights.shape, size, strict=True))
    members = weights.float()[rows.members][:, columns.members]
    members = members.unflatten(1, (columns.depth, -1)).unflatten(0, (rows.depth, -1))  # (depth, rows, depth, columns)
    return rows.pool(columns.pool(members, 2, pool), 0, pool)
