"""Squares: dropout's own gradient, read off from the weights it left, and both directions with one mask."""

from __future__ import annotations

import pytest
import torch

from clearhead.attention import Causal, Full, Layout, attend
from clearhead.attention import dropout_mask as drops
from clearhead.attention.inputs import AttentionInputs
from clearhead.attention.kernels import unsupported_reason
from clearhead.attention.scores import ScaledDot

P = 0.3


def drawn(lengths, keys, width, heads=3, dtype=torch.float32):
    torch.manual_seed(1)
    sizes = sum(lengths), sum(keys), sum(keys)
    return [torch.randn(n, heads, width, dtype=dtype, requires_grad=True) for n in sizes]


def dropped(q, k, v, layout_q, layout_k, mask):
    torch.manual_seed(5)
    return attend(q, k, v, layout_q, layout_k, mask=mask, dropout=P)


@pytest.mark.parametrize(
    ("lengths", "keys", "mask"),
    [
        ([5, 16, 1, 40], [5, 16, 1, 40], Full()),
        ([5, 16, 1, 40], [5, 16, 1, 40], Causal()),
        ([3, 0, 20], [7, 4, 0], Full()),
        ([70, 130, 3], [70, 130, 3], Causal()),
        ([90], [140], Full()),
    ],
)
def test_the_gradient_is_that_of_the_weights_that_were_left(lengths, keys, mask):
    """Values of one 1 each show the weights themselves; autograd then goes through softmax, mask and growth."""
    width = max(keys)
    layout_q, layout_k = Layout.from_lengths(lengths), Layout.from_lengths(keys)
    q, k, v = drawn(lengths, keys, width)
    assert (
        unsupported_reason("bucketed", AttentionInputs(q, k, v, layout_q, layout_k, mask, ScaledDot(), None), P) is None
    )
    ones = torch.cat([torch.eye(n, width) for n in keys]).unsqueeze(1).expand(-1, 3, -1)
    shown = dropped(q, k, ones, layout_q, layout_k, mask)  # (N, H, keys of its sequence)
    wanted = []
    for i, (t, s) in enumerate(zip(lengths, keys, strict=True)):
        rows = slice(sum(lengths[:i]), sum(lengths[: i + 1]))
        columns = slice(sum(keys[:i]), sum(keys[: i + 1]))
        scores = torch.einsum("thk,shk->hts", q[rows], k[columns]) / width**0.5
        if isinstance(mask, Causal):
            scores = scores.masked_fill(torch.ones(t, s).triu(1).bool(), float("-inf"))
        kept = (shown[rows, :, :s].transpose(0, 1) > 0).float()
        wanted.append(torch.einsum("hts,shk->thk", scores.softmax(-1) * kept * drops.keep_scale(P), v[columns]))
    want = torch.cat(wanted)
    got = dropped(q, k, v, layout_q, layout_k, mask)
    torch.testing.assert_close(got, want, atol=1e-5, rtol=1e-5)
    grad = torch.randn_like(want)
    for one, other in zip(
        torch.autograd.grad(got, (q, k, v), grad), torch.autograd.grad(want, (q, k, v), grad), strict=True
    ):
        torch.testing.assert_close(one, other, atol=2e-5, rtol=1e-4)


def test_dropout_is_fair():
    """The mean over many draws is attention without dropout."""
    layout = Layout.from_lengths([30, 12, 70])
    q, k, v = (x.detach() for x in drawn(layout.host_lengths, layout.host_lengths, 8))
    plain = attend(q, k, v, layout, layout)
    mean = sum(attend(q, k, v, layout, layout, dropout=P) for _ in range(400)) / 400
    assert (mean - plain).abs().mean() < 0.02
    assert not torch.equal(attend(q, k, v, layout, layout, dropout=P), attend(q, k, v, layout, layout, dropout=P))


@pytest.mark.parametrize(("groups", "length"), [(12, 320), (4, 320), (12, 600)])
def test_both_directions_drop_the_same_in_bfloat16(groups, length):
    """What is gathered is linear in the values, so that (grad, out) is (gradient of the values, values)."""
    layout = Layout.from_lengths([length, 31])
    torch.manual_seed(2)
    q, k, v = (torch.randn(sum(layout.host_lengths), h, 16, dtype=torch.bfloat16) for h in (12, groups, groups))
    v.requires_grad_()
    out = attend(q, k, v, layout, layout, dropout=0.5)
    grad = torch.randn_like(out)
    (dv,) = torch.autograd.grad(out, v, grad)
    whole = (grad.double() * out.double()).sum(), (dv.double() * v.double()).sum()
    size = (grad.double() * out.double()).square().sum().sqrt()
    assert abs(whole[0] - whole[1]) < 0.05 * size
