"""Two machines with a network between them: network namespaces, whose link is cut and comes back."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
import yaml

from clearhead.distributed import Distributed
from clearhead.train import make_recipe, prepare, train
from clearhead.train.verify_resume import _compare
from tests.distributed.kill import Watched
from tests.distributed.tiny import tiny
from tests.distributed.together import together

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(os.geteuid() != 0 or shutil.which("ip") is None, reason="network namespaces need root and `ip`"),
]
STEPS = 400
PORT = 29531
END = 300.0  # seconds for the rest of a run
ADDRESSES = "10.77.91.1", "10.77.91.2"  # of a link between two namespaces: nothing else reaches them


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True, text=True)


class Link:
    """Two namespaces and the cable between them."""

    def __init__(self) -> None:
        self.names = [f"clearhead-{os.getpid()}-{i}" for i in range(2)]
        self.ends = [f"ch{os.getpid() % 100000}{side}" for side in "ab"]
        for name in self.names:
            ip("netns", "add", name)
        ip("link", "add", self.ends[0], "type", "veth", "peer", "name", self.ends[1])
        for name, end, address in zip(self.names, self.ends, ADDRESSES, strict=True):
            ip("link", "set", end, "netns", name)
            ip("-n", name, "addr", "add", f"{address}/30", "dev", end)
            ip("-n", name, "link", "set", "lo", "up")
            ip("-n", name, "link", "set", end, "up")

    def set(self, state: str) -> None:
        ip("-n", self.names[0], "link", "set", self.ends[0], state)

    def remove(self) -> None:
        for name in self.names:
            subprocess.run(["ip", "netns", "del", name], check=False)

    def machine(self, number: int, base: Path) -> Watched:
        """An agent in one namespace, started as docs/cluster.md says."""
        words = ["--nnodes", "2", "--nproc-per-node", "1", "--max-restarts", "10", "--rdzv-backend", "c10d"]
        words += ["--rdzv-endpoint", f"{ADDRESSES[0]}:{PORT}", "--rdzv-id", "test", "--local-addr", ADDRESSES[number]]
        words += ["--rdzv-conf", f"is_host={1 - number}"]  # the host's name leads to another address
        words += ["-m", "clearhead.cli", "train", str(base / "recipe.yaml"), "--out", str(base / "torn")]
        inside = ["ip", "netns", "exec", self.names[number], "env", f"GLOO_SOCKET_IFNAME={self.ends[number]}"]
        run = Watched(base, base / "torn", [*inside, sys.executable, "-m", "torch.distributed.run", *words])
        run.start()
        return run


@pytest.fixture
def link() -> Generator[Link]:
    made = Link()
    yield made
    made.remove()


def left_alone(ranks: Distributed, values: dict[str, Any], base: Path, folder: Path) -> None:
    train(prepare(make_recipe(values), base, folder), ranks, shown=False)


@pytest.mark.parametrize("seconds", [5.0, 40.0], ids=["shortly", "longer than the others wait"])
def test_a_link_that_is_cut_and_comes_back_changes_nothing(link, tmp_path, seconds):
    values = tiny(tmp_path, steps=STEPS, save_every=20, evaluate_every=100)
    (tmp_path / "recipe.yaml").write_text(yaml.safe_dump(values))
    expected = prepare(make_recipe(values), tmp_path, tmp_path / "whole")
    together(2, left_alone, values, tmp_path, tmp_path / "whole")
    machines = [link.machine(number, tmp_path) for number in range(2)]
    try:
        assert machines[0].until(lambda: machines[0].step() >= 50), machines[0].said()
        link.set("down")
        time.sleep(seconds)
        cut = machines[0].step()
        assert cut < STEPS, "the run ended before the link was cut"
        link.set("up")
        for machine in machines:
            assert machine.process.wait(END) == 0, machine.said()
    finally:
        for machine in machines:
            machine.process.kill()
    for check in _compare(expected, tmp_path / "whole", tmp_path / "torn"):
        assert check.difference is None, f"{check.what}: {check.difference}"
