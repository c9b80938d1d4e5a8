"""Longformer whose global tokens have projections of their own."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor, nn

from clearhead.attention.attend import dispatch
from clearhead.attention.inputs import AttentionInputs
from clearhead.attention.kernels import KERNELS
from clearhead.attention.layout import Layout
from clearhead.attention.masks import Full
from clearhead.attention.method import AttentionMethod, at_least
from clearhead.attention.weights import Which
from clearhead.efficient.patterns import Longformer


class ProjectedLongformer(AttentionMethod):
    """Longformer: global tokens read all others by a second set of projections (Beltagy et al. 2020, section 3.1).

    The other tokens read global tokens by the layer's own projections, as they read their neighbours.
    """

    kind = "projected_longformer"
    reads_states = True

    def __init__(
        self,
        *,
        width: int,
        num_heads: int,
        head_dim: int,
        window: int = 512,
        global_tokens: int = 1,
        global_until: int | None = None,
    ) -> None:
        super().__init__()
        at_least(1, width=width, num_heads=num_heads, head_dim=head_dim)
        self.width, self.num_heads, self.head_dim = width, num_heads, head_dim
        self.local = Longformer(window=window, global_tokens=global_tokens, global_until=global_until)
        self.window, self.global_tokens, self.global_until = window, global_tokens, global_until
        self.query, self.key, self.value = (nn.Linear(width, num_heads * head_dim) for _ in range(3))

    def forward(self, inputs: AttentionInputs, dropout: float = 0.0) -> Tensor:
        out = self.local(inputs, dropout)
        layout = self._global_layout(inputs)
        if not layout.num_tokens:
            return out
        rows = _rows(layout, inputs.layout_q)
        q, k, v = self._projected(inputs, rows, slice(None))
        return out.index_copy(0, rows, dispatch(self._global_inputs(inputs, layout, q, k, v), dropout))

    def rows(self, inputs: AttentionInputs, sequence: int, head: int, queries: Which) -> Tensor:
        T = inputs.layout_q.host_lengths[sequence]
        asked = torch.arange(T)[queries]
        out = self.local.rows(inputs, sequence, head, queries)
        layout = self._global_layout(inputs)
        is_global = asked < layout.host_lengths[sequence]
        if bool(is_global.any()):
            places = slice(head * self.head_dim, (head + 1) * self.head_dim)
            q, k, v = self._projected(inputs, _rows(layout, inputs.layout_q), places)
            found = self._global_inputs(inputs, layout, q, k, v)
            out[is_global] = KERNELS["reference"].rows(found, sequence, 0, asked[is_global].tolist())
        return out

    def _global_layout(self, inputs: AttentionInputs) -> Layout:
        """The layout of the global tokens alone."""
        counts = inputs.global_tokens
        wanted = [self.global_tokens] * inputs.layout_q.num_sequences if counts is None else counts.tolist()
        sizes = [min(n, m) for n, m in zip(wanted, inputs.layout_q.host_lengths, strict=True)]
        whole = inputs.layout_q
        # all layers share it
        return whole.memoize(("global", *sizes), lambda: Layout.from_lengths(sizes, whole.host_starts, whole.device))

    def _projected(self, inputs: AttentionInputs, rows: Tensor, outputs: slice) -> tuple[Tensor, Tensor, Tensor]:
        """Queries of the global tokens, and keys and values of all, by the second projections, (..., heads, K)."""
        if inputs.states is None:
            raise ValueError("projected_longformer attention needs the states of its layer: run it inside a model")

        def project(linear: nn.Linear, x: Tensor) -> Tensor:
            x = nn.functional.linear(x, linear.weight[outputs], linear.bias[outputs])
            return x.unflatten(1, (-1, self.head_dim))

        x = inputs.states
        q, k = inputs.score.prepare(project(self.query, x[rows]), project(self.key, x))
        return q, k, project(self.value, x)

    def _global_inputs(
        self, inputs: AttentionInputs, layout: Layout, q: Tensor, k: Tensor, v: Tensor
    ) -> AttentionInputs:
        return replace(inputs, q=q, k=k, v=v, layout_q=layout, mask=Full(), global_tokens=None, states=None)


def _rows(layout: Layout, whole: Layout) -> Tensor:
    """The rows of the first tokens of each sequence: `layout` holds as many as there are of each."""
    return whole.offsets[:-1][layout.sequence_ids] + layout.positions - layout.starts[layout.sequence_ids]
