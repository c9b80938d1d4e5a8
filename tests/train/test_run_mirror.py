"""Runs in an object store: `clearhead train -o s3://...` is the run on disk to the bit, on any machine."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from clearhead.cli import app
from clearhead.files import verify
from clearhead.files.s3_folder import cache_home
from clearhead.train import Checkpoints
from clearhead.train.tracking import TIMES, read_log
from tests.train.tiny import texts, values

COMMAND = str(Path(sys.executable).parent / "clearhead")
LENGTH = {"steps": 12, "save_every": 4, "evaluate_every": 4}


@pytest.fixture
def here(tmp_path, monkeypatch):
    texts(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    Path("r.yaml").write_text(yaml.safe_dump(values(**LENGTH)))
    return tmp_path


def run(*args: object):
    return CliRunner().invoke(app, ["train", "r.yaml", *map(str, args)])


def timeless(data: bytes) -> list[dict[str, object]]:
    records = [json.loads(line) for line in data.split(b"\n") if line]
    return [{k: v for k, v in record.items() if k not in TIMES} for record in records]


def newest(out) -> Any:
    return Checkpoints(out / "checkpoints", 3).newest()


def check_equal(out, disk: Path) -> None:
    """A run in a store is the one on disk: weights, the state of the optimizer, the log."""
    assert (out / "model" / "model.safetensors").read_bytes() == (disk / "model" / "model.safetensors").read_bytes()
    assert timeless((out / "log.jsonl").read_bytes()) == timeless((disk / "log.jsonl").read_bytes())
    verify(out / "model")
    remote, local = newest(out), newest(disk)
    assert remote.name == local.name
    (data,) = [name for name in remote.files() if name.endswith("__0_0.distcp")]
    assert (remote / data).read_bytes() == (local / "__0_0.distcp").read_bytes()


def test_a_run_in_a_store_is_the_run_on_disk(here, bucket):
    assert run("-o", "disk").exit_code == 0
    done = run("-o", f"{bucket}run")
    assert done.exit_code == 0, done.stderr
    assert done.stdout.startswith(f"{bucket}run/model  (12 steps")
    check_equal(bucket / "run", here / "disk")
    names = set((bucket / "run").files())
    assert {"recipe.yaml", "log.jsonl", "results.json", "tokenizer/tokenizer.json", "model/config.json"} <= names
    assert any(name.startswith("tensorboard/") for name in names)
    local = cache_home() / "runs" / bucket.bucket / "run"
    assert not (local / "model").exists() and not (local / "checkpoints").exists()


def test_killed_and_resumed_on_another_machine(here, bucket):
    """SIGKILL at a step; the next process has nothing but the store."""
    assert run("-o", "disk").exit_code == 0
    (here / "kill.py").write_text(
        "import os, signal, time\n"
        "from clearhead.files.s3_path import S3Path\n"
        "def at_step(step, numbers):\n"
        "    if step == int(os.environ['KILL_AT']):\n"
        '        saved = f"checkpoints/step-{step // 4 * 4:08d}/clearhead.json"\n'
        "        while saved not in S3Path.parse(os.environ['OUT']).files():\n"  # it is written in the background
        "            time.sleep(0.1)\n"
        "        os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    out = bucket / "run"
    command = [COMMAND, "train", "r.yaml", "-o", str(out), "--track", "kill:at_step"]
    for step in (7, 10):
        environment = {**os.environ, "KILL_AT": str(step), "OUT": str(out)}
        done = subprocess.run(command, env=environment, capture_output=True, text=True)
        assert done.returncode == -9, done.stderr
        shutil.rmtree(cache_home())
        assert newest(out).name == f"step-{step // 4 * 4:08d}"
    assert run("-o", out).exit_code == 0
    check_equal(out, here / "disk")


def test_two_processes_write_to_a_store(here, bucket):
    out = bucket / "run"
    for folder in ("disk", str(out)):
        command = [COMMAND, "train", "r.yaml", "-o", folder, "--processes", "2"]
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
    weights = "model/model.safetensors"
    assert (out / weights).read_bytes() == (here / "disk" / weights).read_bytes()
    assert sum(name.endswith(".distcp") for name in newest(out).files()) == 2


def test_the_store_counts(here, bucket):
    """What is in the cache of a run that was deleted from the store is not used."""
    assert run("-o", f"{bucket}run", "--set", "train.steps=4").exit_code == 0
    (bucket / "run").remove((bucket / "run").files())
    assert run("-o", f"{bucket}run", "--set", "train.steps=4").exit_code == 0
    assert len(read_log(cache_home() / "runs" / bucket.bucket / "run" / "log.jsonl")) == 5


def test_another_recipe_is_refused(here, bucket):
    assert run("-o", f"{bucket}run", "--set", "train.steps=4").exit_code == 0
    shutil.rmtree(cache_home())
    done = run("-o", f"{bucket}run", "--set", "model.width=24")
    assert done.exit_code == 2
    assert "was created from a different recipe: choose a new --out" in done.stderr


def test_what_is_wrong_is_said_at_once(here, bucket):
    done = run("-o", "s3://no-such-bucket/run")
    assert done.exit_code == 2
    assert "there is no such bucket at" in done.stderr and not cache_home().exists()
