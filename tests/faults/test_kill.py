"""RELIABILITY 1: killed by SIGKILL anywhere, a run goes on to the same bits."""

from __future__ import annotations

import time
from collections import Counter

import pytest

from clearhead.train.verify_resume import prove, shortened
from tests.train.tiny import recipe, texts


@pytest.mark.parametrize("kills", [6, pytest.param(200, marks=pytest.mark.slow)])
def test_a_run_that_is_killed_goes_on_to_the_same_bits(tmp_path, kills, capsys):
    texts(tmp_path)
    begin: list[float] = []
    proof = prove(
        shortened(recipe(average=2), 24),
        tmp_path,
        tmp_path,
        kills=kills,
        seed=7,
        on_progress=lambda event: begin.append(time.monotonic()),
    )
    assert proof.holds, proof.checks
    assert len(proof.kills) == kills
    moments = Counter(kill.moment for kill in proof.kills)
    assert kills < 50 or (min(moments.values()) > kills / 6 and len(moments) == 3)
    with capsys.disabled():
        each = (time.monotonic() - begin[1]) / (kills - 1)
        print(f"\n{kills} kills {dict(moments)}, {proof.runs} runs, {each:.2f} s each")
