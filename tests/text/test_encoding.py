from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from clearhead.text.encoding import fit

length = st.integers(0, 30)


@given(st.lists(st.tuples(length, length), min_size=1, max_size=5), st.integers(1, 40))
def test_longest_takes_from_the_longer_one_at_a_time(pairs, room):
    kept = fit([np.array(c) for c in zip(*pairs, strict=True)], room, "longest")
    for i, (a, b) in enumerate(pairs):
        while a + b > room:
            a, b = (a - 1, b) if a >= b else (a, b - 1)
        got = [int(kept[0][i]), int(kept[1][i])]
        assert sorted(got) == sorted((a, b))
        assert got[0] <= pairs[i][0] and got[1] <= pairs[i][1]


@given(st.lists(st.tuples(length, length), min_size=1, max_size=5), st.integers(31, 40))
def test_second_leaves_the_first_alone(pairs, room):
    first, second = (np.array(c) for c in zip(*pairs, strict=True))
    kept = fit([first, second], room, "second")
    assert kept[0].tolist() == first.tolist()
    assert kept[1].tolist() == np.minimum(second, room - first).tolist()
