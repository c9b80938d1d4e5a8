"""Curves: lines against a common axis, each with its name at its end rather than in a legend."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from clearhead.see.paper import COLOURS, MARKERS, paper

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FEW = 12  # points that are marked each
LINE = 12.5  # points that a name takes in height


@dataclass(frozen=True)
class Curve:
    """A line and its name; with `low` and `high`, the band that it may lie in."""

    label: str
    x: Sequence[float]
    y: Sequence[float]
    low: Sequence[float] | None = None
    high: Sequence[float] | None = None
    colour: int | None = None  # its number; None: in the order of the curves


@dataclass(frozen=True)
class Panel:
    """Curves that share two axes."""

    curves: Sequence[Curve]
    x_label: str
    y_label: str
    title: str = ""
    y_scale: Literal["linear", "log"] = "linear"
    y_range: tuple[float, float] | None = None
    ticks: Sequence[tuple[float, str]] | None = None  # places on the x-axis and what stands there
    labelled: bool = True  # names at the ends of the lines


def draw_curves(panels: Sequence[Panel], title: str, *, width: float = 5.4, height: float = 3.9) -> Figure:
    """Panels side by side, `width` and `height` inches each."""
    with paper(width * len(panels), height, title) as figure:
        for place, panel in enumerate(panels):
            axes = figure.add_subplot(1, len(panels), place + 1)
            draw_panel(axes, panel, height)
    return figure


def draw_panel(axes: Axes, panel: Panel, height: float) -> None:
    """One panel on axes of a figure so many inches high."""
    axes.set_yscale(panel.y_scale)
    axes.grid(axis="y")
    axes.set_axisbelow(True)
    axes.set_title(panel.title)
    axes.set_xlabel(panel.x_label)
    axes.set_ylabel(panel.y_label)
    for place, curve in enumerate(panel.curves):
        colour, marker = _looks(curve, place)
        few = len(curve.x) <= FEW
        if curve.low is not None and curve.high is not None:
            axes.fill_between(curve.x, curve.low, curve.high, color=colour, alpha=0.15, linewidth=0)
        axes.plot(
            curve.x,
            curve.y,
            color=colour,
            linewidth=2,
            marker=marker if few else None,
            markersize=5,
            clip_on=not few,
            zorder=3,
        )
    if panel.ticks is not None:
        axes.set_xticks([at for at, _ in panel.ticks], [text for _, text in panel.ticks])
    if panel.y_range is not None:
        axes.set_ylim(*panel.y_range)
    if panel.labelled:
        lines = max((curve.label.count("\n") + 1 for curve in panel.curves), default=1)
        _names(axes, panel.curves, lines * LINE / (height * 72 * 0.7))


def _names(axes: Axes, curves: Sequence[Curve], gap: float) -> None:
    """The names at the right, as near to the ends of their lines as `gap` between them allows.

    An arrow says that a line has left the panel.
    """
    to_axes = axes.transData + axes.transAxes.inverted()
    lowest = float(axes.get_ylim()[0])
    below = [float(curve.y[-1]) < lowest for curve in curves]  # on a logarithmic axis, 0 is nowhere
    ends = [0.0 if b else float(to_axes.transform((c.x[-1], c.y[-1]))[1]) for c, b in zip(curves, below, strict=True)]
    for place, (curve, y) in enumerate(zip(curves, spread(ends, gap), strict=True)):
        axes.annotate(
            f"{curve.label} ↓" if below[place] else curve.label,
            (1.02, y),
            xycoords="axes fraction",
            color=_looks(curve, place)[0],
            va="center",
            weight="bold",
            fontsize=9,
            annotation_clip=False,
        )


def spread(places: Sequence[float], gap: float) -> list[float]:
    """Places on a line from 0 to 1, moved apart until no two are nearer than `gap`; their order stays."""
    order = sorted(range(len(places)), key=lambda i: places[i])
    moved = [min(max(places[i], 0.0), 1.0) for i in order]
    for i in range(1, len(moved)):
        moved[i] = max(moved[i], moved[i - 1] + gap)
    if moved and moved[-1] > 1.0:
        moved[-1] = 1.0
        for i in reversed(range(len(moved) - 1)):
            moved[i] = min(moved[i], moved[i + 1] - gap)
    return [moved[order.index(i)] for i in range(len(places))]


def _looks(curve: Curve, place: int) -> tuple[str, str]:
    number = (place if curve.colour is None else curve.colour) % len(COLOURS)
    return COLOURS[number], MARKERS[number]
