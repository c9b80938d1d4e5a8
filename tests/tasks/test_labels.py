"""Labels: what the training rows say, read again as the numbers of outputs."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clearhead.tasks.labels import Labels, parse_labels, parse_number

names = (
    st.text(st.characters(exclude_characters="|", codec="utf-8"), min_size=1, max_size=5).map(str.strip).filter(bool)
)


def place(label: float) -> int:
    assert isinstance(label, int)
    return label


@given(st.lists(names, min_size=2, max_size=30).filter(lambda x: len(set(x)) > 1))
def test_every_label_is_read_as_its_place_and_counted(values):
    labels = Labels.collect("single_label", values)
    assert set(labels.names) == set(values)
    assert [labels.names[place(labels.read(value)[0])] for value in values] == values
    assert dict(zip(labels.names, labels.counts, strict=True)) == {name: values.count(name) for name in set(values)}
    assert Labels.from_dict(labels.to_dict()) == labels


def test_numbers_that_are_labels_stand_in_their_order():
    assert Labels.collect("single_label", ["10", "9", "1"]).names == ("1", "9", "10")
    assert Labels.collect("single_label", ["b", "A", "c"]).names == ("A", "b", "c")


@given(st.lists(st.lists(names, max_size=4), min_size=1, max_size=9).filter(any))
def test_several_labels_in_a_cell_or_a_list(rows):
    cells = Labels.collect("multi_label", ["|".join(row) for row in rows])
    lists = Labels.collect("multi_label", rows)
    assert cells == lists
    for row in rows:
        assert {lists.names[place(i)] for i in lists.read(row)} == set(row)


@given(st.lists(st.integers(-(10**6), 10**6), min_size=1, max_size=20))
def test_numbers_have_a_centre_and_a_spread(values):
    labels = Labels.collect("regression", [repr(value) for value in values])
    scaled = [(value - labels.center) / labels.spread for value in values]
    assert abs(sum(scaled)) < 1e-5 * len(values)
    if len(set(values)) > 1:
        assert math.isclose(sum(x * x for x in scaled) / len(values), 1, rel_tol=1e-5)


@pytest.mark.parametrize(
    ("kind", "values", "fault"),
    [
        ("single_label", ["a", "a"], "has|have 1 label"),
        ("single_label", [], "0 label"),
        ("regression", ["1", "two"], "'two' is not a number"),
        ("regression", ["nan"], "not a finite number"),
        ("regression", [], "no number"),
    ],
)
def test_invalid_labels_are_refused(kind, values, fault):
    with pytest.raises(ValueError, match=fault):
        Labels.collect(kind, values)


def test_an_unknown_label_is_named_with_the_closest_known_one():
    labels = Labels.collect("single_label", ["positive", "negative"])
    with pytest.raises(ValueError, match=r"'positiv' is not among.*did you mean 'positive'"):
        labels.read("positiv")


@given(st.lists(names, min_size=2, max_size=40).filter(lambda x: len(set(x)) > 1))
def test_balanced_weights_are_one_on_average_and_the_same_for_each_label(values):
    labels = Labels.collect("single_label", values)
    weights = labels.balance()
    shares = [weight * count for weight, count in zip(weights, labels.counts, strict=True)]
    assert math.isclose(sum(shares), len(values))
    assert max(shares) - min(shares) < 1e-9 * len(values)


def test_cells():
    assert parse_labels(" a | b||a") == ["a", "b"] and parse_labels("") == []
    assert parse_number(" 3.5 ") == 3.5
