"""Evaluation: the mean over tokens, however the examples are batched."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from clearhead.distributed import Distributed
from clearhead.train.evaluate import evaluate


def test_it_is_the_mean_over_all_tokens_whatever_the_batches(begin):
    run = begin(label_smoothing=0.3)
    model = run.job(Distributed(), shown=False).model
    batch = run.task.collate(run.valid, np.arange(len(run.valid["source"])))
    with torch.no_grad():
        exact = run.task.loss(model.eval(), batch).item() / len(batch.labels)
    for budget in (18, 40, 120, 10_000):
        found = evaluate(model.train(), run.task, run.valid, replace(run.recipe.train, batch_tokens=budget))
        assert found["loss"] == pytest.approx(exact, rel=1e-6), "without dropout or smoothing"
        assert found["perplexity"] == math.exp(found["loss"])


def test_it_leaves_nothing_behind(begin):
    run = begin()
    model = run.job(Distributed(), shown=False).model
    before = torch.get_rng_state()
    evaluate(model, run.task, run.valid, run.recipe.train)
    assert torch.equal(torch.get_rng_state(), before)
    assert all(p.grad is None for p in model.parameters())


def test_a_perplexity_beyond_numbers_is_large_and_no_error(begin):
    run = begin()
    model = run.job(Distributed(), shown=False).model
    with torch.no_grad():
        model.head.output.bias += torch.linspace(-5e4, 5e4, len(model.head.output.bias))
    found = evaluate(model, run.task, run.valid, run.recipe.train)
    assert found["loss"] > 700 and math.isfinite(found["perplexity"])
