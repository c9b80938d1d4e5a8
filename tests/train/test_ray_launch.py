"""Processes on a Ray cluster train the same run, and go on from a checkpoint when a machine is lost."""

from __future__ import annotations

import builtins
import importlib.util
import pickle
import signal
import sys
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
import yaml

from clearhead.distributed import Distributed
from clearhead.train import make_recipe, prepare, train
from clearhead.train.launch import launch
from clearhead.train.rank import RankConfig, RankFailed
from clearhead.train.ray_launch import _failure, ray_processes
from clearhead.train.verify_resume import _compare
from tests.distributed.kill import Watched
from tests.distributed.tiny import tiny
from tests.distributed.together import together

STEPS = 60
END = 300.0  # seconds for the rest of a run, with a new machine


# What needs no cluster


def test_without_ray_the_extra_is_named(monkeypatch, tmp_path):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ValueError, match=r"--on ray needs ray: pip install 'clearhead\[cluster\]'"):
        ray_processes(RankConfig(make_recipe(tiny(tmp_path)), tmp_path, tmp_path / "run"), 2)


def test_an_error_of_a_process_ends_the_run_and_a_lost_machine_does_not(tmp_path):
    """Ray wraps what a process raised in a class of its own, which hides it."""
    exceptions = pytest.importorskip("ray.train.v2._internal.exceptions")
    raised = pickle.loads(pickle.dumps(exceptions.UserExceptionWithTraceback(RankFailed(3), "Traceback ...")))
    assert _failure(raised).exit_code == 3
    lost = _failure(builtins.ConnectionError("the machine is gone"))
    assert lost.exit_code < 0
    from clearhead.distributed.torch_private import LaunchResult

    ends = iter([LaunchResult(None, {1: lost}), LaunchResult(None, {0: _failure(raised)})])
    said: list[str] = []
    assert launch(lambda: next(ends), tmp_path, said.append) == 3
    assert said == ["rank 1 was ended by ConnectionError; resuming from the beginning"]


# On a cluster


class Machines:
    """A Ray cluster of nodes with one CPU each, in processes on this machine."""

    def __init__(self) -> None:
        from ray.cluster_utils import Cluster

        self.cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
        self.second = self.cluster.add_node(num_cpus=1)

    def lose_one(self) -> None:
        self.cluster.remove_node(self.second, allow_graceful=False)

    def add_one(self) -> None:
        self.second = self.cluster.add_node(num_cpus=1)


@pytest.fixture
def machines(monkeypatch) -> Generator[Machines]:
    pytest.importorskip("ray.train")
    monkeypatch.setenv("RAY_raylet_start_wait_time_s", "180")  # other work takes both cores
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    made = Machines()
    monkeypatch.setenv("RAY_ADDRESS", made.cluster.address)
    yield made
    made.cluster.shutdown()


@pytest.fixture
def run(tmp_path) -> Watched:
    values = tiny(tmp_path, steps=STEPS, save_every=4, evaluate_every=20)
    values["model"]["dropout"] = 0.1
    (tmp_path / "recipe.yaml").write_text(yaml.safe_dump(values))
    words = ["-m", "clearhead.cli", "train", "recipe.yaml", "--out", "torn", "--on", "ray", "--processes", "2"]
    return Watched(tmp_path, tmp_path / "torn", [sys.executable, *words, "--device", "cpu"])


def left_alone(ranks: Distributed, values: dict[str, Any], base: Path, folder: Path) -> None:
    train(prepare(make_recipe(values), base, folder), ranks, shown=False)


def check_end(run: Watched) -> None:
    """It came to its end, and is equal to the bit to a run of two processes without Ray."""
    assert run.process.wait(END) == 0, run.said()
    values = yaml.safe_load((run.base / "recipe.yaml").read_text())
    expected = prepare(make_recipe(values), run.base, run.base / "whole")
    together(2, left_alone, values, run.base, run.base / "whole")
    for check in _compare(expected, expected.folder, run.folder):
        assert check.difference is None, f"{check.what}: {check.difference}"


@pytest.mark.slow
def test_a_machine_that_is_lost_changes_nothing(machines, run):
    run.start()
    assert run.until(lambda: run.step() >= 15), run.said()
    machines.lose_one()
    machines.add_one()
    check_end(run)
    assert "resuming from step-" in run.said()


@pytest.mark.slow
def test_after_ctrl_c_the_same_command_goes_on(machines, run):
    run.start()
    assert run.until(lambda: run.step() >= 15), run.said()
    run.process.send_signal(signal.SIGINT)
    assert run.process.wait(60) == 128 + signal.SIGINT
    run.start()
    check_end(run)
