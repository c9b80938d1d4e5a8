"""Reweighing: rows are weighted so that their labels do not depend on the group that they name.

A row weighs P(group) P(label) / P(group, label) (Kamiran and Calders 2012): the mean over all rows is 1, every group
and every label keeps its share, and within a group the labels have the shares that they have in all rows.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cached_property
from typing import Any

from clearhead.data.counterfactual_rows import row_texts
from clearhead.data.group_terms import named_groups
from clearhead.data.rows import Row, Rows, SkippedRow

NO_GROUP = "no single group"

Cell = tuple[str, str]
"""A group and a label."""


def group_of(values: Mapping[str, Any], category: str) -> str:
    """Return the group of a category that the texts of a row name; NO_GROUP where they name none, or several."""
    texts = [text for column in row_texts(values).values() for text in column]
    named = set[str]().union(*(named_groups(text, category) for text in texts))
    return named.pop() if len(named) == 1 else NO_GROUP


def cell_weights(counts: Mapping[Cell, int]) -> dict[Cell, float]:
    """Return the weight of the rows of each group and label, from the number of these rows."""
    groups, labels, total = Counter[str](), Counter[str](), 0
    for (group, label), count in counts.items():
        groups[group] += count
        labels[label] += count
        total += count
    return {(group, label): groups[group] * labels[label] / (total * n) for (group, label), n in counts.items()}


class WeightedRows(Rows):
    """Rows that are weighted by the group of a category that they name, and by their label."""

    def __init__(self, rows: Rows, category: str) -> None:
        super().__init__(self._weighted)
        self._unweighted, self._category = rows, category

    @cached_property
    def counts(self) -> Counter[Cell]:
        """The number of rows of each group and label."""
        return Counter(map(self._cell, self._unweighted))

    def _cell(self, row: Row) -> Cell:
        return group_of(row.values, self._category), str(row.values["label"])

    def _weighted(self) -> Iterator[Row | SkippedRow]:
        weights = cell_weights(self.counts)
        for row in self._unweighted.raw():
            yield row if isinstance(row, SkippedRow) else replace(row, weight=weights[self._cell(row)])

    def notes(self) -> list[str]:
        weights = cell_weights(self.counts)
        ends = [f"{weights[c]:.2f} ({c[0]}, {c[1]!r}; rows: {self.counts[c]:,})" for c in _lowest_and_highest(weights)]
        return [*self._unweighted.notes(), f"rows weigh from {' to '.join(ends)}"]


def _lowest_and_highest(weights: Mapping[Cell, float]) -> list[Cell]:
    order = sorted(weights, key=lambda cell: (weights[cell], cell))
    return [order[0], order[-1]] if order else []
