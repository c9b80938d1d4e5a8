"""Bootstrap confidence intervals (Efron 1979), and p-values corrected for several comparisons (Holm 1979)."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from math import sqrt
from typing import Any

import numpy as np
import numpy.typing as npt

Numbers = npt.NDArray[Any]
Measure = Callable[[Numbers], dict[str, float]]
"""Returns the metrics of the rows with these numbers."""

NUM_SAMPLES = 1000
LEVEL = 0.95
BLOCK_VALUES = 1 << 20  # that are drawn at once


def resamples(strata: Sequence[Numbers], draws: int, seed: int) -> Iterator[Numbers]:
    """Yield samples of row numbers with replacement: of each stratum as many rows as it has."""
    draw = np.random.default_rng(seed)
    for _ in range(draws):
        yield np.concatenate([rows[draw.integers(len(rows), size=len(rows))] for rows in strata])


def bootstrap(
    count: int, measure: Measure, *, strata: Sequence[Numbers] | None = None, seed: int = 0, draws: int = NUM_SAMPLES
) -> dict[str, Numbers]:
    """Return each metric of `draws` resamples of the rows; rows of a stratum are replaced by rows of it only."""
    samples: dict[str, list[float]] = {}
    strata = [np.arange(count)] if strata is None else strata
    for rows in resamples(strata, draws if count else 0, seed):
        for name, value in measure(rows).items():
            samples.setdefault(name, []).append(value)
    return {name: np.array(values) for name, values in samples.items()}


def mean_samples(values: Numbers, *, seed: int = 0, draws: int = NUM_SAMPLES) -> Numbers:
    """Return the means of resamples of the values, (draws,): `bootstrap` of a mean, computed in blocks."""
    draw, count = np.random.default_rng(seed), len(values)
    block = max(1, BLOCK_VALUES // count)
    sizes = [min(block, draws - first) for first in range(0, draws, block)]
    return np.concatenate([values[draw.integers(count, size=(size, count))].mean(1) for size in sizes])


def interval(samples: Numbers, count: int, level: float = LEVEL) -> tuple[float, float]:
    """Return the expanded percentile interval (Hesterberg 2015, section 5.3): plain percentiles are too narrow.

    `count` is the number of rows behind a sample, of the smallest stratum where there are several.
    """
    from scipy.special import ndtr, stdtrit

    if count < 2:
        return float(samples.min()), float(samples.max())
    outside = float(ndtr(sqrt(count / (count - 1)) * stdtrit(count - 1, (1 - level) / 2)))
    low, high = np.percentile(samples, [100 * outside, 100 * (1 - outside)]).tolist()
    return low, high


def p_value(samples: Numbers, null: float) -> float:
    """Return the two-sided p-value of a value: the level at which the percentile interval begins to contain it."""
    below, above = int((samples <= null).sum()), int((samples >= null).sum())
    return min(1.0, 2 * (min(below, above) + 1) / (len(samples) + 1))


def holm(p_values: Mapping[str, float]) -> dict[str, float]:
    """Return the p-values corrected so that the chance of any false alarm is at most the level (Holm 1979)."""
    corrected: dict[str, float] = {}
    largest = 0.0
    for rank, name in enumerate(sorted(p_values, key=lambda name: p_values[name])):
        largest = max(largest, min(1.0, (len(p_values) - rank) * p_values[name]))
        corrected[name] = largest
    return {name: corrected[name] for name in p_values}
