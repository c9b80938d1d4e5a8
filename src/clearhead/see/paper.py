"""Paper: the figures that everything is drawn on, one look for all, the same bytes from the same numbers."""

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

LETTERS = 7.6  # of a title, to an inch
INK, FAINT = "#16202c", "#5b6876"
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00")  # Okabe and Ito (2008), told by all eyes
MARKERS = ("o", "s", "D", "^", "v", "P")

_STYLE: dict[Any, Any] = {
    "axes.edgecolor": FAINT,
    "axes.labelcolor": INK,
    "axes.labelsize": 10,
    "axes.linewidth": 0.8,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlelocation": "left",
    "axes.titlesize": 11,
    "figure.facecolor": "white",
    "figure.titlesize": 13,
    "font.family": "DejaVu Sans",  # comes with matplotlib, so that every machine has it
    "font.size": 10,
    "grid.color": "#e3e7eb",
    "grid.linewidth": 0.8,
    "savefig.dpi": 160,
    "svg.fonttype": "path",
    "svg.hashsalt": "clearhead",
    "text.color": INK,
    "xtick.color": FAINT,
    "xtick.labelcolor": INK,
    "xtick.labelsize": 9,
    "ytick.color": FAINT,
    "ytick.labelcolor": INK,
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
    """Light paper or dark."""

    dark: bool = False

    @property
    def style(self) -> dict[Any, Any]:
        """Matplotlib's settings for it."""
        return _STYLE | _DARK if self.dark else _STYLE

    @property
    def shades(self) -> str:
        """The name of the colours from nothing to all."""
        return "cividis" if self.dark else "Blues"

    @property
    def ink(self) -> str:
        return "#e8eef6" if self.dark else INK

    @property
    def ground(self) -> str:
        return "#0d1522" if self.dark else "white"


LIGHT, DARK = Theme(), Theme(dark=True)


@contextmanager
def paper(width: float, height: float, title: str, theme: Theme = LIGHT) -> Generator[Figure]:
    """A new figure of so many inches, with a title; what is drawn on it inside has the house's look."""
    matplotlib = _matplotlib()
    from matplotlib.figure import Figure

    with matplotlib.rc_context(theme.style):
        figure = Figure(figsize=(width, height), layout="constrained")
        figure.get_layout_engine().set(w_pad=0.12, h_pad=0.1)  # type: ignore[union-attr]
        figure.suptitle(_fitting(title, width), x=0.012, ha="left", weight="bold")
        yield figure


def _fitting(title: str, width: float) -> str:
    """A title that is no longer than the paper is wide."""
    most = int(width * LETTERS)
    return title if len(title) <= most else title[: most - 1] + "…"


def save(figure: Figure, path: Path) -> list[Path]:
    """Write a figure as `path`.svg and `path`.png; gives the two. Nothing in them tells the time."""
    written: list[Path] = []
    with _matplotlib().rc_context(_STYLE):
        for kind, facts in (("svg", {"Date": None, "Creator": None}), ("png", {"Software": None})):
            content = BytesIO()
            figure.savefig(content, format=kind, metadata=facts, facecolor=figure.get_facecolor())
            written.append(path.with_name(f"{path.name}.{kind}"))
            write_atomic(written[-1], content.getvalue())
    return written


def can_draw() -> bool:
    """Is there a matplotlib to draw with?"""
    from importlib.util import find_spec

    return find_spec("matplotlib") is not None


def _matplotlib() -> Any:
    try:
        import matplotlib
    except ImportError:
        raise ValueError("pictures need matplotlib: pip install 'clearhead[see]'") from None
    return matplotlib
