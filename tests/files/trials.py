"""Trials: hostile folders tried one by one, each in a fork of one process that has everything imported.

python -m tests.files.trials files|load FOLDER COUNT
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from tests.files.hostile import HOSTILE, valid

SECONDS, MEGABYTES = 1.0, 200.0  # worst seen: 0.4 s for 30,001 tensors in a header, 67 MB for 4 MB of short texts


def examine(folder: Path) -> None:
    """What a loader asks of `clearhead.files` before it trusts a folder."""
    from clearhead.files import read_config, read_json, safe_join, verify_if_marked, weight_files

    verify_if_marked(folder)
    read_config(folder)
    weight_files(folder)
    read_json(folder, "tokenizer.json")
    read_json(folder, "tokenizer_config.json")
    safe_join(folder, "vocab.txt")


def load(folder: Path) -> None:
    """All of it."""
    import clearhead

    clearhead.load(folder)


WAYS: dict[str, Callable[[Path], None]] = {"files": examine, "load": load}


def parsing() -> float:
    """Seconds that Python needs here and now to read the largest JSON file that is let in, and do nothing with it."""
    text, begin = "[" + "1.5," * 1_040_000 + "0]", time.process_time()
    json.loads(text)
    return time.process_time() - begin


def trial(way: Callable[[Path], None], folder: Path) -> dict[str, object]:
    """Try a folder under a hook that sees every file opened."""
    opened: list[str] = []
    sys.addaudithook(lambda event, args: opened.append(str(args[0])) if event == "open" else None)
    before, begin = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()
    kind, says = "", ""
    try:
        way(folder)
    except Exception as error:
        kind, says = "ValueError" if isinstance(error, ValueError) else type(error).__name__, str(error)
    seconds = time.process_time() - begin
    megabytes = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    return {
        "kind": kind,
        "says": says,
        "seconds": seconds,
        "parsing": parsing() if seconds > SECONDS / 2 else 0.0,
        "megabytes": megabytes,
        "named": str(folder) in says,
        "outside": [p for p in opened if not p.startswith((str(folder), sys.prefix)) and not p.endswith((".py", ".pyc"))],
    }  # fmt: skip


def try_all(way: str, names: Iterable[str], folder: Path) -> dict[str, dict[str, object]]:
    """Build these hostile folders, and a good one named "valid", and try them all."""
    names = sorted(names)
    for i, name in enumerate(names):
        HOSTILE[name](folder / f"{i}")
    valid(folder / f"{len(names)}", manifest=True)
    done = subprocess.run(
        [sys.executable, "-m", "tests.files.trials", way, folder, str(len(names) + 1)],
        capture_output=True, text=True, timeout=300, cwd=Path(__file__).parents[2],
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    results = [json.loads(line) for line in done.stdout.splitlines()]
    return dict(zip([*names, "valid"], results, strict=True))


def check(found: dict[str, object]) -> None:
    """Refused with a reason, at once, in little memory, and nothing outside the folder was opened."""
    assert found["kind"] == "ValueError", found
    assert found["outside"] == []
    slow = 10 * float(str(found["parsing"]))  # on a slow machine all is slow
    assert float(str(found["seconds"])) < max(SECONDS, slow)
    assert float(str(found["megabytes"])) < MEGABYTES
    assert 10 < len(str(found["says"])) < 2500, "one message a person can read"


if __name__ == "__main__":
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    way, root, count = WAYS[sys.argv[1]], Path(sys.argv[2]), int(sys.argv[3])
    way(root / f"{count - 1}")  # the good one: everything is imported before the forks
    for i in range(count):
        child = os.fork()
        if child == 0:
            os.write(1, (json.dumps(trial(way, root / f"{i}")) + "\n").encode())
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0, i
