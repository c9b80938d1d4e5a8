"""RELIABILITY 10, for the files alone: a hostile folder is refused at once, in little memory, and nothing outside it is opened."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import time
from pathlib import Path

import pytest

from clearhead.files import admit, inside, read_config, read_json, weight_files
from tests.files.hostile import FILES, HOSTILE, valid

SECONDS, MEGABYTES = 1.0, 200.0  # worst seen: 0.4 s for 30,001 tensors in a header, 67 MB for 4 MB of short texts


def examine(folder: Path) -> None:
    """What a loader asks of this package before it trusts a folder."""
    admit(folder)
    read_config(folder)
    weight_files(folder)
    read_json(folder, "tokenizer.json")
    read_json(folder, "tokenizer_config.json")
    inside(folder, "vocab.txt")


def trial(folder: Path) -> dict[str, object]:
    """Examine a folder in a process of its own, under a hook that sees every file opened."""
    opened: list[str] = []
    sys.addaudithook(lambda event, args: opened.append(str(args[0])) if event == "open" else None)
    before, begin = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()
    kind, says = "", ""
    try:
        examine(folder)
    except Exception as error:
        kind, says = "ValueError" if isinstance(error, ValueError) else type(error).__name__, str(error)
    return {
        "kind": kind,
        "says": says,
        "seconds": time.process_time() - begin,
        "megabytes": (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024,
        "named": str(folder) in says,
        "outside": [p for p in opened if not p.startswith(str(folder))],
    }


@pytest.fixture(scope="module")
def trials(tmp_path_factory):
    """Every folder examined in a fork of one process that has everything imported."""
    folder = tmp_path_factory.mktemp("hostile")
    names = sorted(FILES)
    for i, name in enumerate(names):
        HOSTILE[name](folder / f"{i}")
    valid(folder / f"{len(names)}", manifest=True)
    done = subprocess.run(
        [sys.executable, "-m", "tests.files.test_hostile", folder, str(len(names) + 1)],
        capture_output=True, text=True, timeout=300, cwd=Path(__file__).parents[2],
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    results = [json.loads(line) for line in done.stdout.splitlines()]
    return dict(zip([*names, "valid"], results, strict=True))


@pytest.mark.parametrize("name", sorted(FILES))
def test_refused(trials, name):
    found = trials[name]
    assert found["kind"] == "ValueError", f"{name}: {found}"
    assert found["named"], "it says where"
    assert found["outside"] == []
    assert found["seconds"] < SECONDS
    assert found["megabytes"] < MEGABYTES
    assert 10 < len(found["says"]) < 2000, "one message a person can read"


def test_a_good_folder_passes(trials):
    assert trials["valid"]["kind"] == "", trials["valid"]
    assert trials["valid"]["outside"] == []


def test_there_are_enough():
    assert len(FILES) >= 50 and len(HOSTILE) > len(FILES)


def test_the_good_folder_opens_in_transformers(tmp_path):
    transformers = pytest.importorskip("transformers")
    folder = valid(tmp_path / "bert", manifest=True)
    model, report = transformers.AutoModel.from_pretrained(folder, output_loading_info=True)
    assert not report["missing_keys"] and not report["unexpected_keys"]
    tokens = transformers.AutoTokenizer.from_pretrained(folder)("a b", return_tensors="pt")
    assert model(**tokens).last_hidden_state.shape == (1, 4, 16)


if __name__ == "__main__":
    root, count = Path(sys.argv[1]), int(sys.argv[2])
    for i in range(count):
        child = os.fork()
        if child == 0:
            os.write(1, (json.dumps(trial(root / f"{i}")) + "\n").encode())
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0, i
