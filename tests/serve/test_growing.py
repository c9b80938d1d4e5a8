"""What ends a text is not handed out, wherever pieces are cut."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from clearhead.serve.growing import Ending


@given(st.text("ab\n", max_size=30), st.lists(st.text("ab\n", min_size=1, max_size=4), max_size=3), st.randoms())
def test_pieces_are_the_text_up_to_the_first_end(text: str, stop: list[str], draw: random.Random):
    ending, out, at, found = Ending(stop), "", 0, False
    while at < len(text) and not found:
        size = draw.randint(1, 5)
        piece, found = ending.add(text[at : at + size], last=at + size >= len(text))
        out, at = out + piece, at + size
    # the first end that is complete when its piece has come: as somebody who reads along would see it
    places = [text[:at].find(one) for one in stop if text[:at].find(one) >= 0]
    assert out == (text[: min(places)] if places else text)
    assert found == bool(places)


def test_what_may_become_an_end_is_held_back():
    ending = Ending(["###"])
    assert ending.add("one #", last=False) == ("one ", False)
    assert ending.add("#", last=False) == ("", False)
    assert ending.add("a", last=False) == ("##a", False)
    assert ending.add("b##", last=True) == ("b##", False)
