"""Who joins and who leaves between two steps: what a sequence becomes does not depend on it."""

from __future__ import annotations

import random
from functools import cache

import pytest
import torch

from clearhead.decode import SamplingParams, initial_state
from clearhead.decode.continuous import ContinuousDecoder
from clearhead.decode.state import CANNOT_JOIN
from tests.decode.cases import sources, writer

RULES = {
    "plain": {},
    "early": {"min_new_tokens": 3, "begin_suppress_tokens": [5, 6, 7]},
    "back": {"repetition_penalty": 1.3, "no_repeat_ngram_size": 2, "forced_eos_token_id": 2},
}
NEW = 9


@cache
def alone(kind: str, rules: str, number: int) -> list[int]:
    """What one sequence becomes by itself."""
    rolled = _Rolled(kind, rules)
    rolled.join([number])
    while len(rolled.roll):
        rolled.step()
    return rolled.out[number]


class _Rolled:
    def __init__(self, kind: str, rules: str = "plain") -> None:
        self.generator = writer(kind, **RULES[rules])
        self.roll = ContinuousDecoder(self.generator.defaults.constraints)
        self.rows = sources(40, longest=20)
        self.out: dict[int, list[int]] = {}

    def join(self, numbers: list[int]) -> None:
        with torch.inference_mode():
            ids, layout, first, prompts = self.generator.inputs([self.rows[i] for i in numbers])
            held = self.roll.state
            state = initial_state(self.generator.model, ids, layout) if held is None else held.prefill(ids, layout)
            draws = [SamplingParams(temperature=i % 3 / 2, top_k=i % 5 * 4, seed=i) for i in numbers]
            self.roll.join(state, first, prompts, draws, [1 + i % NEW for i in numbers], numbers)
        self.out |= {i: [] for i in numbers}

    def step(self) -> None:
        with torch.inference_mode():
            step = self.roll.step()
        for number, token in zip(step.sequences.tolist(), step.tokens.tolist(), strict=True):
            self.out[number].append(token)

    def drop(self, number: int) -> None:
        with torch.inference_mode():
            self.roll.drop([number])


@pytest.mark.parametrize("rules", RULES)
@pytest.mark.parametrize("kind", ["gpt2", "llama", "mistral"])
def test_a_sequence_is_the_same_whoever_joins_and_leaves(kind, rules):
    draw = random.Random(f"{kind} {rules}")
    rolled = _Rolled(kind, rules)
    waiting, dropped = draw.sample(range(40), 40), set()
    while waiting or len(rolled.roll):
        count = draw.choice([0, 0, 1, 2, 7])
        if waiting and (count or not len(rolled.roll)):
            rolled.join([waiting.pop() for _ in range(min(len(waiting), count or 1))])
        rolled.step()
        if draw.random() < 0.4 and (running := [i for i in rolled.out if i in set(rolled.roll._names.tolist())]):
            gone = draw.choice(running)
            rolled.drop(gone)
            dropped.add(gone)
    assert len(dropped) > 2 and len(rolled.out) == 40
    for number, said in rolled.out.items():
        due = alone(kind, rules, number)
        assert said == (due[: len(said)] if number in dropped else due), number


def test_the_places_of_a_long_text_are_given_back():
    rolled = _Rolled("llama")
    rolled.rows[0] = [3] * 60
    rolled.join([0, 1])
    rolled.drop(0)
    rolled.join([2])
    assert rolled.roll.state._slots.length == 32  # type: ignore[union-attr]


def test_a_translator_is_not_joined():
    marian = writer("marian")
    with torch.inference_mode():
        ids, layout, *_ = marian.inputs(sources(2))
        state = initial_state(marian.model, ids, layout)
        with pytest.raises(ValueError, match=CANNOT_JOIN[:20]):
            state.join(state.prefill(ids, layout))
