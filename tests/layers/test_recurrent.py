"""Recurrent layers: the lecture's formulas, torch's own nets on every sequence alone, states in and out, gradients."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from clearhead.attention import Layout
from clearhead.layers import POOLINGS, Recurrent
from clearhead.layers.recurrent import PackedOrder, gru, lstm, reorder, rnn
from tests.parts import gradient

KINDS = ("rnn", "lstm", "gru")


def net(kind, *, width=4, layers=2, both=False, dropout=0.0, dtype=torch.float64):
    torch.manual_seed(1)
    return Recurrent(kind, 3, width, layers, bidirectional=both, dropout=dropout).to(dtype)


def sigmoid(x):
    return 1 / (1 + math.exp(-x))


def test_one_step_of_an_rnn_by_hand():
    """h = tanh(x W_ihᵀ + b_ih + h₋₁ W_hhᵀ + b_hh), with two inputs and one state."""
    layer = Recurrent("rnn", 2, 1)
    with torch.no_grad():
        for name, value in {
            "weight_ih": [[0.5, -1.0]],
            "weight_hh": [[2.0]],
            "bias_ih": [0.1],
            "bias_hh": [0.2],
        }.items():
            getattr(layer.net, f"{name}_l0").copy_(torch.tensor(value))
    x, before = torch.tensor([[1.0, 0.5]]), torch.tensor([[[0.25]]])
    want = math.tanh(0.5 * 1.0 - 1.0 * 0.5 + 0.1 + 2.0 * 0.25 + 0.2)  # tanh(0.8)
    out, (after,) = layer(x, Layout.from_lengths([1]), (before,))
    assert out.item() == pytest.approx(want, abs=1e-6)
    assert after.item() == pytest.approx(want, abs=1e-6)
    assert rnn(torch.tensor([[0.1]]), torch.tensor([[0.7]]), before[0])[0].item() == pytest.approx(want, abs=1e-6)


def test_one_step_of_an_lstm_by_hand():
    """The six lines of the lecture, with one input and one state."""
    weights = {"i": (0.5, -0.3, 0.1), "f": (1.0, 0.2, -0.1), "g": (-0.7, 0.9, 0.0), "o": (0.4, 0.4, 0.3)}
    x, h, c = 2.0, 0.5, -1.5
    say = {gate: w * x + u * h + b for gate, (w, u, b) in weights.items()}
    cell = sigmoid(say["f"]) * c + sigmoid(say["i"]) * math.tanh(say["g"])
    want = sigmoid(say["o"]) * math.tanh(cell)
    layer = Recurrent("lstm", 1, 1)
    with torch.no_grad():
        for at, name in enumerate(("weight_ih", "weight_hh", "bias_ih")):
            column = torch.tensor([weights[gate][at] for gate in "ifgo"])
            getattr(layer.net, f"{name}_l0").copy_(column.view_as(getattr(layer.net, f"{name}_l0")))
        layer.net.get_parameter("bias_hh_l0").zero_()
    before = torch.tensor([[[h]]]), torch.tensor([[[c]]])
    out, (after, cells) = layer(torch.tensor([[x]]), Layout.from_lengths([1]), before)
    assert out.item() == after.item() == pytest.approx(want, abs=1e-6)
    assert cells.item() == pytest.approx(cell, abs=1e-6)
    said = torch.tensor([[say[gate] for gate in "ifgo"]])
    stated = lstm(said, torch.zeros(1, 4), before[0][0], before[1][0])
    assert [t.item() for t in stated] == pytest.approx([want, cell], abs=1e-6)


def test_one_step_of_a_gru_by_hand():
    i, h, s = (0.3, -0.2, 0.9), (0.1, 0.4, -0.5), 0.6
    reset, keep = sigmoid(i[0] + h[0]), sigmoid(i[1] + h[1])
    new = math.tanh(i[2] + reset * h[2])
    want = (1 - keep) * new + keep * s
    found = gru(torch.tensor([i]), torch.tensor([h]), torch.tensor([[s]]))
    assert found[0].item() == pytest.approx(want, abs=1e-6)


@pytest.mark.parametrize("both", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_each_sequence_is_what_torch_makes_of_it_alone(kind, both):
    """Output and last states, in a batch with sequences that are empty, and in whichever order."""
    layer = net(kind, both=both)
    layout = Layout.from_lengths([3, 0, 7, 1, 7])
    x = torch.randn(layout.num_tokens, 3, dtype=torch.float64)
    out, last = layer(x, layout)
    assert out.shape == (18, layer.output_width) and layer.output_width == (8 if both else 4)
    for i, (mine, part) in enumerate(zip(layout.split(out), layout.split(x), strict=True)):
        if not len(part):
            assert all(not s[i].any() for s in last), "nothing was read: the states are as they were"
            continue
        theirs, states = layer.net(part)
        torch.testing.assert_close(mine, theirs, atol=1e-12, rtol=0)
        for s, t in zip(last, states if kind == "lstm" else (states,), strict=True):
            torch.testing.assert_close(s[i], t, atol=1e-12, rtol=0)


@pytest.mark.parametrize("kind", KINDS)
def test_states_carry_on(kind):
    """A batch in two halves, the second from the states of the first, is the batch at once."""
    layer, lengths, cuts = net(kind), [5, 2, 0, 4], [2, 2, 0, 0]
    layout = Layout.from_lengths(lengths)
    x = torch.randn(11, 3, dtype=torch.float64)
    whole, ended = layer(x, layout)
    first = torch.cat([part[:cut] for part, cut in zip(layout.split(x), cuts, strict=True)])
    rest = torch.cat([part[cut:] for part, cut in zip(layout.split(x), cuts, strict=True)])
    _, states = layer(first, Layout.from_lengths(cuts))
    left = Layout.from_lengths([n - cut for n, cut in zip(lengths, cuts, strict=True)])
    out, states = layer(rest, left, states)
    for mine, all_of, cut in zip(left.split(out), layout.split(whole), cuts, strict=True):
        torch.testing.assert_close(mine, all_of[cut:], atol=1e-12, rtol=0)
    for a, b in zip(states, ended, strict=True):
        torch.testing.assert_close(a, b, atol=1e-12, rtol=0)


@given(
    st.sampled_from(KINDS),
    st.integers(1, 3),
    st.lists(st.integers(0, 6), min_size=1, max_size=5),
    st.integers(0, 3),
)
def test_the_formulas_step_by_step_are_the_net(kind, layers, lengths, fed):
    """Also where a part of the input is shared out for all steps at once."""
    layer, layout = net(kind, layers=layers), Layout.from_lengths(lengths)
    x = torch.randn(layout.num_tokens, 3, dtype=torch.float64)
    want, _ = layer(x, layout)
    cells = layer.cells(fed) if fed else layer.cells()
    for part, whole in zip(layout.split(x), layout.split(want), strict=True):
        states = layer.zeros(1)
        for row, due in zip(part, whole, strict=True):
            row = row.unsqueeze(0)
            given_ = cells.share(row[:, : 3 - fed]) if fed else None
            states = cells.step(row[:, 3 - fed :] if fed else row, states, given_)
            torch.testing.assert_close(states[0][0, -1], due, atol=1e-12, rtol=0)


@pytest.mark.parametrize("both", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_gradients_are_those_of_one_sequence_after_another(kind, both):
    layer, layout = net(kind, both=both), Layout.from_lengths([2, 5, 0, 1])
    x = torch.randn(8, 3, dtype=torch.float64, requires_grad=True)
    weights = torch.randn(8, layer.output_width, dtype=torch.float64)
    (layer(x, layout)[0] * weights).sum().backward()
    mine = [gradient(x).clone(), *(gradient(p).clone() for p in layer.parameters())]
    x.grad = None
    layer.zero_grad()
    alone = [layer.net(part)[0] for part in layout.split(x) if len(part)]
    (torch.cat(alone) * weights).sum().backward()
    for a, b in zip(mine, [x.grad, *(p.grad for p in layer.parameters())], strict=True):
        torch.testing.assert_close(a, b, atol=1e-12, rtol=0)


@pytest.mark.parametrize("kind", KINDS)
def test_gradients_through_states(kind):
    """Checked against differences, through the first states and out of the last."""
    layer, layout = net(kind, width=2, layers=1), Layout.from_lengths([1, 3, 0])
    x = torch.randn(4, 3, dtype=torch.float64, requires_grad=True)
    states = tuple(torch.randn_like(s).requires_grad_() for s in layer.zeros(3))

    def run(x, *states):
        out, last = layer(x, layout, states)
        return out, *last

    assert torch.autograd.gradcheck(run, (x, *states))


def test_reordering_is_undone_by_its_gradient():
    order = torch.tensor([2, 0, 3, 1])
    x = torch.randn(4, 2, dtype=torch.float64, requires_grad=True)
    assert torch.equal(reorder(x, order, order.argsort()), x[order])
    assert torch.autograd.gradcheck(lambda x: reorder(x, order, order.argsort()), (x,))
    assert torch.autograd.gradgradcheck(lambda x: reorder(x, order, order.argsort()) ** 2, (x,))


def test_the_order_of_steps_is_made_once():
    layout = Layout.from_lengths([1, 4, 0, 4])
    steps = PackedOrder.of(layout)
    assert PackedOrder.of(layout) is steps
    assert steps.order.tolist() == [1, 3, 0, 2] and steps.alive.tolist() == [3, 2, 2, 2]
    assert torch.equal(steps.rows[steps.back], torch.arange(9))
    assert torch.equal(steps.order[steps.rank], torch.arange(4))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("lengths", [[], [0], [0, 0]])
def test_no_token_at_all(kind, lengths):
    layer = net(kind, both=True)
    x = torch.zeros(0, 3, dtype=torch.float64, requires_grad=True)
    out, states = layer(x, Layout.from_lengths(lengths))
    assert out.shape == (0, 8) and all(s.shape == (len(lengths), 4, 4) for s in states)
    out.sum().backward()
    assert all(p.grad is not None and not p.grad.any() for p in layer.parameters())


@pytest.mark.parametrize("kind", KINDS)
def test_autocast_and_bfloat16(kind):
    """Products in bfloat16, from inputs and states of either kind; a bfloat16 net stays one."""
    layer = net(kind, dtype=torch.float32)
    layout = Layout.from_lengths([4, 2])
    x = torch.randn(6, 3)
    want, _ = layer(x, layout)
    for given_ in (x, x.bfloat16()):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            out, last = layer(given_, layout, tuple(s.bfloat16() for s in layer.zeros(2)))
            again = layer.cells().step(given_[:2], last)
        assert (out.float() - want).abs().max() < 0.01  # measured: 0.0033
        out.float().sum().backward()
        assert all(s.isfinite().all() for s in again)
    grads = [gradient(p) for p in layer.parameters()]
    assert all(grad.isfinite().all() and grad.dtype == torch.float32 for grad in grads)
    assert layer.bfloat16()(x.bfloat16(), layout)[0].dtype == torch.bfloat16


def test_dropout_is_between_layers_and_only_while_training():
    layer, layout, x = net("gru", dropout=0.5), Layout.from_lengths([6]), torch.randn(6, 3, dtype=torch.float64)
    assert not torch.equal(layer(x, layout)[0], layer(x, layout)[0])
    assert layer.cells().dropout == 0.5
    layer.eval()
    assert torch.equal(layer(x, layout)[0], layer(x, layout)[0])
    assert layer.cells().dropout == 0.0
    alone = Recurrent("gru", 3, 4, dropout=0.5)
    assert alone.net.dropout == 0.0, "with one layer there is nothing between"


def test_what_cannot_be():
    with pytest.raises(ValueError, match="there is no recurrent net 'sru': choose rnn, lstm, gru"):
        Recurrent("sru", 3, 4)  # pyright: ignore[reportArgumentType]
    with pytest.raises(ValueError, match="cannot run step by step"):
        net("gru", both=True).cells()


def test_the_two_ends_of_what_was_read():
    """What a bidirectional net knows after reading all: forward at the last token, backward at the first."""
    layer = net("gru", layers=1, both=True)
    layout = Layout.from_lengths([3, 0, 1])
    out, (last,) = layer(torch.randn(4, 3, dtype=torch.float64), layout)
    pooled = POOLINGS["bidirectional_last"](out, layout)
    assert torch.equal(pooled[[0, 2]], last[[0, 2]].flatten(1)) and not pooled[1].any()
    with pytest.raises(ValueError, match="width 3 cannot be halved"):
        POOLINGS["bidirectional_last"](torch.randn(4, 3), layout)


def test_it_is_torchs_own_net():
    assert type(net("lstm").net) is nn.LSTM and sum(1 for _ in net("lstm").parameters()) == 8


def test_the_packed_order_is_that_of_packed_sequence():
    parts = [torch.randn(n, 2) for n in (2, 5, 3)]
    order = PackedOrder.of(Layout.from_lengths([2, 5, 3]))
    want = nn.utils.rnn.pack_sequence(parts, enforce_sorted=False)
    assert torch.equal(torch.cat(parts)[order.rows], want.data)
    assert torch.equal(order.alive, want.batch_sizes)
    assert torch.equal(want.data[order.back], torch.cat(parts))
    assert want.sorted_indices is not None and torch.equal(order.order, want.sorted_indices)
