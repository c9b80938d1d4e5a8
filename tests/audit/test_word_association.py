"""Association tests: effect size by hand, permutations by brute force, and planted associations of vectors."""

from __future__ import annotations

import zlib
from itertools import combinations
from typing import cast

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from clearhead.audit import estimates, word_association
from clearhead.audit.word_association import (
    AssociationTest,
    associate,
    association_tests,
    audit_associations,
    effect_size,
    permutation_test,
    word_vectors,
    words_of,
)
from clearhead.pipeline import Pipeline

TEST = AssociationTest(targets=("x", "y"), attributes=("a", "b"))


@pytest.fixture(autouse=True)
def fewer_draws(monkeypatch):
    monkeypatch.setattr(estimates, "DRAWS", 400)
    monkeypatch.setattr(word_association, "PERMUTATIONS", 2000)


def test_the_effect_size_by_hand():
    """Associations: x (1, 0.8), y (-1, -0.2); means 0.9 and -0.6; the squares around 0.15 sum to 2.59."""
    vectors = {
        "x": np.array([[1.0, 0.0], [0.9, 0.1]]),
        "y": np.array([[0.0, 2.0], [2.0, 3.0]]),
        "a": np.array([[3.0, 0.0]]),
        "b": np.array([[0.0, 0.5]]),
    }
    norms = np.sqrt(0.82), np.sqrt(13)
    scores = [1.0, 0.8 / norms[0], -1.0, -1.0 / norms[1]]
    mean = sum(scores) / 4
    spread = (sum((s - mean) ** 2 for s in scores) / 3) ** 0.5
    expected = ((scores[0] + scores[1]) / 2 - (scores[2] + scores[3]) / 2) / spread
    found, p_value = associate(TEST, vectors, seed=0)
    assert found.value == pytest.approx(expected)
    assert p_value == pytest.approx(2 / 6)  # of 6 partitions, this one and its mirror image
    assert effect_size(np.array([1.0, 0.8]), np.array([-1.0, -0.2])) == pytest.approx(1.5 / (2.59 / 3) ** 0.5)
    assert effect_size(np.ones(3), np.ones(3)) == 0.0


numbers = st.lists(st.integers(-5, 5).map(float), min_size=2, max_size=5)


@settings(max_examples=60)
@given(numbers, numbers)
def test_few_partitions_are_all_counted(x, y):
    """Against the definition: every choice of as many scores as X has, and the difference of means that it gives."""
    scores = x + y
    observed = abs(np.mean(x) - np.mean(y))
    extreme = total = 0
    for chosen in combinations(range(len(scores)), len(x)):
        rest = [s for i, s in enumerate(scores) if i not in chosen]
        difference = abs(np.mean([scores[i] for i in chosen]) - np.mean(rest))
        extreme += difference >= observed - 1e-9
        total += 1
    assert permutation_test(np.array(x), np.array(y)) == pytest.approx(extreme / total)


def test_drawn_partitions_are_near_all(monkeypatch):
    draw = np.random.default_rng(3)
    x, y = draw.standard_normal(6) + 0.7, draw.standard_normal(6)
    exact = permutation_test(x, y)
    monkeypatch.setattr(word_association, "MAX_EXACT", 10)
    monkeypatch.setattr(word_association, "PERMUTATIONS", 20_000)
    assert permutation_test(x, y, seed=1) == pytest.approx(exact, abs=0.01)
    far = permutation_test(np.arange(40.0) + 100, np.arange(40.0))
    assert far == pytest.approx(1 / 20_001)


def test_false_alarms_of_random_scores():
    draw = np.random.default_rng(0)
    alarms = sum(
        permutation_test(draw.standard_normal(20), draw.standard_normal(20), seed=i) < 0.05 for i in range(300)
    )
    assert 5 <= alarms <= 24


def planted(strength, seed=0, count=32):
    draw = np.random.default_rng(seed)
    sets = {name: draw.standard_normal((count, 24)) for name in "xyab"}
    direction = draw.standard_normal(24)
    for name, sign in (("x", 1), ("a", 1), ("y", -1), ("b", -1)):
        sets[name] += sign * strength * direction
    return sets


def test_a_planted_association_is_found_and_its_mirror_image():
    found, p_value = associate(TEST, planted(0.4), seed=0)
    assert found.low > 0.5 and p_value < 0.01 and found.count == 32
    turned, same = associate(AssociationTest(targets=("y", "x"), attributes=("a", "b")), planted(0.4), seed=0)
    assert turned.value == pytest.approx(-found.value) and same == pytest.approx(p_value, abs=0.01)
    scaled = {name: 7.0 * vectors for name, vectors in planted(0.4).items()}
    assert associate(TEST, scaled, seed=0)[0].value == pytest.approx(found.value)


def test_vectors_without_an_association_are_rarely_flagged(monkeypatch):
    monkeypatch.setattr(estimates, "DRAWS", 20)
    p_values = [associate(TEST, planted(0.0, seed), seed=seed)[1] for seed in range(100)]
    assert sum(p < 0.05 for p in p_values) <= 10


def test_the_lists_are_long_enough_and_disjoint():
    tests = association_tests()
    assert sum(test.is_control for test in tests) == 1 and len(tests) == 22
    for test in tests:
        sets = [words_of(name) for name in (*test.targets, *test.attributes)]
        assert all(len(words) >= 12 and len(set(words)) == len(words) for words in sets)
        assert len({len(words) for words in sets[:2]}) == 1 and min(len(words) for words in sets[2:]) == 32
        assert test.is_tested == (test.targets[0] not in ("disabled", "gay"))
        assert not set(sets[0]) & set(sets[1]) and not set(sets[2]) & set(sets[3])


class PlantedEncoder:
    """Encodes a sentence as the sum of random vectors of its words; some words are near to some attributes."""

    def __init__(self, nearer: dict[str, str]) -> None:
        self.nearer = nearer
        self.vectors: dict[str, np.ndarray] = {}
        self.lists = {name: set(words_of(name)) for name in ("pleasant", "unpleasant")}
        self.directions = {name: np.random.default_rng(i).standard_normal(32) for i, name in enumerate(self.lists)}
        self.people = {person: group for group in nearer for person in words_of(group)}

    def word(self, word: str) -> np.ndarray:
        if word not in self.vectors:
            self.vectors[word] = np.random.default_rng(len(self.vectors) + 10).standard_normal(32)
        return self.vectors[word]

    def encode(self, texts, *, normalize):
        assert normalize
        rows = []
        for text in texts:
            words = text.rstrip(".").split()
            row = sum(self.word(word) for word in words)
            for name, members in self.lists.items():
                row = row + 2 * self.directions[name] * bool(members & set(words))
            group = next((g for person, g in self.people.items() if person in text), None)
            row = row + (2 * self.directions[self.nearer[group]] if group else 0)
            rows.append(row / np.linalg.norm(row))
        return torch.tensor(np.array(rows), dtype=torch.float32)


class RandomEncoder:
    """Encodes a sentence as a random vector for its subject, with a part that all sentences share."""

    def __init__(self, seed: int) -> None:
        self.seed = seed

    def encode(self, texts, *, normalize):
        draw = np.random.default_rng(self.seed)
        words = draw.standard_normal((4001, 16))  # one of a word; collisions are rare
        rows = [sum(words[zlib.crc32(word.encode()) % 4001] for word in text.rstrip(".").split()) for text in texts]
        return torch.tensor(np.array(rows), dtype=torch.float32)


def random_encoder(seed: int) -> Pipeline:
    return cast("Pipeline", RandomEncoder(seed))


def pipeline(**nearer) -> Pipeline:
    return cast("Pipeline", PlantedEncoder({name.replace("_", " "): attribute for name, attribute in nearer.items()}))


def test_an_encoder_with_a_planted_association():
    encoder = pipeline(insects="unpleasant", flowers="pleasant", Syrian="unpleasant", Sikh="pleasant", gay="unpleasant")
    result = audit_associations(encoder, seed=0)
    found = {e.name: e for e in result.estimates}
    assert {e.name: e.value > 0 for e in result.flagged} == {
        "Syrian against Canadian: unpleasant rather than pleasant": True,
        "Sikh against Christian: unpleasant rather than pleasant": False,
    }
    gay = found["gay against straight: unpleasant rather than pleasant"]
    assert gay.low > 1 and gay.p_value is None and not gay.flagged  # one word names the group
    control = found["insects against flowers: unpleasant rather than pleasant"]
    assert control.low > 0 and control.ideal is None and control.p_value is None
    assert len(result.notes) == 1 and result.notes[0].startswith("control (insects against flowers")
    assert all(e.effect > 0 for e in result.examples)
    assert {e.group for e in result.examples} >= {"gender: occupations", "age: adjectives"}


def test_vectors_that_do_not_show_the_control_say_so(monkeypatch):
    """Random vectors of all words: no association, in 12 encoders with 19 tested comparisons at most two alarms."""
    monkeypatch.setattr(estimates, "DRAWS", 100)
    monkeypatch.setattr(word_association, "PERMUTATIONS", 4000)
    results = [audit_associations(random_encoder(seed), seed=seed) for seed in range(12)]
    assert sum(bool(result.flagged) for result in results) <= 2
    assert sum("these vectors do not show it" in result.notes[0] for result in results) >= 9


def test_the_vector_of_a_word_is_the_mean_of_its_sentences():
    encoder = pipeline()
    (vector,) = word_vectors(encoder, ["peace"])
    sentences = [t.format(word="peace") for t in word_association._content()["templates"]]
    mean = encoder.encode(sentences, normalize=True).double().mean(0).numpy()
    assert vector == pytest.approx(mean / np.linalg.norm(mean))
