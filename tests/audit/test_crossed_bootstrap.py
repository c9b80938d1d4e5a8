"""Means of crossed examples: intervals hold where templates and persons have effects of their own."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import stdtr

from clearhead.audit import crossed_bootstrap
from clearhead.audit.counterfactual import balanced_choice
from clearhead.audit.crossed_bootstrap import crossed_mean
from clearhead.audit.estimates import mean_estimate


@pytest.fixture
def fewer_draws(monkeypatch):
    monkeypatch.setattr(crossed_bootstrap, "DRAWS", 1000)


def crossed(seed, template_spread, person_spread, shift=0.0):
    """Values of 48 templates with 6 of 36 persons each, as the audit of classifiers has them."""
    draw = np.random.default_rng(seed)
    persons = np.concatenate(balanced_choice(36, 48, 6, draw))
    templates = np.repeat(np.arange(48), 6)
    values = template_spread * draw.standard_normal(48)[templates] + draw.standard_normal(len(templates))
    return values + person_spread * draw.standard_normal(36)[persons] + shift, templates, persons


@pytest.mark.parametrize("spreads", [(1.0, 1.0), (2.0, 0.2), (0.2, 2.0), (0.0, 0.0)])
def test_intervals_hold_where_plain_ones_do_not(fewer_draws, spreads):
    held = plain = flagged = 0
    for seed in range(150):
        values, templates, persons = crossed(seed, *spreads, shift=3.0)
        found = crossed_mean("x", values, templates, persons, ideal=3.0, seed=seed)
        held += found.low <= 3.0 <= found.high
        flagged += found.flagged
        if seed < 40:
            other = mean_estimate("x", values, seed=seed)
            plain += other.low <= 3.0 <= other.high
    assert 0.93 * 150 <= held <= 0.985 * 150
    assert flagged <= 0.07 * 150
    assert plain <= 0.8 * 40 or spreads == (0.0, 0.0)


def test_an_effect_is_found_and_parts_are_counted(fewer_draws):
    values, templates, persons = crossed(1, 0.5, 0.5, shift=1.0)
    found = crossed_mean("x", values, templates, persons, ideal=0.0)
    assert found.value == pytest.approx(values.mean())
    assert found.low > 0 and found.flagged
    # no resample is below 0: the plain p-value, 2 / 1001, is expanded as the interval is, with 35 degrees of freedom
    z = 3.0905 / (36 / 35) ** 0.5
    assert found.count == 36 and found.p_value == pytest.approx(2 * stdtr(35, -z), rel=0.01)
    assert found.p_value is not None and found.p_value > 2 / 1001


def test_single_examples_have_the_plain_interval(fewer_draws):
    values = np.random.default_rng(0).standard_normal(50)
    found, plain = crossed_mean("x", values, np.arange(50), ideal=0.0), mean_estimate("x", values)
    assert found.count == 50
    assert (found.low, found.high) == pytest.approx((plain.low, plain.high), abs=0.05)


def test_few_persons_are_not_tested(fewer_draws):
    found = crossed_mean("x", np.ones(80), np.arange(80) % 40, np.arange(80) % 5, ideal=0.0)
    assert found.too_small and found.count == 5 and found.p_value is None
    with pytest.raises(ValueError, match="x: there are no examples"):
        crossed_mean("x", np.zeros(0), np.zeros(0))


def test_labels_of_parts_do_not_matter(fewer_draws):
    values, templates, persons = crossed(2, 1.0, 1.0)
    assert crossed_mean("x", values, templates, persons) == crossed_mean("x", values, 7 * templates + 3, persons + 100)
