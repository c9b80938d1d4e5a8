"""`clearhead train`: to the end, stopped by signals and gone on; and one line for every mistake."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from typer.testing import CliRunner

import clearhead
from clearhead.cli import app
from clearhead.train import Checkpoints
from clearhead.train.tracking import TIMES, read_log
from tests.train.tiny import texts, values

COMMAND = str(Path(sys.executable).parent / "clearhead")


@pytest.fixture
def here(tmp_path, monkeypatch):
    texts(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")  # such small models are slower in two
    torch.set_num_threads(1)
    write()
    return tmp_path


def write(**train: object) -> None:
    Path("r.yaml").write_text(yaml.safe_dump(values(**train)))


def run(*args: object):
    return CliRunner().invoke(app, ["train", *map(str, args)])


def timeless(folder: Path) -> list[dict[str, Any]]:
    return [{k: v for k, v in record.items() if k not in TIMES} for record in read_log(folder / "log.jsonl")]


def test_a_recipe_becomes_a_model(here):
    done = run("r.yaml", "--set", "train.steps=4")
    assert done.exit_code == 0, done.stderr
    assert re.fullmatch(r"runs/r/model  \(4 steps, \d\.\d minutes, best loss \d\.\d+\)\n", done.stdout)
    assert "tokenizer: " in done.stderr and "step 4: valid loss " in done.stderr
    assert clearhead.load("runs/r/model").model is not None
    again = run("r.yaml", "--set", "train.steps=4", "--json")
    told = json.loads(again.stdout)
    assert (told["model"], told["step"], told["best_step"]) == ("runs/r/model", 4, 4)


def test_in_another_folder_with_a_tracker(here):
    (here / "mine.py").write_text("seen = []\ndef track(step, numbers):\n    seen.append((step, sorted(numbers)))\n")
    done = run("r.yaml", "--out", "there", "--set", "train.steps=2", "--track", "mine:track")
    assert done.exit_code == 0, done.stderr
    assert (here / "there" / "model").is_dir()
    import mine  # type: ignore[import-not-found]

    names = ["loss", "lr", "norm", "tokens_per_second"]
    assert mine.seen == [(1, names), (2, names), (2, ["valid_loss", "valid_perplexity"])]


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (["no.yaml"], "there is no recipe no.yaml"),
        (["."], "Is a directory"),
        (["r.yaml", "--set", "train.stesp=3"], "r.yaml: train.stesp: there is no such name; did you mean 'steps'?"),
        (["r.yaml", "--set", "train.steps=many"], "train.steps: Input should be a valid integer"),
        (["r.yaml", "--set", "train.steps"], "has no value"),
        (["r.yaml", "--set", "train.steps=["], "the value is not YAML"),
        (["r.yaml", "--set", "data.train.source=no.x"], "there is no file no.x"),
        (["r.yaml", "--set", "data.train={sauce: a.x, target: a.y}"], "data.train.sauce: there is no such name; did you mean 'source'?"),
        (["r.yaml", "--set", "model.width=wide"], "width is 'wide'"),
        (["r.yaml", "--set", "model.norm_first=true"], "the model is saved as Marian"),
        (["r.yaml", "--set", "train.metric=blue"], "did you mean 'bleu'?"),
        (["r.yaml", "--set", "train.batch_tokens=3"], "raise batch_tokens"),
        (["r.yaml", "--set", "train.optimizer.betas=[0.9, 1.5]"], "beta"),
        (["r.yaml", "--track", "nowhere:f"], "--track nowhere:f: No module named 'nowhere'"),
        (["r.yaml", "--track", "json"], "write it as module:function"),
        (["r.yaml", "--track", "json:decoder"], "is not a function"),
        (["r.yaml", "--processes", "0"], "--processes is 0: give at least 1"),
        (["r.yaml", "--out", "r.yaml"], "r.yaml"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_one_line(here, args, says):
    done = run(*args)
    lines = [line for line in done.stderr.splitlines() if line.startswith("clearhead: ")]
    assert done.exit_code == 2, done.stderr
    assert len(lines) == 1 and says in lines[0], done.stderr
    assert "Traceback" not in done.stderr and done.stdout == ""
    assert done.stderr.splitlines()[-1] == lines[0]


def test_a_broken_recipe_is_one_line(here):
    Path("r.yaml").write_text("train: [1\ndata: {\n")
    done = run("r.yaml")
    assert done.exit_code == 2
    assert done.stderr.startswith("clearhead: r.yaml is not YAML: ") and done.stderr.count("\n") == 1


def test_a_loss_that_is_not_finite_has_a_code_of_its_own(here):
    done = run("r.yaml", "--set", "train.optimizer.lr=1.0e+30", "--set", "train.optimizer.clip=null")
    assert done.exit_code == 3
    assert "is not finite (epoch " in done.stderr and "Traceback" not in done.stderr


# Signals, in processes of their own


@pytest.fixture
def start(popen):
    """Start `clearhead train`."""
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return lambda *args: popen([COMMAND, "train", "r.yaml", *args], **pipes)


def until(found, seconds: float = 60.0) -> None:
    end = time.monotonic() + seconds
    while not found():
        assert time.monotonic() < end, "it did not come so far"
        time.sleep(0.01)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_leaves_a_checkpoint_and_the_same_command_goes_on(start, here, number):
    write(steps=10_000, evaluate_every=7, save_every=100_000)
    log = here / "runs" / "r" / "log.jsonl"
    process = start()
    until(lambda: log.is_file() and log.read_bytes().count(b"\n") > 10)
    sent = time.monotonic()
    process.send_signal(number)
    _, told = process.communicate(timeout=120)
    assert time.monotonic() - sent < 10
    assert process.returncode == 128 + number
    assert "a checkpoint is saved, run the same command to resume" in told
    assert "Traceback" not in told
    newest = Checkpoints(here / "runs" / "r" / "checkpoints", 3).newest()
    steps = max(record["step"] for record in timeless(here / "runs" / "r"))
    assert newest is not None and int(newest.name[5:]) == steps
    more = ["--set", f"train.steps={steps + 2}", "--set", "train.schedule.kind=linear"]
    assert run("r.yaml", *more).exit_code == 0
    assert [r["step"] for r in timeless(here / "runs" / "r") if "loss" in r] == list(range(1, steps + 3))


def test_a_second_ctrl_c_ends_it_at_once(start, here):
    """The first is noted while a step takes long; the second does not wait for it."""
    (here / "mine.py").write_text(
        "import time\ndef track(step, numbers):\n    if step == 3:\n        print('slow', flush=True)\n        time.sleep(60)\n"
    )
    process = start("--track", "mine:track")
    assert process.stdout is not None and process.stdout.readline() == "slow\n"
    process.send_signal(signal.SIGINT)
    time.sleep(0.3)
    assert process.poll() is None
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=5)
    assert process.returncode in (130, -signal.SIGINT)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, -signal.SIGTERM), (signal.SIGINT, 130)])
def test_a_signal_while_the_data_is_made(start, here, number, code):
    """Nothing is trained yet, and nothing is kept; what is half made is swept up by the next process."""
    line = "ba be bi bo bu\n"
    for name in ("a.x", "a.y"):
        (here / name).write_text(line * 400_000)
    process = start()
    until(lambda: (here / "runs" / "r" / "recipe.yaml").is_file())
    time.sleep(0.5)
    process.send_signal(number)
    _, told = process.communicate(timeout=120)
    assert process.returncode == code, told
    assert "Traceback" not in told
    assert not (here / "runs" / "r" / "data" / "train").exists()
    (here / "runs" / "r" / ".tokenizer.clearhead-0a1b2c3d.new").mkdir()
    (here / "runs" / "r" / ".recipe.yaml.clearhead-0a1b2c3d.new").write_text("")
    texts(here)
    assert run("r.yaml", "--set", "train.steps=2").exit_code == 0
    assert not [p for p in (here / "runs" / "r").rglob("*") if ".clearhead-" in p.name]
