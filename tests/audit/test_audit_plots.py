"""Figures of an audit: the estimates in order, the flagged ones in their color, names that are no formulas."""

from __future__ import annotations

from dataclasses import replace

import pytest

from clearhead.audit.audit_plots import DIM, FLAG, INK, by_ideal, draw_audit, shown_estimates
from clearhead.audit.estimates import Estimate
from tests.audit.made_up_results import CLEAR, EXACT, NEAR, OTHER, RESULT, SMALL, hostile

pytest.importorskip("matplotlib")


def test_of_many_estimates_the_first_the_flagged_and_the_furthest_are_shown_in_order():
    near = [replace(NEAR, name=f"near {i}", value=50 + i / 10) for i in range(6)]
    estimates = [near[0], *near[1:5], CLEAR, OTHER, near[5]]
    assert [e.name for e in shown_estimates(estimates, 4)] == ["near 0", "near 1", "flagged", "near 5"]
    assert [e.name for e in shown_estimates(estimates, 1)] == ["flagged"]
    assert shown_estimates(estimates, 8) == estimates
    below = replace(NEAR, name="below", value=20.0)
    assert shown_estimates([*near, below], 2) == [near[0], below]
    twice = [near[0]] * 20
    assert len(shown_estimates(twice, 12)) == 12, "equal estimates are rows of their own"
    many = [replace(NEAR, name=f"{i}", value=50 + i) for i in range(60)]
    assert [e.name for e in shown_estimates(many)] == [f"{i}" for i in (*range(8), *range(28, 60))]


def test_estimates_without_an_ideal_value_are_apart():
    assert by_ideal([OTHER, CLEAR, NEAR]) == [[OTHER], [CLEAR, NEAR]]
    assert by_ideal([CLEAR, OTHER, NEAR]) == [[CLEAR, NEAR], [OTHER]]
    assert by_ideal([CLEAR]) == [[CLEAR]]


def color(line) -> str:
    from matplotlib.colors import to_hex

    return to_hex(line.get_color())


def ends(line) -> tuple[float, ...]:
    return tuple(line.get_xdata())


def test_intervals_marks_and_colors():
    figure = draw_audit([RESULT], "Audit")
    first, second = figure.axes
    labels = [label.get_text() for label in first.get_yticklabels()]
    assert labels == ["flagged (140)", "near the mark (140)", "small (5, few)", "exact (5, few)"]
    assert [label.get_text() for label in second.get_yticklabels()] == ["share (140)"]
    drawn = [line for line in first.lines if len(ends(line)) == 2 and line.get_linestyle() == "-"]
    assert [ends(line) for line in drawn] == [(e.low, e.high) for e in (CLEAR, NEAR, SMALL, EXACT)]
    assert [color(line) for line in drawn] == [FLAG, INK, DIM, FLAG]
    ideal = [line for line in first.lines if line.get_linestyle() == ":"]
    assert {ends(line) for line in ideal} == {(50.0, 50.0)} and len(ideal) == 4
    assert not [line for line in second.lines if line.get_linestyle() == ":"]
    assert first.get_ylim()[0] > first.get_ylim()[1]  # the first estimate is at the top


def test_names_with_dollars_are_drawn_as_they_are():
    broken = Estimate(name=r"$\frac$", value=1.0, low=0.0, high=2.0, ideal=None, count=40)
    figure = draw_audit([replace(hostile(RESULT), estimates=(broken,))], r"$\frac$")
    figure.canvas.draw()
    assert figure.axes[0].get_yticklabels()[0].get_text() == r"$\frac$ (40)"
