"""Longformer whose global tokens have projections of their own."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from clearhead.attention import Full, Layout, MultiHead, ScaledDot
from clearhead.attention.capture import look
from clearhead.attention.inputs import AttentionInputs
from clearhead.efficient import Longformer, make_method
from clearhead.efficient.global_projections import ProjectedLongformer

LENGTHS = [9, 0, 30, 1]


def method_of(window: int = 4, global_tokens: int = 2) -> ProjectedLongformer:
    torch.manual_seed(0)
    return ProjectedLongformer(width=6, num_heads=2, head_dim=3, window=window, global_tokens=global_tokens).double()


def batch(global_tokens: Tensor | None = None) -> AttentionInputs:
    generator = torch.Generator().manual_seed(1)
    layout = Layout.from_lengths(LENGTHS)
    q, k, v = (torch.randn(sum(LENGTHS), 2, 3, generator=generator, dtype=torch.float64) for _ in range(3))
    states = torch.randn(sum(LENGTHS), 6, generator=generator, dtype=torch.float64)
    return AttentionInputs(q, k, v, layout, layout, Full(), ScaledDot(), None, global_tokens, states)


@pytest.mark.parametrize("counts", [None, torch.tensor([3, 0, 5, 4])])
def test_global_rows_use_their_projections(counts: Tensor | None) -> None:
    """Rows of global tokens are attention of the second projections over all tokens; the others are Longformer's."""
    method, x = method_of(), batch(counts)
    found = x.layout_q.split(method(x))
    local = x.layout_q.split(Longformer(window=4, global_tokens=2)(x))
    assert x.states is not None
    for i, (states, n) in enumerate(zip(x.layout_q.split(x.states), LENGTHS, strict=True)):
        count = min(n, 2 if counts is None else int(counts[i]))
        q, k, v = (p(states).view(n, 2, 3) for p in (method.query, method.key, method.value))
        weights = torch.softmax(torch.einsum("thd,shd->hts", q[:count], k) / 3**0.5, -1)
        torch.testing.assert_close(found[i][:count], torch.einsum("hts,shd->thd", weights, v))
        torch.testing.assert_close(found[i][count:], local[i][count:])
        for head in range(2 if n else 0):
            rows = method.rows(x, i, head, slice(None))
            torch.testing.assert_close(rows[:count], weights[head])
            torch.testing.assert_close(rows[count:] @ x.layout_q.split(x.v)[i][:, head], local[i][count:, head])


def test_a_batch_is_its_sequences_one_by_one() -> None:
    method, x = method_of(), batch(torch.tensor([3, 0, 5, 1]))
    together = x.layout_q.split(method(x))
    assert x.states is not None and x.global_tokens is not None
    for i, part in enumerate(together):
        rows, alone = x.layout_q.rows(i), x.layout_q.select([i])
        one = replace(
            x, q=x.q[rows], k=x.k[rows], v=x.v[rows], states=x.states[rows], global_tokens=x.global_tokens[i : i + 1],
            layout_q=alone, layout_k=alone,
        )  # fmt: skip
        torch.testing.assert_close(method(one), part)


def test_gradients_reach_both_projections() -> None:
    """Along a random direction, the gradient is the slope of the output."""
    method, x = method_of(), batch()
    up = torch.randn(sum(LENGTHS), 2, 3, dtype=torch.float64)
    values = [*method.parameters()]
    found = torch.autograd.grad((method(x) * up).sum(), values)
    steps = [torch.randn_like(p) for p in values]

    def moved(size: float) -> float:
        with torch.no_grad():
            for p, step in zip(values, steps, strict=True):
                p.add_(size * step)
            out = float((method(x) * up).sum())
            for p, step in zip(values, steps, strict=True):
                p.sub_(size * step)
        return out

    slope = (moved(1e-6) - moved(-1e-6)) / 2e-6
    assert sum(float((g * s).sum()) for g, s in zip(found, steps, strict=True)) == pytest.approx(slope, rel=1e-6)


def test_look_shows_the_weights_of_global_tokens() -> None:
    torch.manual_seed(0)
    layer = MultiHead(6, 2).double().eval()
    layer.core.method = make_method({"kind": "projected_longformer", "window": 2}, width=6, num_heads=2, head_dim=3)
    layer.core.method.double()
    x, layout = torch.randn(12, 6, dtype=torch.float64), Layout.from_lengths([12])
    with torch.no_grad(), look(layer) as seen:
        layer(x, layout)
    (name,) = seen
    method = layer.core.method
    assert isinstance(method, ProjectedLongformer)
    q, k = method.query(x[:1]).view(1, 2, 3), method.key(x).view(12, 2, 3)
    expected = torch.softmax(torch.einsum("thd,shd->hts", q, k) / 3**0.5, -1)
    torch.testing.assert_close(seen[name].rows([0], head=1), expected[1].detach())
    assert seen[name].head(0)[6].count_nonzero() == 4  # two neighbours, itself and the global token
    assert seen[name].tile(0, size=(3, 3)).shape == (3, 3)


def test_needs_the_states() -> None:
    with pytest.raises(ValueError, match="run it inside a model"):
        method_of()(replace(batch(), states=None))
