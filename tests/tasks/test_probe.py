"""The probe: a linear classifier on vectors, evaluated on rows that it was not fitted on."""

import numpy as np
import pytest

from clearhead.tasks.probe import evaluate_probe

draw = np.random.default_rng(0)


def test_separable_labels_are_found_and_random_ones_are_not():
    labels = ["a", "b", "c"] * 40
    vectors = draw.normal(size=(120, 8))
    random = evaluate_probe(vectors, labels).scores()["accuracy"]
    vectors[:, :3] += 6 * np.eye(3)[[0, 1, 2] * 40]
    found = evaluate_probe(vectors, labels)
    assert found.scores()["accuracy"] == 100.0
    assert found.count == 120
    assert [label.name for label in found.labels] == ["a", "b", "c"]
    assert 15 < random < 55, "rows must not be evaluated by a model that was fitted on them"


def test_a_label_that_occurs_once_is_counted_as_missed():
    vectors = np.concatenate([draw.normal(size=(20, 4)) + 5, draw.normal(size=(20, 4)) - 5, np.zeros((1, 4))])
    with pytest.warns(UserWarning, match="least populated class"):
        found = evaluate_probe(vectors, ["x"] * 20 + ["y"] * 20 + ["rare"])
    assert found.scores()["accuracy"] == pytest.approx(100 * 40 / 41)


def test_one_label_is_refused():
    with pytest.raises(ValueError, match="needs two labels"):
        evaluate_probe(np.zeros((3, 2)), ["a", "a", "a"])
