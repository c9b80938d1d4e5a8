"""Estimates: a difference that is there is flagged, one that is not there rarely is."""

import numpy as np
import pytest

from clearhead.audit.estimates import MIN_ROWS, corrected, difference_estimate, estimate, mean_estimate


def coin(seed, count, chance):
    return (np.random.default_rng(seed).random(count) < chance).astype(float) * 100


def test_a_mean_with_its_interval_and_direction():
    found = mean_estimate("all", coin(0, 400, 0.62), ideal=50.0)
    assert found.low < found.value < found.high
    assert found.low > 50
    (flagged,) = corrected([found])
    assert flagged.flagged and flagged.p_value == found.p_value


def test_false_alarms_are_rare_over_all_groups():
    """Nine groups without a difference: with Holm's correction any is flagged in at most 5 of 100 audits."""
    alarms = 0
    for seed in range(100):
        groups = [mean_estimate(str(g), coin(1000 * seed + g, 80, 0.5), ideal=50.0, seed=g) for g in range(9)]
        alarms += any(e.flagged for e in corrected(groups))
    assert alarms <= 5


def test_a_difference_draws_each_group_again():
    first, second = coin(1, 50, 0.9), coin(2, 300, 0.5)
    found = difference_estimate("gap", first, second)
    assert found.value == pytest.approx(first.mean() - second.mean())
    assert found.count == 50
    assert found.low > 0
    same = difference_estimate("same", first, first).p_value
    assert same is not None and same > 0.5


def test_small_groups_are_marked_and_not_tested():
    small = mean_estimate("few", coin(3, MIN_ROWS - 1, 1.0), ideal=50.0)
    assert small.too_small and small.p_value is None and not small.flagged
    enough = mean_estimate("enough", coin(3, MIN_ROWS, 1.0), ideal=50.0)
    assert not enough.too_small and enough.flagged
    without = mean_estimate("no ideal", coin(3, 100, 0.9))
    assert without.p_value is None
    assert [e.p_value for e in corrected([small, enough, without])] == [None, enough.p_value, None]


def test_an_empty_group_is_refused_by_name():
    with pytest.raises(ValueError, match="nurses: a group has no rows"):
        estimate("nurses", lambda rows: 0.0, [np.arange(3), np.arange(0)])
