"""What was fitted to an index on questions with known answers: the fusion, and what its probabilities are worth."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Self

import numpy as np

from clearhead.metrics.calibration import Calibration

SHARES = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)


@dataclass(frozen=True)
class CoveragePoint:
    """If this share of the questions is answered, the surest first, so many answers are right."""

    coverage: float
    precision: float
    threshold: float  # the lowest probability among them


@dataclass(frozen=True, kw_only=True)
class ReaderCalibration:
    """How the scores of one reader become the probability that an answer is right."""

    reader: str  # fingerprint
    relevance_weight: float
    rank_weight: float = 0.0
    calibration: Calibration
    threshold: float  # less probable answers are held back
    curve: tuple[CoveragePoint, ...] = ()


@dataclass(frozen=True, kw_only=True)
class IndexCalibration:
    """What `clearhead calibrate` fitted; it is kept with the index."""

    questions: int
    vector_weight: float = 0.5  # of the vectors in the fusion; that of the words is the rest
    readers: tuple[ReaderCalibration, ...] = field(default_factory=tuple)

    def of(self, reader: str) -> ReaderCalibration | None:
        """Return the calibration of the reader with this fingerprint; None if it has none."""
        return next((one for one in self.readers if one.reader == reader), None)

    def to_dict(self) -> dict[str, Any]:
        """The calibration as JSON values."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """The calibration that JSON values describe."""
        readers = tuple(
            ReaderCalibration(
                reader=one["reader"], relevance_weight=one["relevance_weight"],
                rank_weight=one.get("rank_weight", 0.0), threshold=one["threshold"],
                calibration=Calibration(tuple(one["calibration"]["weights"]), one["calibration"]["bias"]),
                curve=tuple(CoveragePoint(**point) for point in one["curve"]),
            )
            for one in values["readers"]
        )  # fmt: skip
        return cls(questions=values["questions"], vector_weight=values["vector_weight"], readers=readers)


def coverage_curve(probabilities: Sequence[float], right: Sequence[float]) -> tuple[CoveragePoint, ...]:
    """Return the precision at each share of the questions, the most probable answers first."""
    p, r = np.asarray(probabilities, float), np.asarray(right, float)
    order = np.argsort(-p, kind="stable")
    counts = [max(1, round(share * len(p))) for share in SHARES] if len(p) else []
    return tuple(
        CoveragePoint(share, float(r[order[:count]].mean()), float(p[order[count - 1]]))
        for share, count in zip(SHARES, counts, strict=False)
    )


def threshold_for(probabilities: Sequence[float], right: Sequence[float], precision: float) -> float:
    """Return the lowest probability from which on this share of the answers is right; 1 where there is none."""
    p, r = np.asarray(probabilities, float), np.asarray(right, float)
    order = np.argsort(-p, kind="stable")
    shares = np.cumsum(r[order]) / np.arange(1, len(p) + 1)
    good = np.flatnonzero(shares >= precision)
    return float(p[order[good[-1]]]) if len(good) else 1.0
