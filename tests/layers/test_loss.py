"""The loss of words is torch's cross-entropy, summed, whatever the number of rows and the smoothing."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st

from clearhead.layers import linear_cross_entropy
from clearhead.layers.loss import ROWS
from tests.parts import gradient


def case(n: int, width: int = 7, words: int = 11, dtype: torch.dtype = torch.float64, bias: bool = True):
    draw = torch.Generator().manual_seed(n)
    made = [torch.randn(*shape, generator=draw, dtype=dtype) for shape in ((n, width), (words, width), (words,))]
    for tensor in made:
        tensor.requires_grad_()
    return made[0], made[1], made[2] if bias else None, torch.randint(words, (n,), generator=draw)


def both(x, weight, bias, labels, smoothing):
    """Value and gradients: ours, then torch's."""
    inputs = [t for t in (x, weight, bias) if t is not None]
    ours = linear_cross_entropy(x, weight, bias, labels, smoothing)
    theirs = F.cross_entropy(F.linear(x, weight, bias), labels, reduction="sum", label_smoothing=smoothing)
    return (ours, *torch.autograd.grad(ours * 0.3, inputs)), (theirs, *torch.autograd.grad(theirs * 0.3, inputs))


@given(
    n=st.one_of(st.integers(1, 40), st.sampled_from([ROWS - 1, ROWS, ROWS + 1, 2 * ROWS, 3 * ROWS + 5])),
    words=st.integers(1, 30),
    bias=st.booleans(),
    smoothing=st.sampled_from([0.0, 0.1, 0.9]),
)
def test_it_is_torch_s_cross_entropy_to_the_last_bits(n, words, bias, smoothing):
    ours, theirs = both(*case(n, words=words, bias=bias), smoothing)
    for a, b in zip(ours, theirs, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-12, atol=1e-12)


def test_three_tokens_by_hand():
    """Scores (0, ln 2), (0, ln 3) and (0, 0): p(label) is 2/3, 1/4 and 1/2."""
    x = torch.tensor([[math.log(2)], [math.log(3)], [0.0]], dtype=torch.float64, requires_grad=True)
    weight = torch.tensor([[0.0], [1.0]], dtype=torch.float64)
    loss = linear_cross_entropy(x, weight, None, torch.tensor([1, 0, 0]))
    assert loss.item() == pytest.approx(-math.log(2 / 3) - math.log(1 / 4) - math.log(1 / 2), rel=1e-14)
    loss.backward()
    torch.testing.assert_close(x.grad, torch.tensor([[2 / 3 - 1], [3 / 4], [1 / 2]], dtype=torch.float64))


def test_smoothing_by_hand():
    """Two words of equal scores: every target costs ln 2, and the gradient is p less the smoothed target."""
    bias = torch.zeros(2, dtype=torch.float64, requires_grad=True)
    x, weight = torch.zeros(1, 1, dtype=torch.float64), torch.zeros(2, 1, dtype=torch.float64)
    loss = linear_cross_entropy(x, weight, bias, torch.tensor([0]), 0.2)
    assert loss.item() == pytest.approx(math.log(2), rel=1e-14)
    loss.backward()
    torch.testing.assert_close(bias.grad, torch.tensor([0.5 - 0.9, 0.5 - 0.1], dtype=torch.float64))


def test_no_token_at_all():
    x, weight, bias, labels = case(0)
    loss = linear_cross_entropy(x, weight, bias, labels, 0.1)
    loss.backward()
    assert loss.item() == 0.0
    assert gradient(x).shape == (0, 7)
    assert bias is not None
    assert not gradient(weight).any() and not gradient(bias).any()


@pytest.mark.parametrize("wanted", [(True, False, False), (False, True, False), (False, False, True)])
def test_only_the_gradients_that_are_wanted(wanted):
    x, weight, bias, labels = case(9)
    assert bias is not None
    everything = torch.autograd.grad(linear_cross_entropy(x, weight, bias, labels), (x, weight, bias))
    some = [t.detach().requires_grad_(w) for t, w in zip((x, weight, bias), wanted, strict=True)]
    linear_cross_entropy(some[0], some[1], some[2], labels).backward()
    for tensor, want, grad in zip(some, wanted, everything, strict=True):
        assert (tensor.grad is None) != want
        assert not want or torch.equal(gradient(tensor), grad)


def test_bfloat16_inside_autocast():
    """Products in bfloat16, sums in float32: as near as bfloat16's 8 bits allow."""
    x, weight, bias, labels = case(300, width=32, words=50, dtype=torch.float32)
    assert bias is not None
    with torch.autocast("cpu", torch.bfloat16):
        ours = linear_cross_entropy(x, weight, bias, labels, 0.1)
    assert ours.dtype == torch.float32
    grads = torch.autograd.grad(ours, (x, weight, bias))
    _, theirs = both(x, weight, bias, labels, 0.1)
    assert ours.item() == pytest.approx(theirs[0].item(), rel=1e-3)
    for ours_grad, exact in zip(grads, (g / 0.3 for g in theirs[1:]), strict=True):
        assert ours_grad.dtype == torch.float32
        assert torch.linalg.norm(ours_grad - exact) < 0.01 * torch.linalg.norm(exact)


def test_scores_far_apart_stay_finite():
    x = torch.tensor([[1e4], [-1e4]], requires_grad=True)
    weight = torch.tensor([[1.0], [-1.0]], requires_grad=True)
    loss = linear_cross_entropy(x, weight, None, torch.tensor([1, 1]))
    loss.backward()
    assert loss.item() == 2e4
    assert gradient(x).isfinite().all() and gradient(weight).isfinite().all()


def test_a_second_pass_backwards_is_refused():
    x, weight, bias, labels = case(3)
    loss = linear_cross_entropy(x, weight, bias, labels)
    loss.backward(retain_graph=True)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()
