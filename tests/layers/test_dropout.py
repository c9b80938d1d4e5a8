"""Dropout: the rate, the scale, the seed, and one mask for both directions."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from clearhead.attention.dropout_mask import LEVELS
from clearhead.layers.dropout import Dropout
from tests.parts import gradient


def dropped(p: float, count: int, seed: int = 0) -> torch.Tensor:
    torch.manual_seed(seed)
    return Dropout(p).train()(torch.ones(count)) == 0


@given(p=st.floats(0.001, 0.999), seed=st.integers(0, 2**32))
def test_the_rate_is_p(p, seed):
    """Within six standard deviations of a binomial's mean: by chance once in 500 million."""
    count = 100_003
    found = int(dropped(p, count, seed).sum())
    assert abs(found - p * count) < 6 * math.sqrt(count * p * (1 - p)) + count / LEVELS


@given(p=st.floats(0, 1, exclude_min=True, exclude_max=True))
def test_the_scale_makes_up_exactly(p):
    """A kept number times the share that is kept is itself; p is met to within 1 / 65,536."""
    torch.manual_seed(0)
    out = Dropout(p).train()(torch.ones(LEVELS, dtype=torch.float64))
    kept = out[out != 0]
    assert len(kept) == 0 or len(kept.unique()) == 1
    if len(kept):
        share = 1 / kept[0].item()
        assert abs((1 - share) - p) <= 1 / LEVELS
        assert (share * LEVELS) == pytest.approx(round(share * LEVELS), abs=1e-9)


def test_the_same_seed_gives_the_same_mask_and_another_does_not():
    assert torch.equal(dropped(0.5, 1000, 1), dropped(0.5, 1000, 1))
    assert not torch.equal(dropped(0.5, 1000, 1), dropped(0.5, 1000, 2))


def test_every_call_has_a_mask_of_its_own():
    torch.manual_seed(0)
    layer, x = Dropout(0.5).train(), torch.ones(1000)
    assert not torch.equal(layer(x), layer(x))


@pytest.mark.parametrize("shape", [(5,), (3, 4, 7), (0, 3), (1,), ()])
def test_the_gradient_uses_the_same_mask(shape):
    torch.manual_seed(3)
    x = torch.randn(shape, dtype=torch.float64, requires_grad=True)
    out = Dropout(0.4).train()(x)
    assert out.shape == shape
    out.backward(torch.full(shape, 2.0, dtype=torch.float64))
    scale = LEVELS / (LEVELS - round(0.4 * LEVELS))
    torch.testing.assert_close(x.grad, (out != 0).double() * 2.0 * scale, rtol=1e-15, atol=0)
    torch.testing.assert_close(out, x * gradient(x) / 2.0)


def test_an_input_that_is_not_contiguous():
    torch.manual_seed(0)
    x = torch.arange(1.0, 13.0).view(3, 4).T
    out = Dropout(0.5).train()(x)
    kept = out != 0
    assert kept.any() and not kept.all()
    torch.testing.assert_close(out[kept], 2 * x[kept])
    assert torch.equal(Dropout(0.5).train()(torch.ones(1).expand(50)).unique(), torch.tensor([0.0, 2.0]))


def test_the_input_is_left_alone():
    x = torch.ones(100)
    Dropout(0.5).train()(x)
    assert torch.equal(x, torch.ones(100))


def test_in_evaluation_and_at_0_it_is_the_input_itself():
    x = torch.randn(5)
    assert Dropout(0.5).eval()(x) is x
    assert Dropout(0.0).train()(x) is x


def test_at_1_nothing_is_left():
    x = torch.randn(200_000, requires_grad=True)
    out = Dropout(1.0).train()(x)
    out.sum().backward()
    assert not out.any() and not gradient(x).any()


def test_bfloat16_stays_bfloat16():
    assert Dropout(0.1).train()(torch.ones(10, dtype=torch.bfloat16)).dtype == torch.bfloat16
