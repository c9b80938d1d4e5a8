"""Maps: who attends to whom, a row for each token written and a column for each token read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from clearhead.see.paper import FAINT, LIGHT, Theme, paper

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

CELL = 0.2  # inches
MARGIN = (1.5, 1.75)  # inches beside and above or below the cells: names and titles


@dataclass(frozen=True)
class Map:
    """Weights of attention with the names of their rows and columns."""

    title: str
    weights: Sequence[Sequence[float]]  # (T, S), from 0 to 1
    written: Sequence[str]  # T names
    read: Sequence[str]  # S names

    def __post_init__(self) -> None:
        shape = len(self.weights), len(self.weights[0]) if self.weights else 0
        if shape != (len(self.written), len(self.read)):
            raise ValueError(
                f"{shape[0]} x {shape[1]} weights for {len(self.written)} tokens written and {len(self.read)} read"
            )


def draw_maps(maps: Sequence[Map], title: str, theme: Theme = LIGHT) -> Figure:
    """Maps side by side, all in the same shades."""
    wide = sum(CELL * len(m.read) + MARGIN[0] for m in maps)
    high = max(CELL * len(m.written) for m in maps) + MARGIN[1]
    with paper(wide, high, title, theme) as figure:
        ratios = [len(m.read) for m in maps]
        for axes, m in zip(figure.subplots(1, len(maps), squeeze=False, width_ratios=ratios)[0], maps, strict=True):
            _map(axes, m, theme)
    return figure


def _map(axes: Axes, m: Map, theme: Theme) -> None:
    lines = theme.ground
    axes.pcolormesh(m.weights, cmap=theme.shades, vmin=0.0, vmax=1.0, edgecolors=lines, linewidth=0.6)
    axes.set_aspect("equal")
    axes.invert_yaxis()
    axes.set_title(m.title, pad=8)
    axes.set_xlabel("read")
    axes.set_ylabel("written")
    axes.set_xticks([i + 0.5 for i in range(len(m.read))], [plain(name) for name in m.read], rotation=90)
    axes.set_yticks([i + 0.5 for i in range(len(m.written))], [plain(name) for name in m.written])
    axes.tick_params(length=0, labelsize=8)
    for spine in axes.spines.values():
        spine.set(visible=True, color=FAINT, linewidth=0.6)


def plain(name: str) -> str:
    """A token's name without what matplotlib would take for a formula."""
    return name.replace("$", r"\$")
