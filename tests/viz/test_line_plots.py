from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clearhead.viz import Curve, Panel, draw_curves
from clearhead.viz.line_plots import spread
from clearhead.viz.style import COLORS

CURVES = [
    Curve("with", [1, 2, 3], [90.0, 90.0, 89.0], [85.0, 85.0, 84.0], [95.0, 95.0, 94.0]),
    Curve("without", [1, 2, 3], [90.0, 60.0, 20.0]),
]


def names(axes):
    return [text.get_text() for text in axes.texts]


def test_a_line_a_name_and_a_band_for_each_curve():
    figure = draw_curves([Panel(CURVES, "length", "BLEU", "one panel", ticks=[(1, "short"), (3, "long")])], "Length")
    (axes,) = figure.axes
    assert [np.asarray(line.get_ydata()).tolist() for line in axes.lines] == [c.y for c in CURVES]
    assert names(axes) == ["with", "without"]
    assert [text.get_color() for text in axes.texts] == [line.get_color() for line in axes.lines] == list(COLORS[:2])
    assert len(axes.collections) == 1  # one curve has a band
    assert (axes.get_xlabel(), axes.get_ylabel(), axes.get_title("left")) == ("length", "BLEU", "one panel")
    assert [tick.get_text() for tick in axes.get_xticklabels()] == ["short", "long"]
    assert axes.get_legend() is None


def test_panels_stand_side_by_side():
    panels = [
        Panel(CURVES, "x", "y", y_scale="log", y_range=(1, 100), labelled=False),
        Panel(CURVES[:1], "x", "y", y_range=(0, 100)),
    ]
    first, second = draw_curves(panels, "Two").axes
    assert first.get_yscale() == "log" and first.get_ylim() == (1, 100) and names(first) == []
    assert second.get_yscale() == "linear" and names(second) == ["with"]


@pytest.mark.parametrize("more", ["", "\nits second line"])
def test_names_keep_their_distance_on_paper(more):
    close = [Curve(f"curve {i}{more}", [0, 1], [0.0, 0.5 + i / 1000]) for i in range(5)]
    figure = draw_curves([Panel(close, "x", "y")], "Close")
    figure.draw_without_rendering()
    boxes = sorted((text.get_window_extent() for text in figure.axes[0].texts), key=lambda box: box.y0)
    assert all(lower.y1 <= upper.y0 for lower, upper in pairwise(boxes))
    assert max(box.x1 for box in boxes) <= figure.bbox.x1


@given(st.lists(st.floats(-1, 2), max_size=8))
def test_spread_keeps_the_order_and_the_gap(places):
    moved = spread(places, 0.1)
    order = sorted(range(len(places)), key=lambda i: places[i])
    assert all(moved[b] - moved[a] >= 0.1 - 1e-9 for a, b in pairwise(order))
    assert all(-1e-9 <= y <= 1 + 1e-9 for y in moved)


def test_what_needs_no_moving_is_not_moved():
    assert spread([0.9, 0.1, 0.5], 0.1) == pytest.approx([0.9, 0.1, 0.5])
