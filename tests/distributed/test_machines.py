"""Two machines: here two of torchrun's agents on one, which know each other only by an address."""

from __future__ import annotations

import contextlib
import random
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
import yaml

from clearhead.distributed import Distributed
from clearhead.train import make_recipe, prepare, train
from clearhead.train.verify_resume import _compare
from tests.distributed.kill import Watched
from tests.distributed.tiny import tiny
from tests.distributed.together import together

STEPS = 60
EXIT = 30.0  # seconds that the agent of a machine takes to end, after a loss or after the last step
RENDEZVOUS = 120.0  # seconds to find out who is left, for which torch waits 30, and to train to the end
FROZEN = 60.0  # seconds: to notice it from another machine, and for its own agent to see that it will not leave


def left_alone(ranks: Distributed, values: dict[str, Any], base: Path, folder: Path) -> None:
    train(prepare(make_recipe(values), base, folder), ranks, shown=False)


@pytest.fixture
def machine(tmp_path) -> Iterator[Callable[..., Watched]]:
    """Starts an agent as docs/cluster.md says; none of its processes outlives the test."""
    started: list[Watched] = []

    def start(port: int, machines: str = "2") -> Watched:
        words = ["--nnodes", machines, "--nproc-per-node", "1", "--max-restarts", "10", "--rdzv-backend", "c10d"]
        words += ["--rdzv-endpoint", f"localhost:{port}", "--rdzv-id", "test", "--local-addr", "localhost"]
        words += ["-m", "clearhead.cli", "train", str(tmp_path / "recipe.yaml"), "--out", str(tmp_path / "torn")]
        run = Watched(tmp_path, tmp_path / "torn", [sys.executable, "-m", "torch.distributed.run", *words])
        run.start()
        started.append(run)
        return run

    yield start
    for run in started:
        if run.process.poll() is None:
            for process in [*psutil.Process(run.process.pid).children(recursive=True), run.process]:
                with contextlib.suppress(psutil.NoSuchProcess):
                    process.kill()
            run.process.wait()


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("localhost", 0))
        return free.getsockname()[1]


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_two_machines_are_one_run(number, machine, tmp_path):
    values = tiny(tmp_path, steps=STEPS, save_every=4, evaluate_every=20)
    (tmp_path / "recipe.yaml").write_text(yaml.safe_dump(values))
    expected = prepare(make_recipe(values), tmp_path, tmp_path / "whole")
    together(2, left_alone, values, tmp_path, tmp_path / "whole")
    port = free_port()
    first, second = machine(port), machine(port)
    assert first.until(lambda: first.step() >= random.Random(number).randint(10, 20))
    worker = random.Random(number).choice([first, second]).workers()[0]
    worker.send_signal(number)
    begin = time.monotonic()
    psutil.wait_procs([worker], timeout=120)
    assert time.monotonic() - begin < FROZEN
    for agent in (first, second):
        assert agent.process.wait(180) == 0, agent.said()
    for check in _compare(expected, tmp_path / "whole", tmp_path / "torn"):
        assert check.difference is None, f"{check.what}: {check.difference}"


@pytest.mark.slow
@pytest.mark.parametrize("whole", [True, False], ids=["the machine is lost", "its agent is lost"])
@pytest.mark.parametrize("first_lost", [False, True], ids=["the second", "the first, where they meet"])
def test_the_machine_that_is_left(whole, first_lost, machine, tmp_path):
    """It finishes the run alone, or, without the place to meet, ends; in neither case it waits for the other."""
    values = tiny(tmp_path, steps=STEPS, save_every=4, evaluate_every=20)
    (tmp_path / "recipe.yaml").write_text(yaml.safe_dump(values))
    port = free_port()
    first = machine(port, "1:2")
    time.sleep(1.0)  # the first agent opens the place to meet
    second = machine(port, "1:2")
    assert first.until(lambda: first.step() >= 10)
    assert len(first.workers()) == len(second.workers()) == 1
    lost, left = (first, second) if first_lost else (second, first)
    agent = psutil.Process(lost.process.pid)
    for process in [*(agent.children(recursive=True) if whole else []), agent]:
        process.kill()
    lost.process.wait(EXIT)
    begin = time.monotonic()
    if first_lost:
        assert left.process.wait(EXIT) != 0
        left = machine(free_port(), "1:2")  # what is left to do: start it again
    assert left.until(lambda: left.step() == STEPS), left.said()
    assert time.monotonic() - begin < RENDEZVOUS
    assert left.process.wait(EXIT) == 0, left.said()
