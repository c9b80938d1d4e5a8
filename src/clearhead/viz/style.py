"""Figure style: one theme for all figures, and reproducible SVG and PNG files."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clearhead.files import write_atomic

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TITLE_CHARACTERS_PER_INCH = 7.6
TEXT, MUTED = "#16202c", "#5b6876"
COLORS = (
    "#0072b2",
    "#d55e00",
    "#009e73",
    "#cc79a7",
    "#56b4e9",
    "#e69f00",
)  # Okabe and Ito (2008), distinct under color blindness
MARKERS = ("o", "s", "D", "^", "v", "P")

_STYLE: dict[Any, Any] = {
    "axes.edgecolor": MUTED,
    "axes.labelcolor": TEXT,
    "axes.labelsize": 10,
    "axes.linewidth": 0.8,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlelocation": "left",
    "axes.titlesize": 11,
    "figure.facecolor": "white",
    "figure.titlesize": 13,
    "font.family": "DejaVu Sans",  # bundled with matplotlib
    "font.size": 10,
    "grid.color": "#e3e7eb",
    "grid.linewidth": 0.8,
    "savefig.dpi": 160,
    "svg.fonttype": "path",
    "svg.hashsalt": "clearhead",
    "text.color": TEXT,
    "xtick.color": MUTED,
    "xtick.labelcolor": TEXT,
    "xtick.labelsize": 9,
    "ytick.color": MUTED,
    "ytick.labelcolor": TEXT,
    "ytick.labelsize": 9,
}


_DARK: dict[Any, Any] = {
    "axes.edgecolor": "#9aa9bb",
    "axes.facecolor": "#0d1522",
    "axes.labelcolor": "#e8eef6",
    "figure.facecolor": "#0d1522",
    "grid.color": "#2b3a50",
    "savefig.facecolor": "#0d1522",
    "text.color": "#e8eef6",
    "xtick.color": "#9aa9bb",
    "xtick.labelcolor": "#e8eef6",
    "ytick.color": "#9aa9bb",
    "ytick.labelcolor": "#e8eef6",
}


@dataclass(frozen=True)
class Theme:
    """Light or dark theme."""

    dark: bool = False

    @property
    def style(self) -> dict[Any, Any]:
        return _STYLE | _DARK if self.dark else _STYLE

    @property
    def colormap(self) -> str:
        return "cividis" if self.dark else "Blues"

    @property
    def background(self) -> str:
        return "#0d1522" if self.dark else "white"


LIGHT = Theme()
"""The theme of figures on a light background."""

DARK = Theme(dark=True)
"""The theme of figures on a dark background."""


@contextmanager
def new_figure(width: float, height: float, title: str, theme: Theme = LIGHT) -> Generator[Figure]:
    """Yield a new figure of this size in inches with a title; the theme applies inside the context."""
    matplotlib = _matplotlib()
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    with matplotlib.rc_context(theme.style):
        figure = Figure(figsize=(width, height), layout=ConstrainedLayoutEngine(w_pad=0.12, h_pad=0.1))
        limit = int(width * TITLE_CHARACTERS_PER_INCH)
        fitting = title if len(title) <= limit else title[: limit - 1] + "…"
        figure.suptitle(fitting, x=0.012, ha="left", weight="bold")
        yield figure


def save(figure: Figure, path: Path) -> list[Path]:
    """Write a figure as `path`.svg and `path`.png, without timestamps, and return the two paths."""
    paths: list[Path] = []
    with _matplotlib().rc_context(_STYLE):
        for extension, metadata in (("svg", {"Date": None, "Creator": None}), ("png", {"Software": None})):
            content = BytesIO()
            figure.savefig(content, format=extension, metadata=metadata, facecolor=figure.get_facecolor())
            paths.append(path.with_name(f"{path.name}.{extension}"))
            write_atomic(paths[-1], content.getvalue())
    return paths


def can_draw() -> bool:
    from importlib.util import find_spec

    return find_spec("matplotlib") is not None


def _matplotlib() -> Any:
    try:
        import matplotlib
    except ImportError:
        raise ValueError("figures need matplotlib: pip install 'clearhead[see]'") from None
    return matplotlib
