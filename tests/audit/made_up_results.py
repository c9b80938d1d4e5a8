"""Results of an audit with every kind of estimate, and with texts that would be code on a page."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from clearhead.audit.estimates import AuditedExample, Estimate, SuiteResult
from clearhead.audit.head_effects import AblatedHead, HeadEffects

HOSTILE = '<script>alert("a")</script>'
CLEAR = Estimate(name="flagged", value=71.0, low=64.0, high=78.0, ideal=50.0, count=140, p_value=0.0004)
NEAR = Estimate(name="near the mark", value=51.0, low=45.0, high=57.0, ideal=50.0, count=140, p_value=1.0)
SMALL = Estimate(name="small", value=80.0, low=50.0, high=99.0, ideal=50.0, count=5)
EXACT = Estimate(name="exact", value=90.0, low=60.0, high=99.0, ideal=50.0, count=5, p_value=0.012)
OTHER = Estimate(name="share", value=3.0, low=2.0, high=4.0, ideal=None, count=140)
RESULT = SuiteResult(
    suite="crows_pairs", title="Sentence pairs", method="What is measured.", unit="%",
    estimates=(CLEAR, NEAR, SMALL, EXACT, OTHER),
    examples=tuple(
        AuditedExample(texts=(f"first {i}", f"second {i}"), effect=float((-1) ** i * i), group="age") for i in range(60)
    ),
    notes=("a note",), version="7", sha256="ab" * 32, seed=3,
)  # fmt: skip


def hostile(result: SuiteResult) -> SuiteResult:
    """Return the result with code in every text that comes from data or from a model."""
    example = AuditedExample(texts=(HOSTILE, HOSTILE), effect=1.0, group=HOSTILE)
    estimates = [replace(e, name=HOSTILE + "$x$ [bold]") for e in result.estimates]
    return replace(
        result, title=HOSTILE, method=HOSTILE, unit=HOSTILE, estimates=tuple(estimates), examples=(example,),
        notes=(HOSTILE,), suite=HOSTILE, version=HOSTILE,
    )  # fmt: skip


def head(layer: str, number: int, by_pair: list[float], likelihood: float = -0.5) -> AblatedHead:
    mean = float(np.mean(by_pair))
    change = Estimate(
        name=f"{layer} head {number}", value=mean, low=mean - 1, high=mean + 1, ideal=0.0, count=len(by_pair)
    )
    return AblatedHead(layer=layer, head=number, change=change, likelihood=likelihood, by_pair=tuple(by_pair))


def heads_on(pairs: list[AuditedExample], heads: list[AblatedHead]) -> HeadEffects:
    total = Estimate(name="all heads", value=2.5, low=2.0, high=3.0, ideal=None, count=len(pairs))
    return HeadEffects(pairs=tuple(pairs), heads=tuple(heads), total=total)
