"""Heatmaps of attention: a row for each query token, a column for each key token."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from clearhead.viz.style import LIGHT, MUTED, Theme, new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

CELL_INCHES = 0.2
MARGIN_INCHES = (1.5, 1.75)  # width and height of labels and titles


@dataclass(frozen=True)
class Heatmap:
    """Attention weights with the labels of their rows and columns."""

    title: str
    weights: Sequence[Sequence[float]]  # (T, S), from 0 to 1
    queries: Sequence[str]  # T labels
    keys: Sequence[str]  # S labels

    def __post_init__(self) -> None:
        shape = len(self.weights), len(self.weights[0]) if self.weights else 0
        if shape != (len(self.queries), len(self.keys)):
            raise ValueError(
                f"{shape[0]} x {shape[1]} weights need as many labels, but there are {len(self.queries)} queries and "
                f"{len(self.keys)} keys"
            )


def draw_heatmaps(maps: Sequence[Heatmap], title: str, theme: Theme = LIGHT) -> Figure:
    """Draw heatmaps side by side on one color scale."""
    width = sum(CELL_INCHES * len(m.keys) + MARGIN_INCHES[0] for m in maps)
    height = max(CELL_INCHES * len(m.queries) for m in maps) + MARGIN_INCHES[1]
    with new_figure(width, height, title, theme) as figure:
        ratios = [len(m.keys) for m in maps]
        for axes, m in zip(figure.subplots(1, len(maps), squeeze=False, width_ratios=ratios)[0], maps, strict=True):
            _draw(axes, m, theme)
    return figure


def _draw(axes: Axes, m: Heatmap, theme: Theme) -> None:
    axes.pcolormesh(m.weights, cmap=theme.colormap, vmin=0.0, vmax=1.0, edgecolors=theme.background, linewidth=0.6)
    axes.set_aspect("equal")
    axes.invert_yaxis()
    axes.set_title(m.title, pad=8)
    axes.set_xlabel("attends to (key)")
    axes.set_ylabel("token (query)")
    axes.set_xticks([i + 0.5 for i in range(len(m.keys))], [printable_token(name) for name in m.keys], rotation=90)
    axes.set_yticks([i + 0.5 for i in range(len(m.queries))], [printable_token(name) for name in m.queries])
    axes.tick_params(length=0, labelsize=8)
    for spine in axes.spines.values():
        spine.set(visible=True, color=MUTED, linewidth=0.6)


def printable_token(token: str) -> str:
    """Return the token with dollar signs escaped, which matplotlib reads as formulas."""
    return token.replace("$", r"\$")
