"""RELIABILITY 10 for the loader: every hostile folder is refused at once, in little memory, and nothing outside is opened."""

from __future__ import annotations

import json
import multiprocessing
import os
import resource
import subprocess
import sys
import time
from pathlib import Path

import pytest

from clearhead.app import load
from tests.files.hostile import HOSTILE, valid

SECONDS, MEGABYTES = 1.0, 200.0


def trial(folder: Path) -> dict[str, object]:
    """Load a folder under a hook that sees every file opened."""
    opened: list[str] = []
    sys.addaudithook(lambda event, args: opened.append(str(args[0])) if event == "open" else None)
    before, begin = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()
    kind, says = "", ""
    try:
        load(folder)
    except Exception as error:
        kind, says = "ValueError" if isinstance(error, ValueError) else type(error).__name__, str(error)
    used = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    outside = [p for p in opened if not p.startswith(str(folder)) and not p.startswith(sys.prefix) and ".py" not in p]
    return {"kind": kind, "says": says, "seconds": time.process_time() - begin, "megabytes": used, "outside": outside}


@pytest.fixture(scope="module")
def trials(tmp_path_factory):
    """Every folder loaded in a fork of one process that has everything imported."""
    folder = tmp_path_factory.mktemp("hostile")
    names = sorted(HOSTILE)
    for i, name in enumerate(names):
        HOSTILE[name](folder / f"{i}")
    valid(folder / f"{len(names)}", manifest=True)
    done = subprocess.run(
        [sys.executable, "-m", "tests.models.test_hostile", folder, str(len(names) + 1)],
        capture_output=True, text=True, timeout=600, cwd=Path(__file__).parents[2],
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    results = [json.loads(line) for line in done.stdout.splitlines()]
    assert not list(Path(__file__).parents[2].glob("harm-was-done"))
    return dict(zip([*names, "valid"], results, strict=True))


@pytest.mark.parametrize("name", sorted(HOSTILE))
def test_refused(trials, name):
    found = trials[name]
    assert found["kind"] == "ValueError", f"{name}: {found}"
    assert found["outside"] == []
    assert found["seconds"] < SECONDS
    assert found["megabytes"] < MEGABYTES
    assert 10 < len(found["says"]) < 2500, "one message a person can read"


def test_a_good_folder_passes(trials):
    assert trials["valid"]["kind"] == "", trials["valid"]
    assert trials["valid"]["outside"] == []


def _report(folder: str, queue: multiprocessing.SimpleQueue) -> None:
    queue.put(trial(Path(folder)))


if __name__ == "__main__":
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    warm = Path(sys.argv[1]) / str(int(sys.argv[2]) - 1)
    load(warm)  # everything imported before the forks
    fork = multiprocessing.get_context("fork")
    for i in range(int(sys.argv[2])):
        queue = fork.SimpleQueue()
        process = fork.Process(target=_report, args=(str(Path(sys.argv[1]) / str(i)), queue))
        process.start()
        process.join(60)
        if process.exitcode != 0:
            process.kill()
            print(
                json.dumps(
                    {"kind": f"exit {process.exitcode}", "says": "", "seconds": 60, "megabytes": 0, "outside": []}
                )
            )
        else:
            print(json.dumps(queue.get()))
