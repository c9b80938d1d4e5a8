"""Faults from outside: a run of the command, watched by its log, whose processes are hit while they work."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from clearhead.files import stale_temporaries
from clearhead.train.verify_resume import _step

SIGNALS = {"segfault": signal.SIGSEGV, "abort": signal.SIGABRT, "sigterm": signal.SIGTERM, "hang": signal.SIGSTOP}
KINDS = ("exit", *SIGNALS)
SECONDS = 180  # that a run may take to get one step further
EXIT = "exit-now"  # where this file is, the first rank ends itself


def exit_when_told(step: int, numbers: object) -> None:
    """A tracker: leaves without a word as soon as the file is there."""
    if Path(EXIT).exists():
        Path(EXIT).unlink()
        os._exit(7)


@dataclass
class Watched:
    """A run of several processes that is being watched."""

    base: Path
    folder: Path
    command: list[str]
    process: subprocess.Popen[str] = field(init=False)

    def start(self) -> None:
        paths = os.pathsep.join([str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH", "")])
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": paths}
        with (self.base / "said.txt").open("a") as said:
            self.process = subprocess.Popen(self.command, cwd=self.base, env=environment, stderr=said, text=True)

    def workers(self) -> list[psutil.Process]:
        """Those that train, by their rank."""
        children = psutil.Process(self.process.pid).children(recursive=True)
        ranks = {int(child.environ()["RANK"]): child for child in children if "RANK" in child.environ()}
        return [ranks[rank] for rank in sorted(ranks)]

    def until(self, reached: Callable[[], bool]) -> bool:
        """Wait for something to happen; False if the run ended before."""
        end = time.monotonic() + SECONDS
        while not reached():
            if self.process.poll() is not None:
                return False
            assert time.monotonic() < end, (self.base / "said.txt").read_text()
            time.sleep(0.001)
        return True

    def saved(self) -> str:
        """The newest checkpoint."""
        return max((p.name for p in self.folder.glob("checkpoints/step-*")), default="")

    def step(self) -> int:
        """The last step in the log."""
        return _step(self.folder)

    def said(self) -> str:
        return (self.base / "said.txt").read_text()


@dataclass(frozen=True)
class Hit:
    """One fault: when it came, how long the attempt lived on, and how long until the run got on."""

    kind: str
    moment: str
    rank: int
    step: int
    ended: float
    resumed: float


def hit(run: Watched, kind: str, chance: random.Random) -> Hit | None:
    """Let one worker fail at a random moment, after a checkpoint that is newer than the last time; None at the end."""
    before, saved = run.step(), run.saved()
    target = before + chance.randint(1, 8)
    moment = chance.choice(["training", "saving"])
    if not run.until(lambda: run.saved() > saved and run.step() >= target):
        return None
    if moment == "saving" and not run.until(lambda: bool(stale_temporaries(run.folder / "checkpoints"))):
        return None
    time.sleep(chance.uniform(0.0, 0.02))
    workers = run.workers()
    rank = 0 if kind == "exit" else chance.randrange(len(workers))
    if kind == "exit":
        (run.base / EXIT).touch()
    else:
        workers[rank].send_signal(SIGNALS[kind])
    begin, step = time.monotonic(), run.step()
    if not run.until(lambda: not any(alive(worker) for worker in workers)):
        return None
    ended = time.monotonic() - begin
    size = (run.folder / "log.jsonl").stat().st_mtime_ns
    run.until(lambda: (run.folder / "log.jsonl").stat().st_mtime_ns != size)
    return Hit(kind, moment, rank, step, ended, time.monotonic() - begin)


def alive(process: psutil.Process) -> bool:
    try:
        return process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def command(recipe: Path, folder: Path, processes: int) -> list[str]:
    words = ["-m", "clearhead.cli", "train", str(recipe), "--out", str(folder), "--processes", str(processes)]
    return [sys.executable, *words, "--track", "tests.distributed.kill:exit_when_told"]
