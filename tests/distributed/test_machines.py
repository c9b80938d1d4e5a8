"""Two machines: here two of torchrun's agents on one, which know each other only by an address."""

from __future__ import annotations

import random
import signal
import socket
import sys
import time
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
FROZEN = 60.0  # seconds: to notice it from another machine, and for its own agent to see that it will not leave


def left_alone(ranks: Distributed, values: dict[str, Any], base: Path, folder: Path) -> None:
    train(prepare(make_recipe(values), base, folder), ranks, shown=False)


def machine(base: Path, port: int) -> Watched:
    """One agent, started as docs/cluster.md says."""
    words = ["--nnodes", "2", "--nproc-per-node", "1", "--max-restarts", "10", "--rdzv-backend", "c10d"]
    words += ["--rdzv-endpoint", f"localhost:{port}", "--rdzv-id", "test", "--local-addr", "localhost"]
    words += ["-m", "clearhead.cli", "train", str(base / "recipe.yaml"), "--out", str(base / "torn")]
    run = Watched(base, base / "torn", [sys.executable, "-m", "torch.distributed.run", *words])
    run.start()
    return run


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_two_machines_are_one_run(number, tmp_path):
    values = tiny(tmp_path, steps=STEPS, save_every=4, evaluate_every=20)
    (tmp_path / "recipe.yaml").write_text(yaml.safe_dump(values))
    expected = prepare(make_recipe(values), tmp_path, tmp_path / "whole")
    together(2, left_alone, values, tmp_path, tmp_path / "whole")
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = free.getsockname()[1]
    first, second = machine(tmp_path, port), machine(tmp_path, port)
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
