"""Names in tags, as conlleval and seqeval find them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clearhead.tasks.iob import compared, entities, is_iob, scores

tags = st.lists(st.sampled_from(["O", "B-PER", "I-PER", "B-LOC", "I-LOC"]), max_size=12)


@given(tags)
def test_names_are_those_of_seqeval(given_tags):
    found = pytest.importorskip("seqeval.metrics.sequence_labeling").get_entities(given_tags)
    assert [(e.label, e.first, e.end - 1) for e in entities(given_tags)] == found


@given(st.lists(st.tuples(tags, st.randoms()), min_size=1, max_size=6))
def test_scores_are_those_of_seqeval(rows):
    measure = pytest.importorskip("seqeval.metrics")
    due = [row for row, _ in rows]
    said = [[draw.choice(["O", "B-PER", tag]) for tag in row] for row, draw in rows]
    total = [sum(x) for x in zip(*(compared(a, b) for a, b in zip(due, said, strict=True)), strict=True)]
    assert scores(*total)["f1"] == pytest.approx(100 * measure.f1_score(due, said, zero_division=0))


def test_parts_of_speech_are_no_names():
    assert is_iob(["O", "B-PER", "I-PER"]) and not is_iob(["NOUN", "VERB"]) and not is_iob(["O"])
