"""Labels: what the training rows say, read again as the numbers of outputs."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clearhead.tasks.labels import Labels, names_of, number_of

names = (
    st.text(st.characters(exclude_characters="|", codec="utf-8"), min_size=1, max_size=5).map(str.strip).filter(bool)
)


@given(st.lists(names, min_size=2, max_size=30).filter(lambda x: len(set(x)) > 1))
def test_every_label_is_read_as_its_place_and_counted(values):
    labels = Labels.learn("one", values)
    assert set(labels.names) == set(values)
    assert [labels.names[labels.read(value)[0]] for value in values] == values
    assert dict(zip(labels.names, labels.counts, strict=True)) == {name: values.count(name) for name in set(values)}
    assert Labels.of(labels.facts()) == labels


def test_numbers_that_are_labels_stand_in_their_order():
    assert Labels.learn("one", ["10", "9", "1"]).names == ("1", "9", "10")
    assert Labels.learn("one", ["b", "A", "c"]).names == ("A", "b", "c")


@given(st.lists(st.lists(names, max_size=4), min_size=1, max_size=9).filter(any))
def test_several_labels_in_a_cell_or_a_list(rows):
    cells = Labels.learn("several", ["|".join(row) for row in rows])
    lists = Labels.learn("several", rows)
    assert cells == lists
    for row in rows:
        assert {lists.names[i] for i in lists.read(row)} == set(row)


@given(st.lists(st.integers(-(10**6), 10**6), min_size=1, max_size=20))
def test_numbers_have_a_centre_and_a_spread(values):
    labels = Labels.learn("number", [repr(value) for value in values])
    scaled = [(value - labels.center) / labels.spread for value in values]
    assert abs(sum(scaled)) < 1e-5 * len(values)
    if len(set(values)) > 1:
        assert math.isclose(sum(x * x for x in scaled) / len(values), 1, rel_tol=1e-5)


@pytest.mark.parametrize(
    ("kind", "values", "fault"),
    [
        ("one", ["a", "a"], "has|have 1 label"),
        ("one", [], "0 label"),
        ("number", ["1", "two"], "'two' is no number"),
        ("number", ["nan"], "no finite number"),
        ("number", [], "no number"),
    ],
)
def test_what_cannot_be_learnt_is_told(kind, values, fault):
    with pytest.raises(ValueError, match=fault):
        Labels.learn(kind, values)


def test_a_label_nobody_has_learnt_is_named_with_the_one_that_was_meant():
    labels = Labels.learn("one", ["positive", "negative"])
    with pytest.raises(ValueError, match=r"'positiv' is not among.*did you mean 'positive'"):
        labels.read("positiv")


@given(st.lists(names, min_size=2, max_size=40).filter(lambda x: len(set(x)) > 1))
def test_balanced_weights_are_one_on_average_and_the_same_for_each_label(values):
    labels = Labels.learn("one", values)
    weights = labels.balance()
    shares = [weight * count for weight, count in zip(weights, labels.counts, strict=True)]
    assert math.isclose(sum(shares), len(values))
    assert max(shares) - min(shares) < 1e-9 * len(values)


def test_cells():
    assert names_of(" a | b||a") == ["a", "b"] and names_of("") == []
    assert number_of(" 3.5 ") == 3.5
