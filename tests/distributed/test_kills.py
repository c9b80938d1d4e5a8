"""A run of two processes whose workers crash, leave or freeze comes to the same end as one that is left alone."""

from __future__ import annotations

import random
import signal
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import psutil
import pytest
import yaml

from clearhead.distributed import Distributed
from clearhead.train import TrainingRun, make_recipe, prepare, train
from clearhead.train.verify_resume import _compare
from tests.distributed.kill import KINDS, Hit, Watched, command, hit
from tests.distributed.tiny import tiny
from tests.distributed.together import together

KILLS = 20  # of each kind
SHORT, LONG = 40, 260  # steps: enough for one fault, and for so many
FROZEN = 30.0  # seconds within which an attempt ends that has a frozen process


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> Callable[[int], tuple[Path, TrainingRun]]:
    """A run of so many steps that was left alone, made once: its recipe, and the run."""
    base = tmp_path_factory.mktemp("whole")

    @cache
    def make(steps: int) -> tuple[Path, TrainingRun]:
        values = tiny(base, steps=steps, save_every=4, evaluate_every=20, average=3)
        values["model"]["dropout"] = 0.1
        recipe, folder = base / f"{steps}.yaml", base / f"{steps}"
        recipe.write_text(yaml.safe_dump(values))
        prepare(make_recipe(values), base, folder)
        together(2, left_alone, values, base, folder)
        return recipe, prepare(make_recipe(values), base, folder)

    return make


def left_alone(ranks: Distributed, values: dict[str, Any], base: Path, folder: Path) -> None:
    train(prepare(make_recipe(values), base, folder), ranks, shown=False)


@pytest.fixture
def begin(whole, tmp_path) -> Callable[[int], Watched]:
    """A run of so many steps that is started."""

    def start(steps: int) -> Watched:
        recipe, _ = whole(steps)
        run = Watched(tmp_path, tmp_path / "torn", command(recipe, tmp_path / "torn", 2))
        run.start()
        return run

    return start


def check_end(run: Watched, whole: tuple[Path, TrainingRun]) -> None:
    """It came to its end, and everything is equal to the bit."""
    assert run.process.wait(180) == 0, run.said()
    _, expected = whole
    for check in _compare(expected, expected.folder, run.folder):
        assert check.difference is None, f"{check.what}: {check.difference}"


def test_a_crash_changes_nothing(begin, whole):
    run = begin(SHORT)
    assert isinstance(hit(run, "segfault", random.Random(1)), Hit), run.said()
    check_end(run, whole(SHORT))
    assert "was ended by SIGSEGV" in run.said() and "resuming from step-" in run.said()
    assert "Traceback" not in run.said()


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_many_faults_change_nothing(kind, begin, whole):
    run, chance, hits = begin(LONG), random.Random(kind), list[Hit]()
    while len(hits) < KILLS and (done := hit(run, kind, chance)):
        hits.append(done)
    check_end(run, whole(LONG))
    print(f"{kind}: {len(hits)} times; ended after {max(h.ended for h in hits):.1f} s at most, "
          f"on its way again after {max(h.resumed for h in hits):.1f} s")  # fmt: skip
    assert len(hits) == KILLS
    assert max(h.ended for h in hits) < FROZEN


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_run_that_is_asked_to_stop_leaves_a_checkpoint_and_goes_on(number, begin, whole):
    run = begin(LONG)
    assert run.until(lambda: run.step() >= 33)
    run.process.send_signal(number)
    assert run.process.wait(60) == 128 + number
    assert run.saved() == f"step-{run.step():08d}"
    assert "a checkpoint is saved" in run.said() and "Traceback" not in run.said()
    run.start()
    check_end(run, whole(LONG))


@pytest.mark.slow
def test_workers_do_not_outlive_their_launcher(begin, whole):
    run = begin(LONG)
    assert run.until(lambda: run.step() >= 5)
    workers = run.workers()
    run.process.kill()
    run.process.wait()
    gone, alive = psutil.wait_procs(workers, timeout=10)
    assert len(gone) == 2 and not alive
    run.start()
    check_end(run, whole(LONG))
