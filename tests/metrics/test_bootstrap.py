"""Bootstrap intervals hold as often as they say; Holm's correction against hand-computed values."""

import numpy as np
import pytest
from scipy.stats import t

from clearhead.metrics.bootstrap import bootstrap, holm, interval, mean_samples, p_value


def share_that_holds(make, truth, count, seeds=1500):
    hits = 0
    draw = np.random.default_rng(7)
    for seed in range(seeds):
        rows = make(draw, count)
        low, high = interval(mean_samples(rows, seed=seed), count)
        hits += low <= truth <= high
    return hits / seeds


@pytest.mark.parametrize("count", [30, 60, 200])
@pytest.mark.parametrize(
    ("make", "truth"),
    [
        (lambda draw, n: (draw.random(n) < 0.5).astype(float), 0.5),
        (lambda draw, n: (draw.random(n) < 0.7).astype(float), 0.7),
        (lambda draw, n: draw.normal(2.0, 3.0, n), 2.0),
    ],
)
def test_intervals_hold_as_often_as_they_say(make, truth, count):
    # 1,500 trials: the share has a standard deviation of 0.6 points
    assert 0.93 <= share_that_holds(make, truth, count) <= 0.97


def test_few_rows_widen_the_interval_as_student_t_does():
    samples = np.random.default_rng(0).normal(size=200_000)
    low, high = interval(samples, 10)
    assert high == pytest.approx(t.ppf(0.975, 9) * np.sqrt(10 / 9), abs=0.03)  # of normal samples with deviation 1
    assert low == pytest.approx(-high, abs=0.03)
    assert interval(samples[:5], 1) == (samples[:5].min(), samples[:5].max())


def test_means_of_resamples_are_drawn_in_blocks(monkeypatch):
    values = np.random.default_rng(1).exponential(size=50)
    samples = mean_samples(values, seed=3, draws=20_000)
    assert len(samples) == 20_000 and len(np.unique(samples)) > 19_000
    assert samples.mean() == pytest.approx(values.mean(), abs=0.005)
    assert samples.std() == pytest.approx(values.std() / np.sqrt(50), rel=0.02)
    monkeypatch.setattr("clearhead.metrics.bootstrap.BLOCK_VALUES", 64)
    assert len(mean_samples(values, draws=7)) == 7


def test_rows_stay_in_their_stratum():
    strata = [np.arange(3), np.arange(3, 10)]
    counts = bootstrap(10, lambda rows: {"first": float((rows < 3).sum())}, strata=strata, draws=50)["first"]
    assert (counts == 3).all()
    assert bootstrap(10, lambda rows: {"first": float((rows < 3).sum())}, draws=50)["first"].std() > 0
    assert bootstrap(0, lambda rows: {"first": 1.0}) == {}


def test_p_value_is_small_where_the_interval_excludes_the_value():
    samples = np.random.default_rng(0).normal(1.0, 0.25, 1999)
    assert p_value(samples, 1.0) > 0.9
    assert p_value(samples, 0.0) < 0.01
    assert p_value(samples, float(np.quantile(samples, 0.025))) == pytest.approx(0.05, abs=0.002)
    assert p_value(np.zeros(100), 0.0) == 1.0


def test_holm_by_hand():
    # sorted: 0.01 * 4, max(0.04, 0.02 * 3), max(0.06, 0.03 * 2), 0.9 * 1
    corrected = holm({"c": 0.03, "a": 0.01, "d": 0.9, "b": 0.02})
    assert corrected == pytest.approx({"c": 0.06, "a": 0.04, "d": 0.9, "b": 0.06})
    assert list(corrected) == ["c", "a", "d", "b"]
    assert holm({"only": 0.6}) == {"only": 0.6}
    assert holm({"a": 0.6, "b": 0.7}) == {"a": 1.0, "b": 1.0}
