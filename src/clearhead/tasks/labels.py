"""Labels: what a text can be called, learnt from the training rows: one name, several names, or a number."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from clearhead.tasks.faults import unknown

Kind = Literal["one", "several", "number"]
COLUMNS: dict[str, Kind] = {"label": "one", "labels": "several", "number": "number"}
"""The column that a row has says which kind it is."""
SEPARATOR = "|"  # between labels that are written in one cell
MOST = 10_000  # different labels


@dataclass(frozen=True)
class Labels:
    """The names in the order of the model's outputs, and how often each was met.

    Numbers are learnt as (number - `center`) / `spread`, so that prices and shares are learnt alike.
    """

    kind: Kind
    names: tuple[str, ...]
    counts: tuple[int, ...] = ()
    center: float = 0.0
    spread: float = 1.0

    @staticmethod
    def learn(kind: Kind, values: Iterable[Any]) -> Labels:
        """The labels of these rows, in the order of the alphabet; numbers in order if all of them are."""
        if kind == "number":
            numbers = [number_of(value) for value in values]
            if not numbers:
                raise ValueError("there is no number to learn from")
            center = sum(numbers) / len(numbers)
            spread = math.sqrt(sum((x - center) ** 2 for x in numbers) / len(numbers))
            return Labels(kind, ("number",), (len(numbers),), center, spread or 1.0)
        met = Counter(name for value in values for name in (names_of(value) if kind == "several" else [value]))
        if len(met) > MOST:
            raise ValueError(f"{len(met):,} different labels: is this column text? At most {MOST:,} are learnt")
        if len(met) < (1 if kind == "several" else 2):
            found = ", ".join(map(repr, met)) or "none"
            raise ValueError(
                f"the training rows have {len(met)} label ({found}): two are due, or nothing is to be told"
            )
        names = sorted(met, key=_order(met))
        return Labels(kind, tuple(names), tuple(met[name] for name in names))

    @staticmethod
    def of(facts: Mapping[str, Any]) -> Labels:
        """The labels that `facts` wrote down."""
        return Labels(
            facts["kind"],
            tuple(facts["names"]),
            tuple(facts["counts"]),
            facts.get("center", 0.0),
            facts.get("spread", 1.0),
        )

    def facts(self) -> dict[str, Any]:
        """The same in plain values."""
        return {"kind": self.kind, "names": list(self.names), "counts": list(self.counts),
                "center": self.center, "spread": self.spread}  # fmt: skip

    def read(self, value: Any) -> list[int] | list[float]:
        """The outputs that a row asks for; a ValueError that names a label nobody has learnt."""
        if self.kind == "number":
            return [number_of(value)]
        found = names_of(value) if self.kind == "several" else [value]
        for name in found:
            if name not in self._places:
                raise ValueError(
                    f"the label {name!r} is not among those of the training rows: {unknown(name, self.names)}"
                )
        return [self._places[name] for name in found]

    @property
    def _places(self) -> dict[str, int]:
        return {name: i for i, name in enumerate(self.names)}

    def balance(self) -> list[float]:
        """A weight for each label so that all count alike, 1 on average over the rows."""
        total, used = sum(self.counts), sum(1 for count in self.counts if count)
        return [total / (used * count) if count else 0.0 for count in self.counts]


def names_of(value: Any) -> list[str]:
    """The labels in a cell: a list, or text with | between them; an empty one has none."""
    parts: Sequence[Any] = value if isinstance(value, list) else str(value).split(SEPARATOR)
    return list(dict.fromkeys(str(part).strip() for part in parts if str(part).strip()))


def number_of(value: Any) -> float:
    """A cell as a number."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise ValueError(f"{value!r} is no number") from None
    if not math.isfinite(number):
        raise ValueError(f"{value!r} is no finite number")
    return number


def _order(names: Iterable[str]) -> Any:
    try:
        {name: float(name) for name in names}
    except ValueError:
        return lambda name: (name.casefold(), name)
    return lambda name: (float(name), name)
