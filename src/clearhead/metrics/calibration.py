"""Calibration: from scores to the probability that an answer is right."""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

MIN_ROWS = 20  # of each outcome: with fewer, nothing is fitted


@dataclass(frozen=True)
class Calibration:
    """A logistic regression; the default returns the probability whose log-odds are the first feature."""

    weights: tuple[float, ...] = (1.0,)
    bias: float = 0.0

    def probability(self, features: Sequence[float]) -> float:
        """Return the probability for these features; those beyond the weights are not read."""
        z = self.bias + sum(w * x for w, x in zip(self.weights, features, strict=False))
        return 1 / (1 + math.exp(-z)) if z >= 0 else math.exp(z) / (1 + math.exp(z))

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def fit_calibration(features: Sequence[Sequence[float]], right: Sequence[float]) -> Calibration:
    """Fit the probability that an answer is right; the default where too few answers are right or wrong."""
    from sklearn.linear_model import LogisticRegression

    outcomes = np.asarray(right, dtype=bool)
    if min(outcomes.sum(), (~outcomes).sum()) < MIN_ROWS:
        return Calibration()
    fitted = LogisticRegression(C=1.0, max_iter=1000).fit(np.asarray(features), outcomes)
    return Calibration(tuple(float(w) for w in fitted.coef_[0]), float(fitted.intercept_[0]))
