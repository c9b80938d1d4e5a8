"""Blocks: a map of attention in a terminal, in five shades."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Group
    from rich.text import Text

SHADES = " ░▒▓█"
TALLEST = 12  # letters of a column's name that are shown


def blocks(weights: Sequence[Sequence[float]], written: Sequence[str], read: Sequence[str]) -> Group:
    """A line for each token written, a column of two characters for each token read, whose names run down."""
    from rich.console import Group  # not for those who only import clearhead

    names = [name if len(name) <= TALLEST else name[: TALLEST - 1] + "…" for name in read]
    tall = max((len(name) for name in names), default=0)
    margin = max((len(name) for name in written), default=0)
    lines: list[Text] = []
    for place in range(tall):
        letters = "".join(f"{name.rjust(tall)[place]} " for name in names)
        lines.append(_line(" " * (margin + 1), letters, "dim"))
    for name, row in zip(written, weights, strict=True):
        lines.append(_line(name.rjust(margin) + " ", "".join(2 * shade(weight) for weight in row), "cyan"))
    return Group(*lines)


def _line(margin: str, cells: str, style: str) -> Text:
    """One line, cut off where the terminal ends."""
    from rich.text import Text

    return Text.assemble(margin, (cells.rstrip(), style), no_wrap=True, overflow="crop")


def shade(weight: float) -> str:
    """One of five characters for a weight from 0 to 1; the lightest is for less than a tenth."""
    return SHADES[0 if weight < 0.1 else min(4, 1 + int(weight * 4))]
