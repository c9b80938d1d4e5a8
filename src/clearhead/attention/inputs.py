"""Inputs: everything one attention needs, in one record. Kernels compute it; `look` stores it."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from clearhead.attention.biases import Bias
from clearhead.attention.layout import Layout
from clearhead.attention.masks import Mask
from clearhead.attention.scores import Score


@dataclass(frozen=True, eq=False)
class AttentionInputs:
    """Projected queries, keys and values with their layouts, and the parts that define the weights.

    Query head h reads key head h // (H // G): with G < H this is grouped-query attention.
    """

    q: Tensor  # (N, H, K), prepared by the score
    k: Tensor  # (M, G, K), prepared by the score
    v: Tensor  # (M, G, V)
    layout_q: Layout
    layout_k: Layout
    mask: Mask
    score: Score
    bias: Bias | None = None
    global_tokens: Tensor | None = None  # (B,): how many first tokens of a sequence sparse methods make global
    states: Tensor | None = None  # (N, D): what the queries were projected from, for methods that read it

    @property
    def scale(self) -> float | None:
        """The factor on q·k, or None where the score is not a dot product."""
        return self.score.scale(self.q.shape[2])

    @property
    def num_heads(self) -> int:
        return self.q.shape[1]

    @property
    def repeats(self) -> int:
        """Query heads that share a head of keys and values."""
        return self.q.shape[1] // max(self.k.shape[1], 1)

    @property
    def needs_grad(self) -> bool:
        if not torch.is_grad_enabled():
            return False
        tensors = [self.q, self.k, self.v, *self.score.parameters(), *bias_tensors(self.bias)]
        return any(t.requires_grad for t in tensors)

    def heads_of(self, sequence: int) -> tuple[Tensor, Tensor, Tensor]:
        """Queries (H, T, K), keys (H, S, K) and values (H, S, V) of a sequence; shared key heads are repeated."""
        rows_k = self.layout_k.rows(sequence)
        k, v = (x[rows_k].transpose(0, 1) for x in (self.k, self.v))
        if self.repeats > 1:
            k, v = (x.repeat_interleave(self.repeats, 0) for x in (k, v))
        return self.q[self.layout_q.rows(sequence)].transpose(0, 1), k, v

    def require_dot_products(self, name: str) -> float:
        """The factor on q·k; a ValueError where the score is no dot product, or has a bias."""
        if self.scale is None or self.bias is not None:
            raise ValueError(f"{name} attention needs dot-product scores without a bias")
        return self.scale

    def without_padding(self) -> AttentionInputs:
        """The same inputs without the padding sequences at the end: shared memory, no copy."""
        layout_q, layout_k = self.layout_q.unpadded, self.layout_k.unpadded
        if layout_q is None or layout_k is None:
            return self
        n, m = layout_q.num_tokens, layout_k.num_tokens
        first = None if self.global_tokens is None else self.global_tokens[: layout_q.num_sequences]
        states = None if self.states is None else self.states[:n]
        cut = {"q": self.q[:n], "k": self.k[:m], "v": self.v[:m], "global_tokens": first, "states": states}
        return replace(self, layout_q=layout_q, layout_k=layout_k, **cut)

    def detached(self) -> AttentionInputs:
        """The same inputs outside the autograd graph: shared memory, no copy."""
        states = None if self.states is None else self.states.detach()
        return replace(self, q=self.q.detach(), k=self.k.detach(), v=self.v.detach(), states=states)

    def zeros_with_grad(self, count: int) -> Tensor:
        """Zeros (count, H, V) that belong to the autograd graph, so that an empty batch runs backward too."""
        tensors = (self.q, self.k, self.v, *self.score.parameters(), *bias_tensors(self.bias))
        tie = sum((t.reshape(-1)[:0].sum() for t in tensors), start=self.q.new_zeros(()))
        return tie.expand(count, self.num_heads, self.v.shape[2])

    def check(self) -> AttentionInputs:
        """Raise a ValueError for shapes that do not match; returns itself."""
        q, k, v = tuple(self.q.shape), tuple(self.k.shape), tuple(self.v.shape)
        if not len(q) == len(k) == len(v) == 3:
            raise ValueError(f"queries, keys and values are (tokens, heads, width); got {q}, {k}, {v}")
        if k[:2] != v[:2] or q[2] != k[2]:
            raise ValueError(
                f"queries {q}, keys {k} and values {v} do not match: keys and values must have equal tokens and heads, "
                "queries and keys equal widths"
            )
        if q[1] % max(k[1], 1):
            raise ValueError(f"{q[1]} query heads are not a multiple of {k[1]} key heads")
        for x, layout, what in ((q, self.layout_q, "queries"), (k, self.layout_k, "keys")):
            if x[0] != layout.num_tokens:
                raise ValueError(f"{x[0]} {what} but their layout has {layout.num_tokens} tokens")
        if self.layout_q.num_sequences != self.layout_k.num_sequences:
            raise ValueError(
                f"queries come in {self.layout_q.num_sequences} sequences and keys in "
                f"{self.layout_k.num_sequences}: sequence i attends to sequence i, so the counts must be equal"
            )
        return self


def bias_tensors(bias: Bias | None) -> list[Tensor]:
    if bias is None:
        return []
    tensors = getattr(bias, "__dict__", {}).values()
    return [t for t in tensors if isinstance(t, Tensor)]
