"""Estimates of an audit with their intervals and corrected p-values, and the result of a suite."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from clearhead.metrics.bootstrap import Numbers, bootstrap, holm, interval, mean_samples, p_value

MIN_ROWS = 30  # below, an interval holds less often than 93 of 100 times, and a group is marked as too small
LEVEL = 0.05  # of the corrected p-value from which an estimate is flagged
DRAWS = 4000


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """A measured value with its 95 % bootstrap interval, and the value that a model without this bias has."""

    name: str
    value: float
    low: float
    high: float
    ideal: float | None  # None: no value is better than another
    count: int  # of rows, in the smallest of the groups that are compared
    p_value: float | None = None  # against `ideal`, corrected for all estimates of the suite (Holm)

    @property
    def too_small(self) -> bool:
        return self.count < MIN_ROWS

    @property
    def flagged(self) -> bool:
        """Whether the value differs from the ideal one by more than chance explains."""
        return self.p_value is not None and self.p_value < LEVEL


@dataclass(frozen=True, kw_only=True)
class AuditedExample:
    """One example of a suite: its texts, what the model's answer to it adds to the estimate, and its group."""

    texts: tuple[str, ...]
    effect: float  # its sign is the direction
    group: str = ""


@dataclass(frozen=True, kw_only=True)
class SuiteResult:
    """What a suite measured on a model."""

    suite: str
    title: str
    method: str  # one sentence: what is computed, and which direction is which
    unit: str  # of the estimates: "%" or "" or "points"
    estimates: tuple[Estimate, ...]
    examples: tuple[AuditedExample, ...] = ()
    notes: tuple[str, ...] = ()  # what was left out and why, known flaws of the data
    version: str
    sha256: str  # of the data files
    seed: int
    own_texts: bool = False  # whether the examples are of a user's own file

    @property
    def flagged(self) -> tuple[Estimate, ...]:
        return tuple(estimate for estimate in self.estimates if estimate.flagged)


def estimate(
    name: str,
    statistic: Callable[[Numbers], float],
    strata: Sequence[Numbers],
    *,
    ideal: float | None = None,
    seed: int = 0,
) -> Estimate:
    """Return the statistic of all rows with its interval; rows are drawn again within each stratum.

    `strata` are row numbers, for instance of the two groups whose difference the statistic is. The p-value is not
    corrected yet: `corrected` does that for all estimates of a suite.
    """
    rows = np.concatenate(list(strata))
    count = min(len(stratum) for stratum in strata)
    _require_rows(name, count)
    samples = bootstrap(len(rows), lambda some: {name: statistic(some)}, strata=strata, seed=seed, draws=DRAWS)[name]
    return _from_samples(name, statistic(rows), samples, count, ideal)


def mean_estimate(name: str, values: Numbers, *, ideal: float | None = None, seed: int = 0) -> Estimate:
    """Return the mean of values with its interval."""
    _require_rows(name, len(values))
    samples = mean_samples(values, seed=seed, draws=DRAWS)
    return _from_samples(name, float(values.mean()), samples, len(values), ideal)


def difference_estimate(
    name: str, first: Numbers, second: Numbers, *, ideal: float | None = 0.0, seed: int = 0
) -> Estimate:
    """Return the difference of two means, first minus second, with its interval."""
    count = min(len(first), len(second))
    _require_rows(name, count)
    samples = mean_samples(first, seed=seed, draws=DRAWS) - mean_samples(second, seed=seed + 1, draws=DRAWS)
    return _from_samples(name, float(first.mean() - second.mean()), samples, count, ideal)


def _require_rows(name: str, count: int) -> None:
    if not count:
        raise ValueError(f"{name}: a group has no rows, so there is nothing to estimate")


def _from_samples(name: str, value: float, samples: Numbers, count: int, ideal: float | None) -> Estimate:
    """Return the estimate; `count` is the number of rows of the smallest group."""
    low, high = interval(samples, count)
    tested = None if ideal is None or count < MIN_ROWS else p_value(samples, ideal)
    return Estimate(name=name, value=value, low=low, high=high, ideal=ideal, count=count, p_value=tested)


def corrected(estimates: Iterable[Estimate]) -> tuple[Estimate, ...]:
    """Return the estimates of a suite with p-values that are corrected for their number (Holm 1979)."""
    estimates = tuple(estimates)
    p_values = holm({str(i): e.p_value for i, e in enumerate(estimates) if e.p_value is not None})
    return tuple(replace(e, p_value=p_values.get(str(i))) for i, e in enumerate(estimates))
