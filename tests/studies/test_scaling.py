"""Scaling: a law that is known is found again, with its uncertainty; the study runs end to end."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from clearhead.studies import scaling
from clearhead.studies.scaling import ScalingPoint, fitted


def made(noise: float, seed: int = 0) -> list[ScalingPoint]:
    draw = np.random.default_rng(seed)
    points = []
    for size in (1e4, 1e5, 1e6, 1e7):
        for tokens in (1e5, 1e6, 1e7, 1e8):
            loss = 1.7 + 400 / size**0.6 + 150 / tokens**0.35
            points.append(
                ScalingPoint(int(size), int(tokens), 6 * size * tokens, loss * float(np.exp(noise * draw.normal())))
            )
    return points


def test_a_known_law_is_found_again():
    points = made(0.0)
    law, losses = fitted(points, draws=5)
    assert law.E.value == pytest.approx(1.7, rel=0.02) and law.error < 1e-3
    assert law.a.value == pytest.approx(0.6, rel=0.03) and law.b.value == pytest.approx(0.35, rel=0.03)
    assert [v.value for v in losses] == pytest.approx([p.loss for p in points], rel=2e-3)


def test_the_interval_holds_what_is_true_and_grows_with_noise():
    (quiet, near), (loud, far) = fitted(made(0.002, 1), draws=24), fitted(made(0.03, 1), draws=24)
    assert quiet.b.low <= 0.35 <= quiet.b.high
    assert loud.b.high - loud.b.low > 2 * (quiet.b.high - quiet.b.low)
    assert quiet.E.low <= quiet.E.value <= quiet.E.high
    held = [v.low <= p.loss <= v.high for v, p in zip(near, made(0.0), strict=True)]
    assert sum(held) >= 13  # of 16: the truth behind the noise
    assert sum(v.high - v.low for v in far) > 2 * sum(v.high - v.low for v in near)


@pytest.mark.slow
def test_the_study_end_to_end(tmp_path):
    torch.set_num_threads(1)
    (tmp_path / "text.txt").write_text("".join(f"Line {n} says that {n} is {n * n}.\n" for n in range(600)))
    given = {"text": ("text.txt",), "base": tmp_path, "validation_rows": 30, "widths": (16, 32), "vocab_size": 290}
    measured = scaling.measure(tmp_path / "runs", tokens=(1000, 2000, 3000), batch_tokens=256, **given)
    assert len(measured.points) == 6 and len({p.parameters for p in measured.points}) == 2
    for p, law in zip(measured.points, measured.by_law, strict=True):
        assert p.compute > 6 * p.parameters * p.tokens
        assert law.value == pytest.approx(p.loss, rel=0.25)
    assert scaling.measure(tmp_path / "runs", tokens=(1000, 2000, 3000), batch_tokens=256, **given) == measured
    tokens, parameters, compute = scaling.draw(measured).axes
    assert len(tokens.lines) == 2 and len(parameters.lines) == 3 and len(compute.lines) == 2
