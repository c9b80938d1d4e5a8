"""Line plots, with each label at the end of its line instead of in a legend."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from clearhead.viz.style import COLORS, MARKERS, new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MAX_MARKERS = 12  # points up to which each one gets a marker
LABEL_HEIGHT_PT = 12.5


@dataclass(frozen=True)
class Curve:
    """A line and its label; `low` and `high` draw a confidence band."""

    label: str
    x: Sequence[float]
    y: Sequence[float]
    low: Sequence[float] | None = None
    high: Sequence[float] | None = None
    color: int | None = None  # index into the palette; None: the position of the curve


@dataclass(frozen=True)
class Panel:
    """Curves that share two axes."""

    curves: Sequence[Curve]
    x_label: str
    y_label: str
    title: str = ""
    y_scale: Literal["linear", "log"] = "linear"
    y_range: tuple[float, float] | None = None
    ticks: Sequence[tuple[float, str]] | None = None  # positions on the x-axis and their labels
    labelled: bool = True  # draw labels at the ends of the lines


def draw_curves(panels: Sequence[Panel], title: str, *, width: float = 5.4, height: float = 3.9) -> Figure:
    """Draw panels side by side, each `width` by `height` inches."""
    with new_figure(width * len(panels), height, title) as figure:
        for i, panel in enumerate(panels):
            axes = figure.add_subplot(1, len(panels), i + 1)
            draw_panel(axes, panel, height)
    return figure


def draw_panel(axes: Axes, panel: Panel, height: float) -> None:
    """Draw one panel on the axes of a figure of this height in inches."""
    axes.set_yscale(panel.y_scale)
    axes.grid(axis="y")
    axes.set_axisbelow(True)
    axes.set_title(panel.title)
    axes.set_xlabel(panel.x_label)
    axes.set_ylabel(panel.y_label)
    for i, curve in enumerate(panel.curves):
        color, marker = _color_and_marker(curve, i)
        marked = len(curve.x) <= MAX_MARKERS
        if curve.low is not None and curve.high is not None:
            axes.fill_between(curve.x, curve.low, curve.high, color=color, alpha=0.15, linewidth=0)
        style: dict[str, Any] = {"marker": marker if marked else None, "markersize": 5, "clip_on": not marked}
        axes.plot(curve.x, curve.y, color=color, linewidth=2, zorder=3, **style)
    if panel.ticks is not None:
        axes.set_xticks([x for x, _ in panel.ticks], [text for _, text in panel.ticks])
    if panel.y_range is not None:
        axes.set_ylim(*panel.y_range)
    if panel.labelled:
        lines = max((curve.label.count("\n") + 1 for curve in panel.curves), default=1)
        _draw_labels(axes, panel.curves, lines * LABEL_HEIGHT_PT / (height * 72 * 0.7))


def _draw_labels(axes: Axes, curves: Sequence[Curve], gap: float) -> None:
    """Draw labels at the right, as close to the ends of their lines as a distance of `gap` allows.

    An arrow marks a line that ends below the panel.
    """
    to_axes = axes.transData + axes.transAxes.inverted()
    lowest = float(axes.get_ylim()[0])
    below = [float(curve.y[-1]) < lowest for curve in curves]  # a logarithmic axis has no place for 0
    ends = [0.0 if b else float(to_axes.transform((c.x[-1], c.y[-1]))[1]) for c, b in zip(curves, below, strict=True)]
    for i, (curve, y) in enumerate(zip(curves, spread(ends, gap), strict=True)):
        text, color = f"{curve.label} ↓" if below[i] else curve.label, _color_and_marker(curve, i)[0]
        style: dict[str, Any] = {"color": color, "va": "center", "weight": "bold", "fontsize": 9}
        axes.annotate(text, (1.02, y), xycoords="axes fraction", annotation_clip=False, **style)


def spread(positions: Sequence[float], gap: float) -> list[float]:
    """Return positions in [0, 1] moved apart until they are at least `gap` apart, in the same order."""
    order = sorted(range(len(positions)), key=lambda i: positions[i])
    moved = [min(max(positions[i], 0.0), 1.0) for i in order]
    for i in range(1, len(moved)):
        moved[i] = max(moved[i], moved[i - 1] + gap)
    if moved and moved[-1] > 1.0:
        moved[-1] = 1.0
        for i in reversed(range(len(moved) - 1)):
            moved[i] = min(moved[i], moved[i + 1] - gap)
    return [moved[order.index(i)] for i in range(len(positions))]


def _color_and_marker(curve: Curve, position: int) -> tuple[str, str]:
    index = (position if curve.color is None else curve.color) % len(COLORS)
    return COLORS[index], MARKERS[index]
