"""Counterfactual copies: behind the rows, with labels and spans of the originals; what is not decided has no copy."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clearhead.data import Row, Rows, SkippedRow
from clearhead.data.counterfactual_rows import COPIES, CounterfactualRows, swap_row
from clearhead.tasks.answer_spans import answers_of
from clearhead.tasks.pretraining_examples import documents_of


def rows(*values: dict[str, Any], file: str = "a.csv") -> Rows:
    return Rows(lambda: iter([Row(value, file, number) for number, value in enumerate(values, 1)]))


def lines(text: str) -> Rows:
    """The rows of a text file: empty lines are no rows, but count."""
    numbered = enumerate(text.split("\n"), 1)
    found = [Row({"text": line}, "a.txt", number) for number, line in numbered if line]
    return Rows(lambda: iter(found))


def copies(data: CounterfactualRows) -> list[dict[str, Any]]:
    return [row.values for row in data if row.file.startswith(COPIES)]


def test_copies_follow_all_rows_with_label_and_group():
    given_rows = rows(
        {"text": "He lost his keys.", "label": "bad", "group": "7"},
        {"text": "It rains.", "label": "bad", "group": "8"},
        {"text": "I gave her books.", "label": "good", "group": "9"},
        {"text": "Mary smiles.", "label": "good", "group": "9"},
    )
    data = CounterfactualRows(given_rows, ["gender"])
    found = list(data)
    assert [row.values for row in found[:4]] == [row.values for row in given_rows], "the rows themselves are unchanged"
    assert [row.values for row in found[4:]] == [
        {"text": "She lost her keys.", "label": "bad", "group": "7"},
        {"text": "John smiles.", "label": "good", "group": "9"},
    ]
    assert (data.num_copies, data.num_copied, data.num_unresolved) == (2, 2, 1)
    assert [row.values for row in data] == [row.values for row in found], "gone through again, it is the same"
    assert (data.num_copies, data.num_unresolved) == (2, 1)
    added, skipped = data.notes()
    assert added == "counterfactual copies (gender): 2, of 2 rows that name a group"
    assert skipped == "rows without a copy, as grammar does not decide the counterpart of a term: 1"


def test_both_texts_of_a_pair_are_exchanged_together():
    data = rows(
        {"text": "He left.", "second": "It rains.", "label": "0"},
        {"text": "She left.", "second": "She is Mary.", "label": "1"},
        {"text": "He left.", "second": "I gave her books.", "label": "2"},
    )
    assert copies(CounterfactualRows(data, ["gender"])) == [
        {"text": "She left.", "second": "It rains.", "label": "0"},
        {"text": "He left.", "second": "He is John.", "label": "1"},
    ]


def test_other_columns_are_no_texts():
    assert swap_row({"text": "rain", "label": "male", "number": "3", "title": "He"}, "male", "female") == {
        "text": "rain", "label": "male", "number": "3", "title": "He",
    }  # fmt: skip


def test_turns_and_negatives_are_lists_of_texts():
    assert swap_row({"turns": ["Who is he?", "John."]}, "male", "female") == {"turns": ["Who is she?", "Mary."]}
    values = {"anchor": "he", "positive": "a man", "negative": ["a boy", "rain"]}
    assert swap_row(values, "male", "female") == {
        "anchor": "she", "positive": "a woman", "negative": ["a girl", "rain"],
    }  # fmt: skip


def test_tags_stay_with_their_words():
    values = {"words": ["He", "'s", "a", "gay", "man", ",", "says", "Mary"], "tags": list("abcdefgh")}
    assert swap_row(values, "male", "female") == {
        "words": ["She", "'s", "a", "gay", "woman", ",", "says", "John"], "tags": list("abcdefgh"),
    }  # fmt: skip
    phrase = swap_row(values, "straight", "gay")
    assert phrase is not None
    assert phrase["words"] == ["He", "'s", "a", "straight", "man", ",", "says", "Mary"]
    assert swap_row({"words": ["New York", "he"], "tags": ["a", "b"]}, "male", "female") is None
    assert swap_row({"words": ["New York", "it"], "tags": ["a", "b"]}, "male", "female") is not None


CONTEXT = "The emperor was born in Rome. His wife, Mary, was Roman."


@pytest.mark.parametrize(
    ("answers", "expected"),
    [
        ([{"text": "Rome", "start": 24}], ["Rome"]),
        ([{"text": "Mary", "start": 40}, {"text": "wife, Mary", "start": 34}], ["John", "husband, John"]),
        ("His wife", ["Her husband"]),
        (["Rome", "Mary"], ["Rome", "John"]),
        ("", []),
        ([], []),
    ],
)
def test_answers_are_where_the_exchange_moves_them(answers, expected):
    for name in ("answers", "answer"):
        values = {"question": "Where was he?", "context": CONTEXT, name: answers}
        changed = swap_row(values, "male", "female")
        assert changed is not None and changed["question"] == "Where was she?"
        assert changed["context"] == "The empress was born in Rome. Her husband, John, was Roman."
        spans = answers_of(Row(changed, "f", 1))
        assert spans is not None
        assert [changed["context"][start:end] for start, end in spans] == expected
        assert [answer["text"] for answer in changed[name]] == expected


@settings(max_examples=100)
@given(st.lists(st.sampled_from(["he", "Mary", "saw", "emperor", "dog", "is", "hers", "."]), min_size=1), st.data())
def test_an_answer_is_exchanged_like_its_context(words, data):
    context = " ".join(words)
    first = data.draw(st.integers(0, len(words) - 1))
    last = data.draw(st.integers(first, len(words) - 1))
    start = len(" ".join(words[:first])) + (first > 0)
    answer = {"text": " ".join(words[first : last + 1]), "start": start}
    changed = swap_row({"context": context, "answers": [answer]}, "male", "female")
    if changed is not None:
        (moved,) = changed["answers"]
        assert changed["context"][moved["start"] : moved["start"] + len(moved["text"])] == moved["text"]
        assert moved["text"].split(" ") == changed["context"].split(" ")[first : last + 1]


def test_copies_of_running_text_are_documents_of_their_own():
    text = lines("He came.\nHe saw.\nIt rained.\nHe won.\n\nI gave her books.\nMary slept.\n\n\n\nRain.\n\nJohn.")
    data = CounterfactualRows(text, ["gender"])
    originals = list(documents_of(text))
    assert list(documents_of(data)) == [*originals, "She came.\nShe saw.", "She won.", "John slept.", "Mary."]
    assert [row.line for row in data if row.file.startswith(COPIES)] == [2, 3, 5, 7, 9], "no long gaps"


def test_a_category_of_several_groups_has_a_copy_for_each_other_group():
    data = CounterfactualRows(rows({"text": "A Muslim prays.", "label": "0"}, {"text": "Rain."}), ["religion"])
    assert {values["text"] for values in copies(data)} == {
        f"A {group} prays." for group in ("Christian", "Hindu", "Buddhist", "Sikh")
    } | {"A Jewish prays."}
    assert (data.num_copies, data.num_copied) == (5, 1)
    noun = CounterfactualRows(rows({"text": "He is a Jew and a Christian."}), ["religion", "gender"])
    assert [values["text"] for values in copies(noun)] == ["She is a Jew and a Christian."], "each category by itself"
    assert (noun.num_copies, noun.num_copied, noun.num_unresolved) == (1, 1, 1)


def test_skipped_rows_are_counted_once():
    bad = SkippedRow("a.csv", 2, "empty")
    data = CounterfactualRows(Rows(lambda: iter([Row({"text": "he"}, "a.csv", 1), bad])), ["gender"])
    assert [row.values["text"] for row in data] == ["he", "she"]
    assert data.num_skipped == 1 and data.num_rows == 2
