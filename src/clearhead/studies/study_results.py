"""Results of studies: the mean of several seeds with its 95 % confidence interval, and the JSON record of a study."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from importlib import metadata
from math import sqrt
from pathlib import Path
from statistics import mean, stdev
from typing import TYPE_CHECKING, Any

import torch

from clearhead.files import write_atomic
from clearhead.viz import Curve

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

# two-sided, 95 %, from 1 degree of freedom
STUDENT_T = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262)


@dataclass(frozen=True)
class MeanInterval:
    """Scores of several seeds, with their mean and its 95 % confidence interval."""

    scores: tuple[float, ...]

    @property
    def mean(self) -> float:
        return mean(self.scores)

    @property
    def half(self) -> float:
        """Half the width of the 95 % confidence interval of the mean, by Student's t; 0 for a single run."""
        if len(self.scores) < 2:
            return 0.0
        return STUDENT_T[min(len(self.scores) - 2, len(STUDENT_T) - 1)] * stdev(self.scores) / sqrt(len(self.scores))

    @property
    def low(self) -> float:
        return self.mean - self.half

    @property
    def high(self) -> float:
        return self.mean + self.half

    @property
    def short(self) -> str:
        """The text without spaces, for narrow tables."""
        return str(self).replace(" ", "")

    def __str__(self) -> str:
        return f"{self.mean:.1f} ± {self.half:.1f}" if len(self.scores) > 1 else f"{self.mean:.1f}"


def mean_interval(scores: Sequence[float]) -> MeanInterval:
    return MeanInterval(tuple(round(score, 2) for score in scores))


def interval_curve(label: str, x: Sequence[float], intervals: Sequence[MeanInterval]) -> Curve:
    """Return a curve of the means with a band of their confidence intervals."""
    return Curve(label, x, [i.mean for i in intervals], [i.low for i in intervals], [i.high for i in intervals])


def wilson_interval(right: float, total: int) -> tuple[float, float]:
    """Return the 95 % Wilson confidence interval of a proportion, in percent."""
    z, share = 1.96, right / total
    middle = (share + z * z / (2 * total)) / (1 + z * z / total)
    half = z * sqrt(share * (1 - share) / total + z * z / (4 * total * total)) / (1 + z * z / total)
    return round(100 * (middle - half), 1), round(100 * (middle + half), 1)


def record(measured: DataclassInstance, *, command: str, seed: int, seconds: float) -> dict[str, Any]:
    """Return the results with the command, seed, duration, threads and versions that produced them."""
    return {
        "command": command,
        "seed": seed,
        "seconds": round(seconds, 1),
        "threads": torch.get_num_threads(),
        "versions": {"clearhead": metadata.version("clearhead"), "torch": torch.__version__},
        "measured": asdict(measured),
    }


def write_record(content: dict[str, Any], path: Path) -> None:
    write_atomic(path, json.dumps(content, indent=1, ensure_ascii=False) + "\n")
