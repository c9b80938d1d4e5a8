"""Metrics of answers that are labels or numbers, and how sure one may be of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Numbers = npt.NDArray[Any]
Measure = Callable[[Numbers], dict[str, float]]
"""The metrics of the rows with these numbers."""

DRAWS = 1000  # samples of the bootstrap


@dataclass(frozen=True)
class PerLabel:
    """One label: how many rows have it, and how well it is told, in hundredths."""

    name: str
    count: int
    precision: float
    recall: float
    f1: float


def of_one(due: Numbers, said: Numbers, count: int) -> dict[str, float]:
    """Accuracy; F1 of the second of two labels, of more the mean; the mean of all labels' F1.

    `due` and `said` are numbers of labels, (n,), out of `count`.
    """
    table = np.bincount(due * count + said, minlength=count * count).reshape(count, count)  # (due, said)
    right = np.diagonal(table)
    each = _f1(right, table.sum(0) - right, table.sum(1) - right)
    met = (table.sum(0) + table.sum(1)) > 0  # a label that nobody has and nobody says counts for nothing
    macro = float(each[met].mean()) if met.any() else 0.0
    f1 = float(each[1]) if count == 2 else macro
    return {"accuracy": 100 * float(right.sum()) / max(len(due), 1), "f1": 100 * f1, "macro_f1": 100 * macro}


def of_several(due: Numbers, said: Numbers) -> dict[str, float]:
    """Micro and macro F1, and the share of rows with all labels right; both are (n, labels), 0 or 1."""
    right = (due & said).sum(0)
    over, under = (said & ~due).sum(0), (due & ~said).sum(0)
    met = (right + over + under) > 0
    each = _f1(right, over, under)
    return {
        "micro_f1": 100 * float(_f1(right.sum(), over.sum(), under.sum())),
        "macro_f1": 100 * float(each[met].mean()) if met.any() else 0.0,
        "exact": 100 * float((due == said).all(1).mean()) if len(due) else 0.0,
    }


def of_numbers(due: Numbers, said: Numbers) -> dict[str, float]:
    """Correlation of ranks (Spearman), correlation (Pearson), and the root of the mean squared error."""
    return {
        "spearman": 100 * _correlation(_ranks(due), _ranks(said)),
        "pearson": 100 * _correlation(due, said),
        "rmse": float(np.sqrt(np.mean((due - said) ** 2))) if len(due) else 0.0,
    }


@dataclass(frozen=True, eq=False)
class Judged:
    """Answers beside what was due: the metrics of any of the rows, how sure they are, and a line for each label."""

    count: int  # of rows
    measure: Measure
    labels: tuple[PerLabel, ...] = ()
    confusion: Numbers | None = None  # (due, said): how many rows of a label were called what
    sure: tuple[Numbers, Numbers] | None = None  # (rows,): the score of what was said, and whether it was right

    def scores(self) -> dict[str, float]:
        """The metrics of all rows."""
        return self.measure(np.arange(self.count))

    def intervals(self, *, seed: int = 0, draws: int = DRAWS) -> dict[str, tuple[float, float]]:
        """Where each metric lies in 95 of 100 samples of the rows, drawn with replacement (Efron 1979)."""
        draw = np.random.default_rng(seed)
        found: dict[str, list[float]] = {}
        for _ in range(draws if self.count else 0):
            for name, value in self.measure(draw.integers(self.count, size=self.count)).items():
                found.setdefault(name, []).append(value)
        ends = {name: np.percentile(values, [2.5, 97.5]).tolist() for name, values in found.items()}
        return {name: (low, high) for name, (low, high) in ends.items()}


def per_label(names: Sequence[str], right: Numbers, said: Numbers, due: Numbers) -> tuple[PerLabel, ...]:
    """Counts of each label as precision, recall and F1."""
    return tuple(
        PerLabel(
            name,
            int(due[i]),
            100 * float(right[i]) / max(int(said[i]), 1),
            100 * float(right[i]) / max(int(due[i]), 1),
            100 * float(_f1(right[i], said[i] - right[i], due[i] - right[i])),
        )
        for i, name in enumerate(names)
    )


def best_threshold(due: Sequence[bool] | Numbers, scores: Numbers) -> float:
    """The score from which a label is said, for the best F1 on these rows; 0.5 where none of them has it."""
    due = np.asarray(due, dtype=bool)
    if not due.any():
        return 0.5
    order = np.argsort(-scores, kind="stable")
    right = np.cumsum(due[order])
    f1 = 2 * right / (np.arange(1, len(due) + 1) + due.sum())
    ends = np.append(scores[order][1:] < scores[order][:-1], True)  # equal scores are said together
    best = int(np.argmax(np.where(ends, f1, -1)))
    below = scores[order][best + 1] if best + 1 < len(scores) else 0.0
    return float((scores[order][best] + below) / 2)


def _f1(right: Any, over: Any, under: Any) -> Any:
    return 2 * right / np.maximum(2 * right + over + under, 1)


def _correlation(a: Numbers, b: Numbers) -> float:
    if len(a) < 2 or not a.std() or not b.std():
        return 0.0
    return float(np.corrcoef(a, b)[0, 1])


def _ranks(x: Numbers) -> Numbers:
    """The place of each number among all; equals share theirs."""
    _, where, counts = np.unique(x, return_inverse=True, return_counts=True)
    return (np.cumsum(counts) - (counts - 1) / 2)[where]


def calibration(sure: Numbers, right: Numbers, bins: int = 10) -> list[tuple[float, float, int]]:
    """Rows in groups of like size by their score: the mean score, the share that was right, and how many they are."""
    order = np.argsort(sure, kind="stable")
    parts = [part for part in np.array_split(order, min(bins, max(len(order), 1))) if len(part)]
    return [(float(sure[part].mean()), float(right[part].mean()), len(part)) for part in parts]


def calibration_error(sure: Numbers, right: Numbers) -> float:
    """How far scores and shares of right answers are apart, on average over the groups, in hundredths."""
    groups = calibration(sure, right)
    return 100 * sum(abs(score - share) * n for score, share, n in groups) / max(len(sure), 1)
