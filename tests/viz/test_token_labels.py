"""Pieces of every kind of vocabulary have names that a reader knows."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clearhead.viz import token_labels


@pytest.mark.parametrize(
    ("pieces", "words", "joined"),
    [
        (["[CLS]", "un", "##broken", "sea", "[SEP]"], ["[CLS]", "un", "broken", "sea", "[SEP]"], [2]),
        (["<s>", "The", "Ġs", "ea", "</s>"], ["<s>", "The", "s", "ea", "</s>"], [3]),
        (["▁The", "▁s", "ea", "</s>"], ["The", "s", "ea", "</s>"], [2]),
        (["<|endoftext|>", "Once", "Ġupon"], ["<|endoftext|>", "Once", "upon"], []),
        (["c", "a", "t"], ["c", "a", "t"], []),
        ([], [], []),
    ],
)
def test_names(pieces, words, joined):
    found = token_labels(pieces)
    assert list(found.words) == words
    assert [i for i, j in enumerate(found.joined) if j] == joined


def test_bytes_are_letters_again():
    assert token_labels(["Ġgr", "Ã¼n", "Ã"]).words == ("gr", "ün", "\\xc3")


def test_special_tokens_by_name_where_they_are_known():
    assert token_labels(["[X]", "a"], {"a"}).special == (False, True)
    assert token_labels(["[MASK]", "[x]", "<unk>", "<a b>"]).special == (True, False, True, False)


@given(st.lists(st.text(max_size=6), max_size=20))
def test_there_is_a_name_for_every_piece(pieces):
    found = token_labels(pieces)
    assert len(found) == len(found.special) == len(found.joined) == len(pieces)
    assert not any(found.joined[:1])
