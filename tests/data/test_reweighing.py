"""Reweighing: labels do not depend on the group, and groups and labels keep their shares."""

from __future__ import annotations

from collections import Counter, defaultdict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clearhead.data import Row, Rows, SkippedRow
from clearhead.data.counterfactual_rows import CounterfactualRows
from clearhead.data.reweighing import NO_GROUP, WeightedRows, cell_weights, group_of

TEXTS = {"male": ["He left.", "John slept."], "female": ["She left.", "Mary slept."], NO_GROUP: ["Rain.", "He and she"]}


def labeled(cells: list[tuple[str, str]]) -> Rows:
    texts = [Row({"text": TEXTS[group][i % 2], "label": label}, "f", i) for i, (group, label) in enumerate(cells, 1)]
    return Rows(lambda: iter(texts))


@pytest.mark.parametrize(
    ("text", "category", "group"),
    [
        ("He slept.", "gender", "male"),
        ("It was HERS", "gender", "female"),
        ("I gave her books.", "gender", "female"),  # its counterpart is not known, but its group is
        ("I saw him", "gender", "male"),
        ("his or hers", "gender", NO_GROUP),
        ("the theory of mark", "gender", NO_GROUP),
        ("Emily", "gender", "female"),
        ("a Sikh", "religion", "Sikh"),
        ("a Sikh and a Hindu", "religion", NO_GROUP),
        ("a gay couple", "orientation", "gay"),
        ("a straight line", "orientation", NO_GROUP),
    ],
)
def test_the_group_of_a_text(text, category, group):
    assert group_of({"text": text, "label": "she"}, category) == group
    assert group_of({"text": "It.", "second": text}, category) == group


def test_a_pair_about_two_groups_has_no_group():
    assert group_of({"text": "He left.", "second": "She left."}, "gender") == NO_GROUP


@given(st.lists(st.tuples(st.sampled_from(sorted(TEXTS)), st.sampled_from("abc")), min_size=1, max_size=60))
def test_weighted_labels_do_not_depend_on_the_group(cells):
    data = WeightedRows(labeled(cells), "gender")
    weights: dict[tuple[str, str], float] = defaultdict(float)
    for row, cell in zip(data, cells, strict=True):
        weights[cell] += row.weight
    groups, labels, total = Counter(g for g, _ in cells), Counter(label for _, label in cells), len(cells)
    for group, label in set(cells):
        assert weights[group, label] == pytest.approx(groups[group] * labels[label] / total)
    if len(set(cells)) == len(groups) * len(labels):
        assert sum(weights.values()) == pytest.approx(total)


def test_rare_cells_weigh_more():
    weights = cell_weights({("f", "good"): 1, ("f", "bad"): 9, ("m", "good"): 9, ("m", "bad"): 1})
    assert weights[("f", "good")] == pytest.approx(5.0) and weights[("f", "bad")] == pytest.approx(5 / 9)
    cells = [("female", "good"), *[("female", "bad")] * 3, ("male", "good"), ("male", "bad")]
    data = WeightedRows(labeled(cells), "gender")
    list(data)
    assert data.notes() == ["rows weigh from 0.67 (male, 'good'; rows: 1) to 1.33 (male, 'bad'; rows: 1)"]


def test_skipped_rows_and_copies_pass():
    given_rows = Rows(lambda: iter([
        Row({"text": "He.", "label": "a"}, "f", 1), SkippedRow("f", 2, "empty"), Row({"text": "It.", "label": "b"}, "f", 3),
    ]))  # fmt: skip
    data = WeightedRows(CounterfactualRows(given_rows, ["gender"]), "gender")
    assert [row.values["text"] for row in data] == ["He.", "It.", "She."] and data.num_skipped == 1
    assert [row.weight for row in data] == [1 * 2 / 3, 1 / 3, 2 / 3]
    assert len(data.notes()) == 2 and data.notes()[0].startswith("counterfactual copies (gender): 1, of 1")
