"""A matrix of numbers: each value is written in its cell, and the color shows its size."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from clearhead.viz.heatmaps import printable_token
from clearhead.viz.style import LIGHT, MUTED, TEXT, Theme, new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CELL_INCHES = (0.56, 0.34)
CHARACTER_INCHES = 0.085


def draw_matrix(
    values: Sequence[Sequence[float]],
    rows: Sequence[str],
    columns: Sequence[str],
    title: str,
    *,
    digits: int = 2,
    theme: Theme = LIGHT,
) -> Figure:
    """Draw a matrix with a label for each row and column; negative values have a color of their own."""
    if (len(values), len(values[0]) if values else 0) != (len(rows), len(columns)):
        raise ValueError(
            f"{len(values)} x {len(values[0]) if values else 0} values need as many labels, but there are {len(rows)} "
            f"rows and {len(columns)} columns"
        )
    flat = [float(value) for row in values for value in row]
    bound = max(map(abs, flat)) or 1.0
    signed = min(flat) < 0
    colors: dict[str, Any] = {"cmap": "PuOr", "vmin": -bound} if signed else {"cmap": theme.colormap, "vmin": 0.0}
    longest = max(map(len, rows), default=0), max(map(len, columns), default=0)
    turned = longest[1] * CHARACTER_INCHES > CELL_INCHES[0]
    width = CELL_INCHES[0] * len(columns) + CHARACTER_INCHES * longest[0] + 0.5
    height = CELL_INCHES[1] * len(rows) + (CHARACTER_INCHES * longest[1] if turned else 0.2) + 0.6
    with new_figure(max(width, len(title) / 7.4), height, title, theme) as figure:
        axes = figure.add_subplot()
        axes.imshow(values, vmax=bound, aspect="auto", interpolation="nearest", **colors)
        axes.set_xticks(range(len(columns)), [printable_token(c) for c in columns], rotation=90 if turned else 0)
        axes.set_yticks(range(len(rows)), [printable_token(r) for r in rows])
        axes.tick_params(length=0, labelsize=9)
        axes.xaxis.tick_top()
        for spine in axes.spines.values():
            spine.set(visible=True, color=MUTED, linewidth=0.6)
        for y, row in enumerate(values):
            for x, value in enumerate(row):
                strong = abs(float(value)) > 0.6 * bound
                color = "white" if strong != theme.dark else TEXT
                axes.text(x, y, f"{float(value):.{digits}f}", ha="center", va="center", fontsize=8, color=color)
    return figure
