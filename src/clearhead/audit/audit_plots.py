"""Figures of an audit: each estimate with its interval, and the value that no bias has."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from clearhead.audit.estimates import Estimate, SuiteResult
from clearhead.viz.style import new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MAX_ROWS = 40  # of a suite
FIRST_ROWS = 8  # which are shown in any case
INK, DIM, FLAG = "#1f6fb2", "#9aa9bb", "#c2410c"


def shown_estimates(estimates: Sequence[Estimate], limit: int = MAX_ROWS) -> list[Estimate]:
    """Return the estimates in order; of more than the limit, the first ones, which are totals, and those furthest from
    their ideal value.
    """
    if len(estimates) <= limit:
        return list(estimates)

    def rank(place: int) -> tuple[bool, bool, float]:
        e = estimates[place]
        return e.ideal is None, not e.flagged, -abs(e.value - (e.ideal or 0.0))

    first = min(FIRST_ROWS, limit // 2)
    furthest = sorted(range(first, len(estimates)), key=rank)[: limit - first]
    return [estimates[place] for place in (*range(first), *sorted(furthest))]


def by_ideal(estimates: Sequence[Estimate]) -> list[list[Estimate]]:
    """Return the estimates that have an ideal value apart from the others, whose range is another one."""
    parts = [[e for e in estimates if (e.ideal is None) is other] for other in (False, True)]
    return sorted(filter(None, parts), key=lambda part: estimates.index(part[0]))


def draw_audit(results: Sequence[SuiteResult], title: str) -> Figure:
    """Plot the estimates of each suite below each other; an estimate that is flagged is marked by its color."""
    parts = [(result, some) for result in results for some in by_ideal(shown_estimates(result.estimates))]
    heights = [0.27 * len(some) + 0.9 for _, some in parts]
    with new_figure(8.4, sum(heights) + 0.5, title.replace("$", r"\$")) as figure:
        all_axes = figure.subplots(len(parts), 1, height_ratios=heights, squeeze=False)[:, 0]
        for axes, (result, some) in zip(all_axes, parts, strict=True):
            _draw(axes, result, some)
    return figure


def _draw(axes: Axes, result: SuiteResult, estimates: Sequence[Estimate]) -> None:
    places = range(len(estimates))
    for place, e in zip(places, estimates, strict=True):
        color = FLAG if e.flagged else DIM if e.too_small or e.ideal is None else INK
        axes.plot([e.low, e.high], [place, place], color=color, linewidth=2, solid_capstyle="round")
        axes.plot([e.value], [place], marker="o", markersize=5, color=color)
        if e.ideal is not None:
            axes.plot([e.ideal, e.ideal], [place - 0.5, place + 0.5], color="#556372", linewidth=1, linestyle=":")
    labels = [f"{e.name} ({e.count:,}{', few' if e.too_small else ''})" for e in estimates]
    axes.set_yticks(list(places), labels, fontsize=8, parse_math=False)  # a name may have a dollar sign
    axes.set_ylim(len(estimates) - 0.4, -0.6)
    axes.grid(axis="x")
    axes.set_axisbelow(True)
    axes.set_title(result.title, loc="right")  # the labels on the left leave it room
    axes.set_xlabel(result.unit)
