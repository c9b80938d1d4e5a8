"""Records: what can be shown of one attention, whoever computed it.

A viewer asks a record for its shape, for the weights of a head, and for tiles of it. `Watched` answers from what `look`
kept; `Stepped` joins the steps of a generation; `Given` holds weights that came from elsewhere, such as a picture's
patches or a published map.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from clearhead.attention import View
from clearhead.attention.cells import Cells, Pool


class Vectors(NamedTuple):
    """The queries (T, K), keys (S, K) and values (S, V) of one head, and what q·k is multiplied by."""

    queries: Tensor
    keys: Tensor
    values: Tensor
    scale: float


class Record(Protocol):
    """One attention of one input."""

    @property
    def num_heads(self) -> int: ...

    @property
    def shape(self) -> tuple[int, int]:
        """Queries and keys."""
        ...

    def head(self, head: int) -> Tensor:
        """All weights of one head, (T, S)."""
        ...

    def tile(self, head: int, queries: slice, keys: slice, size: tuple[int, int], pool: Pool) -> Tensor:
        """A rectangle of them, pooled to at most `size` cells."""
        ...

    def norms(self, head: int) -> Tensor | None:
        """What a full weight on each key would move, (S,); None where that is not known."""
        ...

    def vectors(self, head: int) -> Vectors | None:
        """What the weights came from; None where they are not softmax(q·k) alone."""
        ...

    def facts(self) -> tuple[list[float], list[float]] | None:
        """Entropy and distance of each head; None where nobody measured them."""
        ...


@dataclass(frozen=True, eq=False)
class Watched:
    """One sequence of a view."""

    view: View
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
        except ValueError:  # it came without its output projection
            return None

    def vectors(self, head: int) -> Vectors | None:
        call = self.view.call
        if call.scale is None or call.bias is not None:
            return None
        rows_q, rows_k = call.layout_q.rows(self.sequence), call.layout_k.rows(self.sequence)
        shared = head // call.repeats
        found = call.q[rows_q, head], call.k[rows_k, shared], call.v[rows_k, shared]
        return Vectors(*(x.float() for x in found), scale=call.scale)

    def facts(self) -> tuple[list[float], list[float]] | None:
        return self.view.entropy(self.sequence).tolist(), self.view.distance(self.sequence).tolist()


@dataclass(frozen=True, eq=False)
class Stepped:
    """The steps of a generation, one below the other: each sees as many keys as there were."""

    steps: Sequence[Watched]

    @property
    def num_heads(self) -> int:
        return self.steps[0].num_heads

    @property
    def shape(self) -> tuple[int, int]:
        shapes = [step.shape for step in self.steps]
        return sum(T for T, _ in shapes), max(S for _, S in shapes)

    def head(self, head: int) -> Tensor:
        wide = self.shape[1]
        parts = [step.head(head) for step in self.steps]
        return torch.cat([torch.nn.functional.pad(part, (0, wide - part.shape[1])) for part in parts])

    def tile(self, head: int, queries: slice, keys: slice, size: tuple[int, int], pool: Pool) -> Tensor:
        return pooled(self.head(head)[queries, keys], size, pool)

    def norms(self, head: int) -> Tensor | None:
        return self.steps[-1].norms(head)

    def vectors(self, head: int) -> Vectors | None:
        found = [step.vectors(head) for step in self.steps]
        known = [vectors for vectors in found if vectors is not None]
        if len(known) < len(found):
            return None
        return known[-1]._replace(queries=torch.cat([vectors.queries for vectors in known]))

    def facts(self) -> tuple[list[float], list[float]] | None:
        return None


@dataclass(frozen=True, eq=False)
class Given:
    """Weights that are at hand, (H, T, S)."""

    weights: Tensor

    def __post_init__(self) -> None:
        if self.weights.ndim != 3:
            raise ValueError(f"weights are (heads, queries, keys); got {tuple(self.weights.shape)}")

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

    def norms(self, head: int) -> Tensor | None:
        return None

    def vectors(self, head: int) -> Vectors | None:
        return None

    def facts(self) -> tuple[list[float], list[float]] | None:
        return None


def pooled(weights: Tensor, size: tuple[int, int], pool: Pool) -> Tensor:
    """A matrix pooled to at most `size` cells, as even as whole rows and columns allow."""
    rows, columns = (Cells(0, n, min(most, n)) for n, most in zip(weights.shape, size, strict=True))
    found = weights.float()[rows.members][:, columns.members]
    found = found.unflatten(1, (columns.depth, -1)).unflatten(0, (rows.depth, -1))  # (depth, tall, depth, wide)
    return rows.pool(columns.pool(found, 2, pool), 0, pool)
