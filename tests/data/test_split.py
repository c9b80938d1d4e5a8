"""Rows kept aside: by the seed, labels in their shares, groups whole."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from clearhead.data import Row, Rows, SkippedRow
from clearhead.data.split import first_rows, rename_columns, stratified_split


def rows(values):
    return Rows(lambda: iter([Row(value, "f", i) for i, value in enumerate(values)]))


def of(name):
    return lambda row: row.values[name]


@given(
    st.lists(st.tuples(st.integers(0, 30), st.sampled_from("ab")), min_size=2, max_size=120),
    st.integers(0, 99),
    st.integers(1, 40),
)
def test_every_row_is_on_one_side_and_no_group_on_both(values, seed, held):
    data = rows([{"group": g, "label": label} for g, label in values])
    aside, rest = stratified_split(data, held, seed, group=of("group"), label=of("label"))
    a, b = list(aside), list(rest)
    assert sorted(row.line for row in [*a, *b]) == list(range(len(values)))
    assert not {row.values["group"] for row in a} & {row.values["group"] for row in b}
    assert list(aside) == a, "gone through again, it is the same"
    assert (a and b) or len({g for g, _ in values}) == 1 or held >= len(values) // 2


def test_labels_keep_their_shares():
    data = rows([{"group": i, "label": "rare" if i % 10 == 0 else "common"} for i in range(1000)])
    for seed in range(5):
        aside, _ = stratified_split(data, 100, seed, group=of("group"), label=of("label"))
        found = Counter(row.values["label"] for row in aside)
        assert found == {"rare": 10, "common": 90}


def test_another_seed_draws_others():
    data = rows([{"group": i, "label": "x"} for i in range(100)])
    drawn = [
        {row.line for row in stratified_split(data, 20, seed, group=of("group"), label=of("label"))[0]}
        for seed in (1, 2)
    ]
    assert drawn[0] != drawn[1] and len(drawn[0]) == 20


def test_what_cannot_be_read_is_told_by_the_rows_that_are_trained_on():
    given_rows = [Row({"group": i, "label": "x"}, "f", i) for i in range(6)]
    data = Rows(lambda: iter([given_rows[0], SkippedRow("f", 9, "empty"), *given_rows[1:]]))
    for aside, rest in (stratified_split(data, 2, 1, group=of("group"), label=of("label")), first_rows(data, 2)):
        assert len(list(aside)) == 2 and len(list(rest)) == 4
        assert rest.num_skipped == 1 and "line 9: empty" in rest.report() and aside.num_skipped == 0
    changed = rename_columns(data, {"x": "y"})
    assert {row.values["label"] for row in changed} == {"y"} and changed.num_skipped == 1


def test_the_first_rows():
    aside, rest = first_rows(rows([{"x": i} for i in range(5)]), 2)
    assert [row.line for row in aside] == [0, 1] and [row.line for row in rest] == [2, 3, 4]


def test_labels_read_as_others():
    found = list(rename_columns(rows([{"label": "a", "text": "a", "tags": ["a", "b"]}]), {"a": "c"}))
    assert found[0].values == {"label": "c", "text": "a", "tags": ["c", "b"]}
