"""Batches, steps and rows: who is computed, who has left, and that company changes nothing."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from clearhead.attention import Layout
from clearhead.decode import GenerationConstraints, SamplingParams
from clearhead.decode.beam import BeamConfig, search
from clearhead.decode.continuous import decode_steps
from clearhead.decode.generator import batches
from clearhead.decode.state import compact
from clearhead.decode.topk import topk
from tests.decode.cases import ours, sources


class Fake:
    """A state whose sequence i ends after i + 1 tokens, and that counts the rows it is asked for."""

    def __init__(self, count: int) -> None:
        self.ends_at = np.arange(1, count + 1)
        self.step_number, self.rows, self.selected = 0, [], 0

    def step(self, ids):
        self.step_number += 1
        self.rows.append(len(ids))
        scores = torch.zeros(len(ids), 40) - torch.arange(40) * 0.1
        per = len(ids) // len(self.ends_at)
        ending = torch.from_numpy(np.repeat(self.ends_at <= self.step_number, per))
        scores[ending, 0], scores[~ending, 0] = 50.0, -50.0
        return scores

    def select(self, sequences, parents):
        self.ends_at, self.selected = self.ends_at[sequences], self.selected + 1

    def prefill(self, ids: torch.Tensor, layout: Layout) -> Self:
        raise NotImplementedError

    def join(self, other: Self) -> None:
        raise NotImplementedError


def test_what_is_finished_leaves_at_once():
    state = Fake(6)
    rules = GenerationConstraints(eos_token_ids=(0,))
    steps = list(
        decode_steps(state, torch.zeros(6, dtype=torch.int64), rules, [SamplingParams()] * 6, [20] * 6, [[1]] * 6)
    )
    assert state.rows == [6, 5, 4, 3, 2, 1]
    assert sorted(int(s) for step in steps for s in step.sequences[step.done]) == list(range(6))
    state = Fake(6)
    found = dict(
        search(state, torch.zeros(6, dtype=torch.int64), rules, BeamConfig(size=2, early_stopping=True), 20, [[1]] * 6)
    )
    assert state.rows[0] == 6 and state.rows[1] == 12 and state.rows[-1] == 2  # one row each at first, then two
    assert all(a >= b for a, b in zip(state.rows[1:], state.rows[2:], strict=False))
    assert {i: len(best[0].ids) for i, best in found.items()} == {i: i + 1 for i in range(6)}


def test_a_limit_of_its_own_for_each():
    state = Fake(4)
    steps = list(
        decode_steps(
            state,
            torch.zeros(4, dtype=torch.int64),
            GenerationConstraints(),
            [SamplingParams()] * 4,
            [3, 1, 2, 5],
            [[1]] * 4,
        )
    )
    count = np.bincount(np.concatenate([s.sequences for s in steps]))
    assert count.tolist() == [3, 1, 2, 5]
    assert state.rows == [4, 3, 2, 1, 1]


@given(st.lists(st.booleans(), min_size=1, max_size=30))
def test_places_are_filled_from_behind(ready):
    ready = np.array(ready)
    places = compact(ready)
    assert sorted(places) == sorted(np.flatnonzero(~ready))
    assert sum(places != np.arange(len(places))) <= ready.sum()  # nobody moves who need not


@settings(max_examples=60)
@given(
    st.integers(1, 4), st.integers(1, 4), st.integers(20, 900), st.integers(1, 12), st.booleans(), st.integers(0, 999)
)
def test_the_best_are_those_of_a_full_sort(B, W, V, count, one, seed):
    torch.manual_seed(seed)
    per = 1 if one else W
    scores, base = torch.randn(B * per, V) * 3, torch.randn(B, W)
    banned = None if seed % 2 else torch.tensor([0, V // 2])
    count = min(count, V - 2)
    logs = torch.log_softmax(scores, 1)
    if banned is not None:
        logs[:, banned] = float("-inf")  # after the sum: banned words keep their share
    whole = (logs.view(B, per, V) + base.unsqueeze(2)).flatten(1)  # (B, W V)
    for told, normal, words in ((scores.clone(), False, banned), (logs, True, None)):
        value, of, word = topk(told, base, count, banned=words, normal=normal)
        torch.testing.assert_close(value, whole.topk(count).values, atol=1e-5, rtol=1e-5)
        torch.testing.assert_close(whole.gather(1, of * V + word), value, atol=1e-5, rtol=1e-5)


@settings(max_examples=6)
@given(st.integers(0, 2**32), st.integers(2, 6), st.sampled_from(["marian", "t5", "gpt2"]), st.sampled_from([1, 4]))
def test_in_company_as_alone(seed, count, kind, size):
    rows = sources(count, seed)
    together = ours(kind, rows, 10, size=size)
    for row, found in zip(rows, together, strict=True):
        alone = ours(kind, [row], 10, size=size)[0]
        assert found[0].ids == alone[0].ids or found[0].score == pytest.approx(alone[0].score, abs=1e-4)


@given(st.lists(st.integers(1, 300), max_size=60), st.integers(1, 8), st.integers(1, 900))
def test_every_text_is_in_one_batch(sizes, beam, budget):
    made = batches(sizes, beam, budget)
    assert sorted(i for batch in made for i in batch) == list(range(len(sizes)))
    for batch in made:
        assert len(batch) == 1 or sum(sizes[i] for i in batch) <= budget
        assert len(batch) <= max(1, 512 // beam)
    order = [sizes[i] for batch in made for i in batch]
    assert order == sorted(order, reverse=True)


def test_invalid_parameters_are_refused():
    cases: list[tuple[dict[str, Any], str]] = [
        ({"size": 0}, "at least 1"),
        ({"size": 2, "nbest": 3}, "nbest is 3 with a beam of 2"),
    ]
    for wrong, words in cases:
        with pytest.raises(ValueError, match=words):
            BeamConfig(**wrong)
    with pytest.raises(ValueError, match="a beam of 40 with a vocabulary of 61"):
        ours("gpt2", [[4, 5]], 5, size=40)
    with pytest.raises(ValueError, match="batch_tokens is 0"):
        batches([1], 1, 0)
