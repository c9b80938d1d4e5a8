"""Spread: several runs that differ by their seed as a mean, and the interval that the true mean is in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt
from statistics import mean, stdev

from clearhead.see import Curve

STUDENT = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262)  # two-sided, 95 %, from 1 degree of freedom


@dataclass(frozen=True)
class Spread:
    """Scores of several seeds."""

    scores: tuple[float, ...]

    @property
    def mean(self) -> float:
        return mean(self.scores)

    @property
    def half(self) -> float:
        """Half of the 95 % interval of the mean, by Student's t; 0 for a single run, of which nothing is known."""
        if len(self.scores) < 2:
            return 0.0
        return STUDENT[min(len(self.scores) - 2, len(STUDENT) - 1)] * stdev(self.scores) / sqrt(len(self.scores))

    @property
    def low(self) -> float:
        return self.mean - self.half

    @property
    def high(self) -> float:
        return self.mean + self.half

    @property
    def short(self) -> str:
        """For a narrow table."""
        return str(self).replace(" ", "")

    def __str__(self) -> str:
        return f"{self.mean:.1f} ± {self.half:.1f}" if len(self.scores) > 1 else f"{self.mean:.1f}"


def band(label: str, x: Sequence[float], spreads: Sequence[Spread]) -> Curve:
    """The means as a line, and their intervals around it."""
    return Curve(label, x, [s.mean for s in spreads], [s.low for s in spreads], [s.high for s in spreads])


def spread(scores: Sequence[float]) -> Spread:
    """Scores, to two digits behind the point."""
    return Spread(tuple(round(score, 2) for score in scores))
