"""Metrics against scikit-learn's and scipy's, and the ranges they lie in."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clearhead.metrics import evaluation as metrics

pytest.importorskip("sklearn")
from scipy.stats import pearsonr, spearmanr
from sklearn.metrics import accuracy_score, f1_score

ZERO: dict[str, Any] = {"zero_division": 0}


@given(st.integers(2, 5), st.data())
def test_one_label(count, data):
    rows = data.draw(st.lists(st.tuples(*[st.integers(0, count - 1)] * 2), min_size=1, max_size=40))
    due, said = np.array(rows).T
    found = metrics.single_label_metrics(due, said, count)
    assert found["accuracy"] == pytest.approx(100 * accuracy_score(due, said))
    macro = 100 * f1_score(due, said, average="macro", **ZERO)
    assert found["macro_f1"] == pytest.approx(macro)
    one = 100 * f1_score(due, said, labels=[1], average="macro", **ZERO)
    assert found["f1"] == pytest.approx(one if count == 2 else macro)


@given(st.data())
def test_several_labels(data):
    size = data.draw(st.integers(1, 30)), data.draw(st.integers(2, 4))
    draw = np.random.default_rng(data.draw(st.integers(0, 999)))
    due, said = (draw.random(size) < 0.4 for _ in range(2))
    found = metrics.multi_label_metrics(due, said)
    assert found["micro_f1"] == pytest.approx(100 * f1_score(due, said, average="micro", **ZERO))
    met = [i for i in range(size[1]) if (due[:, i] | said[:, i]).any()]
    want = f1_score(due, said, average="macro", labels=met, **ZERO) if met else 0.0
    assert found["macro_f1"] == pytest.approx(100 * want)
    assert found["exact"] == pytest.approx(100 * accuracy_score(due, said))


@given(st.lists(st.tuples(st.integers(-9, 9), st.integers(-9, 9)), min_size=3, max_size=30))
def test_numbers(rows):
    due, said = np.array(rows, dtype=float).T
    found = metrics.regression_metrics(due, said)
    if len(set(due)) > 1 and len(set(said)) > 1:
        rank: Any = spearmanr(due, said)
        line: Any = pearsonr(due, said)
        assert found["spearman"] == pytest.approx(100 * rank.statistic, abs=1e-9)
        assert found["pearson"] == pytest.approx(100 * line.statistic, abs=1e-9)
    else:
        assert found["spearman"] == found["pearson"] == 0.0
    assert found["rmse"] == pytest.approx(np.sqrt(((due - said) ** 2).mean()))


def test_the_range_of_a_share_is_that_of_the_binomial():
    right = np.arange(400) < 300
    judged = metrics.Evaluation(400, lambda some: {"accuracy": 100 * float(right[some].mean())})
    assert judged.scores() == {"accuracy": 75.0}
    low, high = judged.intervals()["accuracy"]
    sigma = 100 * np.sqrt(0.75 * 0.25 / 400)
    assert low == pytest.approx(75 - 1.96 * sigma, abs=0.6) and high == pytest.approx(75 + 1.96 * sigma, abs=0.6)
    assert judged.intervals() == judged.intervals(), "the same rows, the same range"


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 20)), min_size=1, max_size=30))
def test_no_threshold_is_better(rows):
    due = np.array([d for d, _ in rows])
    scores = np.array([s / 20 for _, s in rows])
    best = metrics.best_threshold(due, scores)

    def f1(limit: float) -> float:
        return f1_score(due, scores >= limit, **ZERO)

    if due.any():
        assert f1(best) == pytest.approx(max(f1(limit) for limit in np.unique(scores)))
    else:
        assert best == 0.5
