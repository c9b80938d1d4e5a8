"""Masking: the shares of the paper, the same draw for the same example, whole words, and never a special token."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from clearhead.tasks.masking import TokenMasker

SPECIAL = frozenset({0, 1, 2, 3, 4})
IDS = st.lists(st.integers(0, 99), min_size=0, max_size=80)
MASKS = TokenMasker(4, 100, SPECIAL)


@given(ids=IDS, example=st.integers(0, 2**40), draw=st.integers(0, 2**40), whole=st.booleans())
def test_so_many_are_hidden_and_no_special_one(ids, example, draw, whole):
    ids = np.array(ids, dtype=np.int64)
    goes_on = (np.arange(100) % 3 == 0).astype(np.int64)
    masks = TokenMasker(4, 100, SPECIAL, goes_on if whole else None)
    hidden, places = masks.hide(ids, example, draw)
    free = sum(int(i) not in SPECIAL for i in ids)
    assert len(places) == masks.count(free) and (np.diff(places) > 0).all()
    assert not SPECIAL & set(ids[places].tolist())
    same = np.delete(np.arange(len(ids)), places)
    np.testing.assert_array_equal(hidden[same], ids[same])
    assert all(i == 4 or i not in SPECIAL for i in hidden[places].tolist())
    again = masks.hide(ids, example, draw)
    np.testing.assert_array_equal(again[0], hidden)
    np.testing.assert_array_equal(again[1], places)


def test_eight_one_one():
    ids = np.arange(5, 95).repeat(40)
    hidden, places = MASKS.hide(ids, 1, 2)
    assert len(places) == round(0.15 * len(ids))
    masked = (hidden[places] == 4).mean()
    kept = (hidden[places] == ids[places]).mean()
    assert abs(masked - 0.8) < 0.06 and abs(kept - 0.1) < 0.05
    others = [MASKS.hide(ids, 1, draw)[1] for draw in range(3, 8)] + [MASKS.hide(ids, 9, 2)[1]]
    assert all(not np.array_equal(places, other) for other in others)


def test_every_token_is_as_likely():
    ids = np.arange(10, 50)
    counts = np.zeros(len(ids))
    for draw in range(4000):
        counts[MASKS.hide(ids, 0, draw)[1]] += 1
    assert abs(counts / 4000 - 6 / 40).max() < 0.03


def test_words_are_hidden_whole():
    """Of the hidden words at most one is cut, to keep the number."""
    goes_on = np.zeros(100, dtype=np.int64)
    goes_on[50:] = 1
    draw = np.random.default_rng(0)
    ids = np.concatenate(
        [[int(draw.integers(5, 50)), *draw.integers(50, 100, size=int(draw.integers(0, 4)))] for _ in range(60)]
    )
    masks = TokenMasker(4, 100, SPECIAL, goes_on)
    word = np.cumsum(goes_on[ids] == 0) - 1
    for n in range(50):
        places = masks.hide(ids, n, 1)[1]
        cut = [w for w in np.unique(word[places]) if (word == w).sum() != (word[places] == w).sum()]
        assert len(cut) <= 1
