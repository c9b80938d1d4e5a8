"""Marked text as four tools write it, with the marks that words cannot carry listed."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clearhead.data import read_rows
from clearhead.data.spans import divided, is_span_file, tagged

TEXT = "Alice Miller met Bob in New York, twice."
SPANS = [(0, 12, "PER"), (17, 20, "PER"), (24, 32, "LOC")]
WORDS = ["Alice", "Miller", "met", "Bob", "in", "New", "York", ",", "twice", "."]
TAGS = ["B-PER", "I-PER", "O", "B-PER", "O", "B-LOC", "I-LOC", "O", "O", "O"]


def read(path):
    rows = read_rows(path, {"words": "spans", "tags": "spans"})
    return [(row.values["words"], row.values["tags"]) for row in rows], rows


@pytest.mark.parametrize("tool", ["doccano", "doccano relations", "prodigy", "label studio", "brat"])
def test_what_the_tools_write(tmp_path, tool):
    path = tmp_path / "marked.jsonl"
    if tool == "doccano":
        path.write_text(json.dumps({"id": 1, "text": TEXT, "label": SPANS}) + "\n")
    elif tool == "doccano relations":
        spans = [{"id": 1, "label": label, "start_offset": a, "end_offset": b} for a, b, label in SPANS]
        path.write_text(json.dumps({"id": 1, "text": TEXT, "entities": spans, "relations": []}) + "\n")
    elif tool == "prodigy":
        spans = [{"start": a, "end": b, "label": label, "token_start": 0} for a, b, label in SPANS]
        path.write_text(json.dumps({"text": TEXT, "tokens": [], "spans": spans, "answer": "accept"}) + "\n")
    elif tool == "label studio":
        path = tmp_path / "export.json"
        result = [{"type": "labels", "value": {"start": a, "end": b, "labels": [label]}} for a, b, label in SPANS]
        path.write_text(json.dumps([{"data": {"text": TEXT, "url": "x"}, "annotations": [{"result": result}]}]))
    else:
        path = tmp_path / "brat"
        path.mkdir()
        (path / "a.txt").write_text(TEXT)
        marks = [f"T{i}\t{label} {a} {b}\t{TEXT[a:b]}" for i, (a, b, label) in enumerate(SPANS)]
        (path / "a.ann").write_text("\n".join([*marks, "R1\tmet Arg1:T0 Arg2:T1"]) + "\n")
    assert is_span_file(path)
    found, rows = read(path)
    assert found == [(WORDS, TAGS)] and rows.report() == ""


@pytest.mark.parametrize(
    ("spans", "fault"),
    [
        ([[0, 3, "PER"]], "0 to 3 (PER) begins or ends inside a word"),
        ([[2, 5, "PER"]], "begins or ends inside a word"),
        ([[0, 5, "PER"], [0, 12, "PER"]], "overlaps another span"),
        ([[0, 99, "PER"]], "is outside its text"),
        ([[5, 5, "PER"]], "is outside its text"),
        ([["0", 5, "PER"]], "is not [start, end, label]"),
    ],
)
def test_marks_that_words_cannot_carry_are_listed(tmp_path, spans, fault):
    path = tmp_path / "marked.jsonl"
    path.write_text("\n".join(json.dumps({"text": TEXT, "label": s}) for s in (spans, SPANS)) + "\n{\n\n")
    found, rows = read(path)
    assert found == [(WORDS, TAGS)]
    assert fault in rows.report() and rows.num_skipped == 3


def test_space_at_the_ends_of_a_mark_is_no_matter():
    assert tagged("a dog ran", [(1, 6, "X")]) == {"words": ["a", "dog", "ran"], "tags": ["O", "B-X", "O"]}


@given(st.text(max_size=30))
def test_words_are_all_there_is_but_space(text):
    spans = divided(text)
    assert "".join(text[a:b] for a, b in spans) == "".join(c for c in text if not c.isspace())
    assert all(a < b for a, b in spans)


def test_a_table_is_no_marked_text(tmp_path):
    (tmp_path / "a.csv").write_text("a,b\n1,2\n")
    (tmp_path / "b.jsonl").write_text('{"text": "a", "label": "x"}\n')
    assert not is_span_file(tmp_path / "a.csv") and not is_span_file(tmp_path / "b.jsonl")
