"""A run of two processes whose workers crash, leave or freeze comes to the same end as one that is left alone."""

from __future__ import annotations

import random
import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from clearhead.train import make_recipe, prepare, train
from clearhead.train.prove import _compare
from clearhead.train.ranks import Ranks
from tests.distributed.kill import KINDS, Hit, Watched, command, hit
from tests.distributed.tiny import tiny
from tests.distributed.together import together

KILLS = 20  # of each kind
STEPS = 900  # enough for so many, at 20 steps each
FROZEN = 30.0  # seconds within which an attempt ends that has a frozen process


def settings(base: Path, steps: int) -> dict[str, Any]:
    values = tiny(base, steps=steps, save_every=10, evaluate_every=50, average=3)
    values["model"]["dropout"] = 0.1
    return values


def undisturbed(ranks: Ranks, values: dict[str, Any], base: Path, folder: Path) -> None:
    train(prepare(make_recipe(values), base, folder), ranks, shown=False)


@pytest.fixture
def begin(tmp_path) -> Callable[[int], Watched]:
    """A run of so many steps that is started, beside one that was left alone."""

    def start(steps: int) -> Watched:
        values = settings(tmp_path, steps)
        (tmp_path / "recipe.yaml").write_text(yaml.safe_dump(values))
        prepare(make_recipe(values), tmp_path, tmp_path / "whole")
        shutil.copytree(tmp_path / "whole", tmp_path / "torn")
        together(2, undisturbed, values, tmp_path, tmp_path / "whole")
        run = Watched(tmp_path, tmp_path / "torn", command("recipe.yaml", tmp_path / "torn", 2))
        run.start()
        return run

    return start


def check_end(run: Watched, steps: int) -> None:
    """It came to its end, and everything is equal to the bit."""
    assert run.process.wait(180) == 0, run.said()
    prepared = prepare(make_recipe(settings(run.base, steps)), run.base, run.base / "whole")
    for check in _compare(prepared, run.base / "whole", run.folder):
        assert check.difference is None, f"{check.what}: {check.difference}"


def test_a_crash_changes_nothing(begin):
    run = begin(60)
    assert isinstance(hit(run, "segfault", random.Random(1)), Hit), run.said()
    check_end(run, 60)
    assert "was ended by SIGSEGV" in run.said() and "going on from step-" in run.said()
    assert "Traceback" not in run.said()


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_many_faults_change_nothing(kind, begin):
    run, chance, hits = begin(STEPS), random.Random(kind), list[Hit]()
    while len(hits) < KILLS and (done := hit(run, kind, chance)):
        hits.append(done)
    check_end(run, STEPS)
    print(f"{kind}: {len(hits)} times; ended after {max(h.ended for h in hits):.1f} s at most, "
          f"on its way again after {max(h.resumed for h in hits):.1f} s")  # fmt: skip
    assert len(hits) == KILLS
    assert max(h.ended for h in hits) < FROZEN


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_run_that_is_asked_to_stop_leaves_a_checkpoint_and_goes_on(number, begin):
    run = begin(STEPS)
    assert run.until(lambda: run.step() >= 33)
    run.process.send_signal(number)
    assert run.process.wait(60) == 128 + number
    assert run.saved() == f"step-{run.step():08d}"
    assert "a checkpoint is written" in run.said() and "Traceback" not in run.said()
    run.start()
    check_end(run, STEPS)
