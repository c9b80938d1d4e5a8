"""Schedules by their formulas; optimizers that let only matrices decay."""

from __future__ import annotations

import copy
import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from clearhead.train.optimizer import clip, layer_shares, lr_factor, make_optimizer, set_rate
from clearhead.train.recipe import OptimizerConfig, ScheduleConfig
from tests.parts import gradient

KINDS = ("noam", "cosine", "linear", "constant")


@given(step=st.integers(1, 10_000), warmup=st.integers(1, 4000))
def test_noam_is_the_paper_s(step, warmup):
    """min(step^-0.5, step warmup^-1.5), divided by its highest value."""
    paper = min(step**-0.5, step * warmup**-1.5) * warmup**0.5
    assert lr_factor(step, 10_000, ScheduleConfig(kind="noam", warmup=warmup)) == pytest.approx(paper, rel=1e-12)


@given(step=st.integers(1, 2000), warmup=st.integers(0, 900), final=st.floats(0, 1))
def test_linear_and_cosine(step, warmup, final):
    steps = 1000
    done = min(1.0, (step - warmup) / (steps - warmup))
    rising = step / warmup if step < warmup else None
    linear = final + (1 - final) * (1 - done) if rising is None else rising
    cosine = final + (1 - final) * 0.5 * (1 + math.cos(math.pi * done)) if rising is None else rising
    assert lr_factor(step, steps, ScheduleConfig(kind="linear", warmup=warmup, final=final)) == pytest.approx(
        linear, abs=1e-12
    )
    assert lr_factor(step, steps, ScheduleConfig(kind="cosine", warmup=warmup, final=final)) == pytest.approx(
        cosine, abs=1e-12
    )


@given(st.sampled_from(KINDS), st.integers(0, 300), st.floats(0, 1), st.integers(1, 200))
def test_a_rate_is_a_share_that_rises_and_then_falls_to_the_final_one(kind, warmup, final, steps):
    schedule = ScheduleConfig(kind=kind, warmup=warmup, final=final)
    rates = [lr_factor(step, steps, schedule) for step in range(1, steps + 1)]
    assert all(0 <= r <= 1 for r in rates)
    risen = min(warmup, steps)
    assert rates[:risen] == sorted(rates[:risen])
    assert rates[max(risen - 1, 0) :] == sorted(rates[max(risen - 1, 0) :], reverse=True)
    if kind in ("linear", "cosine") and steps > warmup:
        assert rates[-1] == pytest.approx(final, abs=1e-12)
    if kind == "constant":
        assert set(rates[risen:]) <= {1.0}
    if kind == "noam":
        assert all(r >= final for r in rates[risen:])


def test_a_warm_up_of_four_steps():
    assert [lr_factor(i, 10, ScheduleConfig(kind="constant", warmup=4)) for i in range(1, 7)] == [
        0.25,
        0.5,
        0.75,
        1.0,
        1.0,
        1.0,
    ]


class Two(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 2)
        self.norm = nn.LayerNorm(2)
        self.frozen = nn.Linear(2, 2).requires_grad_(False)


@pytest.mark.parametrize("kind", ["adamw", "sgd"])
def test_only_matrices_decay_and_what_is_frozen_is_left_alone(kind):
    model = Two()
    optimizer = make_optimizer(model, OptimizerConfig(kind=kind, lr=0.5, weight_decay=0.1))
    decays = {id(p): group["weight_decay"] for group in optimizer.param_groups for p in group["params"]}
    assert decays == {
        id(model.linear.weight): 0.1, id(model.linear.bias): 0.0, id(model.norm.weight): 0.0, id(model.norm.bias): 0.0
    }  # fmt: skip
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    for param in model.parameters():
        param.grad = torch.zeros_like(param)
    optimizer.step()
    torch.testing.assert_close(model.linear.weight.detach(), before["linear.weight"] * (1 - 0.5 * 0.1))
    for name, param in model.named_parameters():
        assert name == "linear.weight" or torch.equal(param, before[name])


def test_adamw_by_hand():
    """The first step goes by lr towards the sign of the gradient (Loshchilov and Hutter 2019)."""
    model = nn.Linear(1, 1, bias=False).double()
    nn.init.constant_(model.weight, 2.0)
    optimizer = make_optimizer(model, OptimizerConfig(lr=0.1, eps=1e-9))
    model.weight.grad = torch.tensor([[-7.0]], dtype=torch.float64)
    optimizer.step()
    assert model.weight.item() == pytest.approx(2.1, rel=1e-8)


def test_sgd_by_hand():
    model = nn.Linear(1, 1, bias=False).double()
    nn.init.constant_(model.weight, 2.0)
    optimizer = make_optimizer(model, OptimizerConfig(kind="sgd", lr=0.1, momentum=0.5))
    for _ in range(2):
        model.weight.grad = torch.tensor([[1.0]], dtype=torch.float64)
        optimizer.step()
    assert model.weight.item() == pytest.approx(2.0 - 0.1 - 0.1 * 1.5)


def test_the_rate_is_set_for_every_group():
    optimizer = make_optimizer(Two(), OptimizerConfig())
    set_rate(optimizer, 0.123)
    assert [group["lr"] for group in optimizer.param_groups] == [0.123, 0.123]


def test_lower_layers_learn_more_slowly():
    names = ["encoder.embedding.tokens.weight", "encoder.blocks.0.attention.query.weight", "encoder.blocks.1.norm.bias",
             "head.output.weight", "encoder.norm.weight"]  # fmt: skip
    assert list(layer_shares(names, 0.5).values()) == [0.125, 0.25, 0.5, 1.0, 1.0]
    assert set(layer_shares(names, 1.0).values()) == {1.0}


def test_shares_are_kept_when_the_rate_changes():
    class Stack(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.encoder = nn.Module()
            self.encoder.blocks = nn.ModuleList([nn.Linear(2, 2), nn.Linear(2, 2)])
            self.head = nn.Linear(2, 2)

    model = Stack()
    optimizer = make_optimizer(model, OptimizerConfig(lr=1.0, layer_decay=0.5))
    set_rate(optimizer, 0.1)
    rates = {id(p): group["lr"] for group in optimizer.param_groups for p in group["params"]}
    assert rates[id(model.head.weight)] == 0.1
    assert rates[id(model.get_parameter("encoder.blocks.1.bias"))] == pytest.approx(0.05)
    assert rates[id(model.get_parameter("encoder.blocks.0.weight"))] == pytest.approx(0.025)


@pytest.mark.parametrize("limit", [0.5, 1e9, math.inf])
def test_clipping_is_torchs_own(limit):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(30, 40), nn.Linear(40, 7))
    for p in model.parameters():
        p.grad = torch.randn_like(p)
    other = copy.deepcopy(model)
    for a, b in zip(model.parameters(), other.parameters(), strict=True):
        b.grad = gradient(a).clone()
    want = float(nn.utils.clip_grad_norm_(other.parameters(), limit))
    assert clip(model, limit) == pytest.approx(want, rel=1e-6)
    for a, b in zip(model.parameters(), other.parameters(), strict=True):
        torch.testing.assert_close(a.grad, b.grad)


def test_a_gradient_that_is_not_finite_has_no_finite_norm():
    model = nn.Linear(3, 2)
    model.weight.grad = torch.full((2, 3), math.inf)
    assert not math.isfinite(clip(model, 1.0))
