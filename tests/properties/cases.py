"""Random attention calls: ragged layouts, starts, heads, masks and biases."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from hypothesis import strategies as st

from clearhead.attention import Bias, Causal, DenseMask, Full, Global, Layout, Mask, Prefix, RelativeBias, Window

LENGTHS = st.one_of(st.integers(0, 6), st.integers(1, 40), st.sampled_from([15, 16, 17, 31, 33, 48, 49, 64]))


@dataclass(frozen=True)
class Case:
    q: torch.Tensor
    k: torch.Tensor
    v: torch.Tensor
    layout_q: Layout
    layout_k: Layout
    mask: Mask
    bias: Bias | None

    @property
    def args(self) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, Layout, Layout]:
        return self.q, self.k, self.v, self.layout_q, self.layout_k

    @property
    def allowed(self) -> torch.Tensor:
        """(N, M): may this query token attend to this key token?"""
        a, b = self.layout_q, self.layout_k
        ids = a.sequence_ids.view(-1, 1)
        same = ids == b.sequence_ids.view(1, -1)
        if not same.numel():
            return same
        key = b.positions.view(1, -1).where(same, b.starts[ids] if b.num_sequences else 0)
        return same & self.mask.allows(ids, a.positions.view(-1, 1), key)


def masks(count: int, longest: int, leaves: st.SearchStrategy[Mask] | None = None) -> st.SearchStrategy[Mask]:
    per_sequence = st.lists(st.integers(0, longest + 2), min_size=count, max_size=count).map(torch.tensor)
    one = st.one_of(
        st.just(Full()),
        st.just(Causal()),
        st.builds(Window, st.integers(0, 9), st.integers(0, 9)),
        st.builds(Global, st.integers(0, 4)),
        *([st.builds(Global, per_sequence), st.builds(Prefix, per_sequence)] if count else []),
    )
    return st.one_of(one, st.builds(lambda a, b: a & b, one, one), st.builds(lambda a, b: a | b, one, one))


@st.composite
def cases(
    draw: st.DrawFn,
    *,
    same: bool | None = None,
    equal: bool = False,
    mask: Mask | None = None,
    least: int = 0,
    sparse: bool = False,
    biased: bool = True,
) -> Case:
    """`same`: self-attention; `equal`: all lengths alike; `sparse`: a random written-out mask with dead rows."""
    count = draw(st.integers(least, 5))
    length = LENGTHS.filter(lambda n: n >= least)
    if equal:
        sizes_q, sizes_k = [draw(length)] * count, [draw(length)] * count
    else:
        sizes_q = draw(st.lists(length, min_size=count, max_size=count))
        sizes_k = draw(st.lists(length, min_size=count, max_size=count))
    starts_q = draw(st.lists(st.integers(0, 5), min_size=count, max_size=count))
    starts_k = draw(st.lists(st.integers(0, 5), min_size=count, max_size=count))
    if draw(st.booleans()):
        starts_q = starts_k = [0] * count
    if same or (same is None and draw(st.booleans())):
        sizes_k, starts_k = sizes_q, starts_q
    layout_q = Layout.from_lengths(sizes_q, starts_q)
    layout_k = layout_q if (sizes_q, starts_q) == (sizes_k, starts_k) else Layout.from_lengths(sizes_k, starts_k)
    groups, repeats, width = draw(st.integers(1, 3)), draw(st.integers(1, 3)), draw(st.sampled_from([1, 4, 8, 16]))
    heads = groups * repeats
    generator = torch.Generator().manual_seed(draw(st.integers(0, 2**31)))
    q = torch.randn(sum(sizes_q), heads, width, generator=generator)
    k, v = (torch.randn(sum(sizes_k), groups, width, generator=generator) for _ in range(2))
    if sparse:
        T, S = layout_q.end + 8, layout_k.end + 8  # beyond every start
        grid = torch.rand(max(count, 1), T, S, generator=generator) < draw(st.sampled_from([0.05, 0.3, 0.9]))
        grid &= torch.rand(max(count, 1), T, 1, generator=generator) < 0.7  # whole rows die
        mask = DenseMask(grid)
    elif mask is None:
        mask = draw(masks(count, max([*sizes_q, *sizes_k, 0])))
    bias = None
    if biased and draw(st.booleans()):
        table = torch.randn(heads, draw(st.sampled_from([1, 5, 33])), generator=generator)
        bias = RelativeBias(table, torch.randn(heads, generator=generator) * 0.1)
    return Case(q, k, v, layout_q, layout_k, mask, bias)
