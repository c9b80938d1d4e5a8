"""Attention maps in a terminal, drawn with five block characters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Group
    from rich.text import Text

SHADES = " ░▒▓█"
MAX_LABEL_CHARACTERS = 12  # per column label


def draw_blocks(weights: Sequence[Sequence[float]], queries: Sequence[str], keys: Sequence[str]) -> Group:
    """Return a line for each query and a column of two characters for each key, with vertical column labels."""
    from rich.console import Group  # imported late: not every user of clearhead prints to a terminal

    labels = [name if len(name) <= MAX_LABEL_CHARACTERS else name[: MAX_LABEL_CHARACTERS - 1] + "…" for name in keys]
    height = max((len(label) for label in labels), default=0)
    margin = max((len(name) for name in queries), default=0)
    lines: list[Text] = []
    for i in range(height):
        characters = "".join(f"{label.rjust(height)[i]} " for label in labels)
        lines.append(_line(" " * (margin + 1), characters, "dim"))
    for name, row in zip(queries, weights, strict=True):
        lines.append(_line(name.rjust(margin) + " ", "".join(2 * shade(weight) for weight in row), "cyan"))
    return Group(*lines)


def _line(margin: str, cells: str, style: str) -> Text:
    """Return one line, cropped at the width of the terminal."""
    from rich.text import Text

    return Text.assemble(margin, (cells.rstrip(), style), no_wrap=True, overflow="crop")


def shade(weight: float) -> str:
    """Return one of five characters for a weight in [0, 1]; weights below 0.1 are blank."""
    return SHADES[0 if weight < 0.1 else min(4, 1 + int(weight * 4))]
