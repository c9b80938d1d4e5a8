"""Pairs: two texts get one label, several, or a number: is it a paraphrase, does it follow, how alike are they?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from clearhead.tasks.classify import Classify


@dataclass(frozen=True, eq=False)
class Pair(Classify):
    """Learn what two texts are to each other.

    They are read together; of a long pair the second is read in windows, each beside the first, of which at most half
    a window is kept.
    """

    name: ClassVar[str] = "pair"
    texts: ClassVar[tuple[str, ...]] = ("text", "second")
    forms: ClassVar[tuple[tuple[str, ...], ...]] = (
        ("text", "second", "label"), ("text", "second", "labels"), ("text", "second", "number"),
    )  # fmt: skip
