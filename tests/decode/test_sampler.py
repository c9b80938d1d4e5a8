"""Chance: each request's own, and as likely as the model says."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare

from clearhead.decode import SamplingParams, initial_state
from clearhead.decode.continuous import decode_steps
from clearhead.decode.sampler import Sampler
from tests.decode.cases import sources, writer

DRAWS = 20_000


def probabilities(scores: torch.Tensor, temperature: float, top_k: int, top_p: float) -> np.ndarray:
    """The exact probabilities, by the book: warm, cut to the likeliest, cut to the mass, and normalise."""
    p = torch.softmax(scores.double() / temperature, 0)
    order = p.argsort(descending=True)
    if top_k:
        p[order[top_k:]] = 0.0
        p /= p.sum()
    before = p[order].cumsum(0) - p[order]
    p[order[before >= top_p]] = 0.0
    return (p / p.sum()).numpy()


@pytest.mark.parametrize(
    ("temperature", "top_k", "top_p"), [(1.0, 0, 1.0), (0.7, 0, 1.0), (1.3, 5, 1.0), (1.0, 0, 0.6), (0.9, 12, 0.8)]
)
def test_tokens_are_as_likely_as_they_should_be(temperature, top_k, top_p):
    torch.manual_seed(3)
    scores = torch.randn(30) * 1.5
    want = probabilities(scores, temperature, top_k, top_p)
    settings = [SamplingParams(temperature=temperature, top_k=top_k, top_p=top_p, seed=s) for s in range(DRAWS)]
    tokens = Sampler(settings).sample(scores.expand(DRAWS, -1).clone())[0].numpy()
    counts = np.bincount(tokens, minlength=30)
    assert not counts[want == 0].any()  # what was cut is never drawn
    assert chisquare(counts[want > 0], want[want > 0] * DRAWS).pvalue > 1e-3


@given(st.integers(0, 2**64 - 1), st.lists(st.sampled_from([0.0, 0.5, 1.0]), min_size=1, max_size=5), st.integers(0, 3))
def test_mixed_requests_draw_each_its_own(seed, warm, step):
    torch.manual_seed(0)
    scores = torch.randn(len(warm), 50)
    settings = [SamplingParams(temperature=t, top_k=7 * i, top_p=1.0 - i / 10, seed=seed) for i, t in enumerate(warm)]
    together = picked(Sampler(settings), scores, step)
    for i, setting in enumerate(settings):
        alone = picked(Sampler([setting]), scores[i : i + 1], step)
        assert alone.item() == together[i].item()
        if setting.temperature == 0:
            assert together[i] == scores[i].argmax()


def picked(picker: Sampler, scores: torch.Tensor, step: int) -> torch.Tensor:
    """What is picked after so many tokens."""
    for _ in range(step):
        picker.sample(scores.clone())
    return picker.sample(scores.clone())[0]


def test_who_joins_later_begins_its_own_chance():
    torch.manual_seed(0)
    scores = torch.randn(3, 50)
    a, b, c = (SamplingParams(temperature=1.0, seed=s) for s in (1, 2, 3))
    picker = Sampler([a, b])
    picked(picker, scores[:2], 2)
    picker.join([c])
    third = picker.sample(scores.clone())[0]
    assert third[0] == picked(Sampler([a]), scores[:1], 3)[0]
    assert third[2] == picked(Sampler([c]), scores[2:], 0)[0]
    picker.keep(np.array([2, 1]))
    last = picker.sample(scores[[2, 1]].clone())[0]
    assert last[0] == picked(Sampler([c]), scores[2:], 1)[0] and last[1] == picked(Sampler([b]), scores[1:2], 4)[0]


def run(rows: list[list[int]], settings: list[SamplingParams]) -> list[list[int]]:
    model = writer("gpt2")
    with torch.inference_mode():
        ids, layout, first, prompts = model.inputs(rows)
        out: list[list[int]] = [[] for _ in rows]
        for step in decode_steps(
            initial_state(model.model, ids, layout),
            first,
            model.defaults.constraints,
            settings,
            [8] * len(rows),
            prompts,
        ):
            for i, token in zip(step.sequences, step.tokens, strict=True):
                out[i].append(int(token))
    return out


def test_a_request_gives_the_same_alone_and_in_any_batch():
    rows = sources(12)
    settings = [SamplingParams(temperature=1.0, top_k=0 if i % 2 else 20, seed=i * 7919) for i in range(12)]
    alone = [run([row], [setting])[0] for row, setting in zip(rows, settings, strict=True)]
    assert run(rows, settings) == alone
    turned = list(range(11, -1, -1))
    assert run([rows[i] for i in turned], [settings[i] for i in turned]) == [alone[i] for i in turned]
    other = [SamplingParams(temperature=1.0, seed=s.seed + 1) for s in settings]
    assert run(rows, other) != alone


def test_invalid_settings_are_refused():
    cases: tuple[tuple[dict[str, Any], str], ...] = (
        ({"temperature": -1.0}, "temperature is -1.0"),
        ({"temperature": float("nan")}, "temperature is nan"),
        ({"top_k": -1}, "top_k is -1"),
        ({"top_p": 0.0}, "top_p is 0.0"),
        ({"seed": -3}, "seed is -3"),
    )
    for wrong, words in cases:
        with pytest.raises(ValueError, match=words):
            SamplingParams(**wrong)
