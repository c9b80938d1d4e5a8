"""RELIABILITY 5: asked to stop at any moment, a run leaves a checkpoint within 10 seconds, and goes on from it."""

from __future__ import annotations

import os
import random
import signal
import time
from collections import Counter
from pathlib import Path

import pytest

from clearhead.files import stale_temporaries
from clearhead.train import Checkpoints
from tests.faults.command import equal, start, told, write
from tests.train.tiny import texts, values

MOMENTS = ("starting", "training", "saving", "evaluating")
SECONDS = 10.0


def steps_of(folder: Path) -> tuple[int, int]:
    """The steps and the evaluations that a log has so far."""
    log = folder / "log.jsonl"
    lines = log.read_bytes().split(b"\n")[:-1] if log.is_file() else []
    return sum(b'"loss"' in line for line in lines), sum(b'"valid_loss"' in line for line in lines)


def reached(moment: str, folder: Path, target: int, every: int) -> bool:
    steps, evaluations = steps_of(folder)
    if moment == "training":
        return steps >= target
    if moment == "evaluating":  # a step has been logged that is to be evaluated
        return steps >= target and steps // every > evaluations
    return (folder / "checkpoints").is_dir() and bool(stale_temporaries(folder / "checkpoints"))


@pytest.mark.parametrize("count", [6, pytest.param(50, marks=pytest.mark.slow)])
def test_a_run_that_is_asked_to_stop(tmp_path, count, capsys):
    texts(tmp_path, 400)
    write(tmp_path, values(steps=24, save_every=3, evaluate_every=4, average=2))
    whole = tmp_path / "whole"
    process = start(tmp_path, whole)
    process.join()
    assert process.exitcode == 0, told(tmp_path)
    chance = random.Random(count)
    moments: Counter[str] = Counter()
    worst, runs, unheard = 0.0, 0, 0
    while moments.total() < count:
        torn = tmp_path / f"torn-{runs}"
        process = start(tmp_path, torn)
        while moments.total() < count:
            moment = MOMENTS[moments.total() % 4]
            target = steps_of(torn)[0] + chance.randint(1, 4)
            if moment == "starting":
                time.sleep(chance.uniform(0.0, 1.0))
            while moment != "starting" and process.is_alive() and not reached(moment, torn, target, 4):
                time.sleep(0.001)
            time.sleep(chance.uniform(0.0, 0.02))
            if not process.is_alive():
                break
            sent = time.monotonic()
            assert process.pid is not None
            os.kill(process.pid, signal.SIGTERM)
            process.join(60)
            seconds = time.monotonic() - sent
            if process.exitcode == 0:  # it had ended just before
                break
            moments[moment] += 1
            worst = max(worst, seconds)
            # Before the loop has begun to listen, the system ends the process itself: for a shell that is 143 too.
            silent = process.exitcode == -signal.SIGTERM
            assert process.exitcode == 143 or silent, (moment, process.exitcode, told(tmp_path))
            unheard += silent
            assert seconds < SECONDS
            assert "Traceback" not in told(tmp_path)
            newest = Checkpoints(torn / "checkpoints", 3).newest()
            steps, _ = steps_of(torn)
            if not silent:
                assert "stopped after step" in told(tmp_path)
                assert newest is not None and int(newest.name[5:]) == steps, (moment, steps)
            elif moment != "starting":  # after the last step, when the model is written
                assert newest is not None and int(newest.name[5:]) == 24
            process = start(tmp_path, torn)
        process.join()
        assert process.exitcode == 0, told(tmp_path)
        assert equal(torn, whole)
        runs += 1
    with capsys.disabled():
        print(f"\n{count} SIGTERMs {dict(moments)}, {unheard} outside the loop, {runs} runs; slowest {worst:.2f} s")
