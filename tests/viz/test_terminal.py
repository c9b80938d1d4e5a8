from io import StringIO

import pytest
from rich.console import Console

from clearhead.viz import draw_blocks
from clearhead.viz.terminal import shade


def printed(weights, queries, keys, width=80):
    file = StringIO()
    console = Console(width=width, file=file)
    console.print(draw_blocks(weights, queries, keys))
    return file.getvalue().splitlines()


def test_a_line_for_each_query_under_vertical_key_labels():
    lines = printed([[1.0, 0.0], [0.3, 0.7]], ["05", "-"], ["May", "a very long token"])
    assert len(lines) == 12 + 2
    assert lines[-2:] == ["05 ██", " - ▒▒▓▓"]
    down = ["".join(line.ljust(7)[column] for line in lines[:12]).strip() for column in (3, 5)]
    assert down == ["May", "a very long…"]


@pytest.mark.parametrize(
    ("weight", "character"), [(0.0, " "), (0.09, " "), (0.1, "░"), (0.25, "▒"), (0.5, "▓"), (0.75, "█"), (1.0, "█")]
)
def test_shades(weight, character):
    assert shade(weight) == character


def test_a_map_wider_than_the_terminal_is_cut_and_not_wrapped():
    assert [len(line) for line in printed([[0.5] * 40] * 2, ["x", "y"], ["t"] * 40, width=20)] == [20, 20, 20]
