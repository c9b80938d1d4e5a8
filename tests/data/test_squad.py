"""SQuAD's JSON, with the faults that real files have."""

from __future__ import annotations

import json

import pytest

from clearhead.data import read_rows
from clearhead.data.squad import nearest


def write(path, qas, context="A cat sat. A cat ran."):
    path.write_text(
        json.dumps({"version": "1.1", "data": [{"title": "t", "paragraphs": [{"context": context, "qas": qas}]}]})
    )
    return read_rows(path)


def asked(text=None, start=0, **more):
    answers = [] if text is None else [{"text": text, "answer_start": start}]
    return {"id": "1", "question": "who?", "answers": answers, **more}


def test_places_that_do_not_fit_are_moved_to_the_nearest(tmp_path):
    rows = list(write(tmp_path / "a.json", [asked("A cat", 0), asked("A cat", 9), asked("cat", 14), asked("ran", 0)]))
    assert [row.values["answers"][0]["start"] for row in rows] == [0, 11, 13, 17]


def test_no_answer(tmp_path):
    rows = write(tmp_path / "a.json", [asked(is_impossible=True), asked("cat", 2, is_impossible=False), asked()])
    assert [len(row.values["answers"]) for row in rows] == [0, 1]
    assert "question 3" in rows.report().replace("line", "question") and "is_impossible is not set" in rows.report()


def test_what_cannot_be_used_is_told(tmp_path):
    rows = write(tmp_path / "a.json", [asked("dog"), asked("cat", 2, question=" "), asked(" ")])
    assert list(rows) == []
    assert "does not occur in its context" in rows.report() and "no question" in rows.report()
    (tmp_path / "b.json").write_text("{")
    with pytest.raises(ValueError, match="is not JSON"):
        list(read_rows(tmp_path / "b.json"))
    (tmp_path / "c.json").write_text("[]")
    with pytest.raises(ValueError, match="is not SQuAD's JSON"):
        list(read_rows(tmp_path / "c.json"))


def test_nearest():
    assert nearest("abab", "ab", 1) == 0 and nearest("abab", "ab", 3) == 2 and nearest("abab", "c") is None
    assert nearest("abab", "ab", -5) == 0 and nearest("abab", "ab", None) == 0
