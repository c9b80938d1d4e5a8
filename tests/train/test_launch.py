"""The launcher: attempts that follow each other while a run gets on. The commands here train nothing."""

from __future__ import annotations

import multiprocessing
import os
import signal
import textwrap
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

from clearhead.train.launch import ATTEMPTS, launch, local_processes

CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(["clearhead.train.launch"])

HEAD = """
import os, sys
from pathlib import Path
folder, rank = Path(sys.argv[1]), int(os.environ["RANK"])
attempt = folder / f"attempts-{rank}"
with attempt.open("a") as file:
    file.write(".")
count = len(attempt.read_text())
def save(step):
    (folder / "checkpoints" / f"step-{step:08d}").mkdir(parents=True, exist_ok=True)
"""


class Launched:
    """A launcher in a process of its own."""

    def __init__(self, folder: Path, body: str, processes: int = 2) -> None:
        self.folder = folder
        self._end, other = CONTEXT.Pipe(duplex=False)
        self.process = CONTEXT.Process(target=_launch, args=(folder, HEAD + textwrap.dedent(body), processes, other))
        self.process.start()
        other.close()

    def end(self) -> tuple[int, list[str], int]:
        """The exit code, what was said, and how many attempts there were; a rank may be ended before it counts one."""
        assert self._end.poll(60)
        code, said = self._end.recv()
        self.process.join()
        return code, said, max(len(file.read_text()) for file in self.folder.glob("attempts-*"))


def _launch(folder: Path, body: str, processes: int, end: Connection) -> None:
    said: list[str] = []
    end.send((launch(local_processes(["-c", body, str(folder)], processes), folder, said.append), said))


@pytest.fixture
def run(tmp_path):
    return lambda body, processes=2: Launched(tmp_path, body, processes).end()


def test_each_process_knows_its_rank(run, tmp_path):
    body = """(folder / f"{rank}").write_text(os.environ["WORLD_SIZE"] + os.environ["OMP_NUM_THREADS"])"""
    assert run(body, 3)[::2] == (0, 1)
    assert {(tmp_path / name).read_text()[0] for name in "012"} == {"3"}
    assert all(int((tmp_path / name).read_text()[1:]) >= 1 for name in "012")


def test_a_fault_that_comes_back_ends_the_run(run):
    code, said, attempts = run("save(10); os._exit(7 if rank == 1 else 0)")
    assert code == 1 and attempts == ATTEMPTS + 1  # the first of them made a checkpoint
    assert "rank 1 ended with exit code 7; resuming from step-00000010" in said[0]
    assert "giving up after 3 attempts without a new checkpoint" in said[-1]


def test_a_run_may_fail_as_often_as_it_gets_on(run):
    code, said, attempts = run("save(count); os.abort() if rank == 0 and count < 8 else None")
    assert (code, attempts) == (0, 8) and len(said) == 7
    assert all("rank 0 was ended by SIGABRT" in line for line in said)


@pytest.mark.parametrize("code", [2, 3])
def test_what_no_attempt_will_mend_is_not_tried_again(code, run):
    assert run(f"sys.exit({code})") == (code, [], 1)


def test_a_signal_goes_to_all_and_ends_the_run(tmp_path):
    """With the exit code of a process that the signal ended, after the workers have had their time."""
    body = """
    import signal, time
    def leave(number, frame):
        (folder / f"left-{rank}").touch()
        sys.exit(9)
    signal.signal(signal.SIGTERM, leave)
    (folder / f"here-{rank}").touch()
    time.sleep(60)
    """
    launched = Launched(tmp_path, body)
    while not all((tmp_path / f"here-{rank}").exists() for rank in (0, 1)):
        assert launched.process.is_alive()
    assert launched.process.pid is not None
    os.kill(launched.process.pid, signal.SIGTERM)
    assert launched.end() == (128 + signal.SIGTERM, [], 1)
    assert all((tmp_path / f"left-{rank}").exists() for rank in (0, 1))
