"""Stop strings are not part of the output, wherever chunks are split."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from clearhead.serve.continuous_batch import StopStringFilter


@given(st.text("ab\n", max_size=30), st.lists(st.text("ab\n", min_size=1, max_size=4), max_size=3), st.randoms())
def test_chunks_join_to_the_text_before_the_first_stop_string(text: str, stop: list[str], draw: random.Random):
    ending, out, at, found = StopStringFilter(stop), "", 0, False
    while at < len(text) and not found:
        size = draw.randint(1, 5)
        piece, found = ending.add(text[at : at + size], last=at + size >= len(text))
        out, at = out + piece, at + size
    # the first stop string that is complete in what has arrived so far
    places = [text[:at].find(one) for one in stop if text[:at].find(one) >= 0]
    assert out == (text[: min(places)] if places else text)
    assert found == bool(places)


def test_a_partial_stop_string_is_held_back():
    ending = StopStringFilter(["###"])
    assert ending.add("one #", last=False) == ("one ", False)
    assert ending.add("#", last=False) == ("", False)
    assert ending.add("a", last=False) == ("##a", False)
    assert ending.add("b##", last=True) == ("b##", False)
