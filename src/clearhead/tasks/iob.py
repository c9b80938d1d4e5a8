"""IOB2 tags: B- begins an entity, I- continues it, and O marks words outside of entities."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple


class EntitySpan(NamedTuple):
    """An entity over the words [first, end)."""

    label: str
    first: int
    end: int


def is_iob(names: Iterable[str]) -> bool:
    """Return whether these tags mark entities, rather than single words."""
    names = set(names)
    return any(name.startswith("B-") for name in names) and all(n == "O" or n[:2] in ("B-", "I-") for n in names)


def entities(tags: Sequence[str]) -> list[EntitySpan]:
    """Return the entities that these tags mark. An I- without a beginning starts an entity, as in conlleval."""
    spans: list[EntitySpan] = []
    label, first = "", 0
    for i, tag in enumerate([*tags, "O"]):
        mark, _, kind = tag.partition("-")
        if label and (mark != "I" or kind != label):
            spans.append(EntitySpan(label, first, i))
            label = ""
        if mark in ("B", "I") and not label:
            label, first = kind, i
    return spans


def compared(target: Sequence[str], predicted: Sequence[str]) -> tuple[int, int, int]:
    """Return the numbers of correct, spurious and missing entities; a correct one has the same words and label."""
    gold, guess = set(entities(target)), set(entities(predicted))
    return len(gold & guess), len(guess - gold), len(gold - guess)


def scores(correct: int, false_positive: int, false_negative: int) -> dict[str, float]:
    return {
        "f1": 100 * 2 * correct / max(2 * correct + false_positive + false_negative, 1),
        "precision": 100 * correct / max(correct + false_positive, 1),
        "recall": 100 * correct / max(correct + false_negative, 1),
    }
