"""Labels of texts, collected from the training rows: one label, several labels, or a number."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from clearhead.tasks.task import did_you_mean

LabelKind = Literal["single_label", "multi_label", "regression"]
COLUMNS: dict[str, LabelKind] = {"label": "single_label", "labels": "multi_label", "number": "regression"}
"""The kind of labels in each column."""
SEPARATOR = "|"  # between labels in one cell
MAX_LABELS = 10_000


@dataclass(frozen=True)
class Labels:
    """The label names in the order of the model's outputs, and their counts in the training rows.

    Numbers are trained as (number - `center`) / `spread`, so that the scale of the data does not matter.
    """

    kind: LabelKind
    names: tuple[str, ...]
    counts: tuple[int, ...] = ()
    center: float = 0.0
    spread: float = 1.0

    @staticmethod
    def collect(kind: LabelKind, values: Iterable[Any]) -> Labels:
        """Return the labels in these values, sorted alphabetically, or numerically if all are numbers."""
        if kind == "regression":
            numbers = [parse_number(value) for value in values]
            if not numbers:
                raise ValueError("the training rows have no number: check data.train")
            center = sum(numbers) / len(numbers)
            spread = math.sqrt(sum((x - center) ** 2 for x in numbers) / len(numbers))
            return Labels(kind, ("number",), (len(numbers),), center, spread or 1.0)
        several = kind == "multi_label"
        counts = Counter(name for value in values for name in (parse_labels(value) if several else [value]))
        if len(counts) > MAX_LABELS:
            raise ValueError(f"{len(counts):,} different labels: is this column text? The maximum is {MAX_LABELS:,}")
        if len(counts) < (1 if kind == "multi_label" else 2):
            listed = ", ".join(map(repr, counts)) or "none"
            raise ValueError(f"the training rows have {len(counts)} label ({listed}): at least two are required")
        names = sorted(counts, key=_order(counts))
        return Labels(kind, tuple(names), tuple(counts[name] for name in names))

    @staticmethod
    def from_dict(values: Mapping[str, Any]) -> Labels:
        names, counts = tuple(values["names"]), tuple(values["counts"])
        return Labels(values["kind"], names, counts, values.get("center", 0.0), values.get("spread", 1.0))

    def to_dict(self) -> dict[str, Any]:
        return {"kind": self.kind, "names": list(self.names), "counts": list(self.counts),
                "center": self.center, "spread": self.spread}  # fmt: skip

    def read(self, value: Any) -> list[int] | list[float]:
        """Return the label indices, or the number, of a cell; raises ValueError for an unknown label."""
        if self.kind == "regression":
            return [parse_number(value)]
        names = parse_labels(value) if self.kind == "multi_label" else [value]
        for name in names:
            if name not in self._indices:
                raise ValueError(
                    f"the label {name!r} is not among the training labels: {did_you_mean(name, self.names)}"
                )
        return [self._indices[name] for name in names]

    @property
    def _indices(self) -> dict[str, int]:
        return {name: i for i, name in enumerate(self.names)}

    def balance(self) -> list[float]:
        """Return a weight for each label, inverse to its count, with mean 1 over the rows."""
        total, used = sum(self.counts), sum(1 for count in self.counts if count)
        return [total / (used * count) if count else 0.0 for count in self.counts]


def parse_labels(value: Any) -> list[str]:
    """Return the labels in a cell: a list, or text separated by |; an empty cell has none."""
    parts: Sequence[Any] = value if isinstance(value, list) else str(value).split(SEPARATOR)
    return list(dict.fromkeys(str(part).strip() for part in parts if str(part).strip()))


def parse_number(value: Any) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise ValueError(f"{value!r} is not a number") from None
    if not math.isfinite(number):
        raise ValueError(f"{value!r} is not a finite number")
    return number


def _order(names: Iterable[str]) -> Any:
    try:
        {name: float(name) for name in names}
    except ValueError:
        return lambda name: (name.casefold(), name)
    return lambda name: (float(name), name)
