"""IOB2: tags of words that mark where a name begins (B-), goes on (I-), and what is none (O)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple


class Entity(NamedTuple):
    """A name of several words: [first, end), counted in words."""

    label: str
    first: int
    end: int


def is_iob(names: Iterable[str]) -> bool:
    """Are these tags of names, and not of words alone?"""
    names = set(names)
    return any(name.startswith("B-") for name in names) and all(n == "O" or n[:2] in ("B-", "I-") for n in names)


def entities(tags: Sequence[str]) -> list[Entity]:
    """The names that these tags mark. An I- that goes on with nothing begins a name, as conlleval has it."""
    found: list[Entity] = []
    label, first = "", 0
    for i, tag in enumerate([*tags, "O"]):
        mark, _, kind = tag.partition("-")
        if label and (mark != "I" or kind != label):
            found.append(Entity(label, first, i))
            label = ""
        if mark in ("B", "I") and not label:
            label, first = kind, i
    return found


def tags_of(names: Iterable[Entity], count: int) -> list[str]:
    """Names over `count` words as tags; a name that meets an earlier one is left out."""
    tags = ["O"] * count
    for name in sorted(names, key=lambda n: (n.first, -n.end)):
        if all(tag == "O" for tag in tags[name.first : name.end]):
            tags[name.first : name.end] = [f"B-{name.label}"] + [f"I-{name.label}"] * (name.end - name.first - 1)
    return tags


def compared(due: Sequence[str], said: Sequence[str]) -> tuple[int, int, int]:
    """Whole names that are right, too many, and missing: right is what has the same words and the same label."""
    gold, guess = set(entities(due)), set(entities(said))
    return len(gold & guess), len(guess - gold), len(gold - guess)


def scores(right: int, over: int, under: int) -> dict[str, float]:
    """Precision, recall and F1 of names, in hundredths."""
    return {
        "f1": 100 * 2 * right / max(2 * right + over + under, 1),
        "precision": 100 * right / max(right + over, 1),
        "recall": 100 * right / max(right + under, 1),
    }
