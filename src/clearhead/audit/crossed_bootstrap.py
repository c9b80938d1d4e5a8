"""Means over examples that are made of the same templates and persons, with intervals that allow for that.

Fifty templates filled with thirty persons are not 1,500 independent examples. The pigeonhole bootstrap (Owen 2007)
draws templates and persons anew, independently of each other, and counts an example as often as both of its parts are
drawn. It overstates the noise that comes from neither, so its resamples are scaled to the variance that is estimated
for two-way clusters (Cameron, Gelbach and Miller 2011).
"""

from math import sqrt

import numpy as np

from clearhead.audit.estimates import MIN_ROWS, Estimate
from clearhead.metrics.bootstrap import Numbers, interval, p_value

DRAWS = 20_000  # they limit how small a p-value is, which must be below the level after the correction
_CHUNK = 500  # draws at a time, which limits the memory


def crossed_mean(
    name: str,
    values: Numbers,
    templates: Numbers,
    persons: Numbers | None = None,
    *,
    ideal: float | None = None,
    seed: int = 0,
) -> Estimate:
    """Return the mean of values with its interval; `templates` and `persons` are the parts of which each was made.

    `count` is the number of different templates, or of persons where they are fewer. The p-value belongs to the
    interval, and is not corrected yet.
    """
    if not len(values):
        raise ValueError(f"{name}: there are no examples, so there is nothing to estimate")
    rows = np.unique(templates, return_inverse=True)[1]
    columns = np.zeros_like(rows) if persons is None else np.unique(persons, return_inverse=True)[1]
    shape = int(rows.max()) + 1, int(columns.max()) + 1
    sums, counts = np.zeros(shape), np.zeros(shape)
    np.add.at(sums, (rows, columns), values)
    np.add.at(counts, (rows, columns), 1)
    count = shape[0] if persons is None else min(shape)
    value = float(np.mean(values))
    samples = _samples(sums, counts, persons is not None, np.random.default_rng(seed))
    if persons is not None and (spread := float(samples.std())) > 0:
        samples = value + (samples - value) * (_standard_error(values - value, rows, columns) / spread)
    low, high = interval(samples, count)
    tested = None if ideal is None or count < MIN_ROWS else _expanded(p_value(samples, ideal), count)
    return Estimate(name=name, value=value, low=low, high=high, ideal=ideal, count=count, p_value=tested)


def _standard_error(residuals: Numbers, rows: Numbers, columns: Numbers) -> float:
    """Return the standard error of the mean where values of the same row and of the same column are correlated."""
    by_row, by_column = (float((np.bincount(level, residuals) ** 2).sum()) for level in (rows, columns))
    alone = float((residuals**2).sum())
    return sqrt(max(by_row + by_column - alone, by_row, by_column, alone)) / len(residuals)


def _expanded(p: float, count: int) -> float:
    """Return the level at which the expanded interval, rather than the plain one, begins to contain the value."""
    from scipy.special import ndtri, stdtr

    return 2 * float(stdtr(count - 1, ndtri(p / 2) / sqrt(count / (count - 1))))


def _samples(sums: Numbers, counts: Numbers, is_crossed: bool, draw: np.random.Generator) -> Numbers:
    """Return the means of the resamples; those without any example are left out."""
    means: list[Numbers] = []
    for _ in range(DRAWS // _CHUNK):
        rows = _times_drawn(len(sums), draw)  # (draws, templates)
        columns = _times_drawn(sums.shape[1], draw) if is_crossed else 1.0  # (draws, persons)
        totals = ((rows @ counts) * columns).sum(1)
        means.append(((rows @ sums) * columns).sum(1)[totals > 0] / totals[totals > 0])
    return np.concatenate(means)


def _times_drawn(size: int, draw: np.random.Generator) -> Numbers:
    """Return how often each of `size` parts is drawn in each resample."""
    drawn = draw.integers(size, size=(_CHUNK, size)) + size * np.arange(_CHUNK)[:, None]
    return np.bincount(drawn.ravel(), minlength=size * _CHUNK).reshape(_CHUNK, size).astype(float)
