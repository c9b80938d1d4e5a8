"""Corpora prepared by a real Slurm: the same bytes as locally, after a requeue too; failures are reported."""

from __future__ import annotations

import json
import random
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import pytest

from clearhead.corpus.slurm import SlurmConfig
from clearhead.files import sha256
from clearhead.text import train_tokenizer
from tests.corpus.slurm_cluster import is_installed, slurm_cluster

pytest.importorskip("datatrove")
pytest.importorskip("array_record")


@pytest.fixture(scope="module")
def cluster():
    if not is_installed():
        pytest.skip("no Slurm here: apt-get install slurm-wlm")
    with (
        tempfile.TemporaryDirectory(dir="/tmp") as folder,
        slurm_cluster(Path(folder)) as environment,
        pytest.MonkeyPatch.context() as patch,
    ):
        for name, value in environment.items():
            patch.setenv(name, value)
        yield


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    here, draw = tmp_path_factory.mktemp("corpus"), random.Random(1)
    words = ["the", "old", "house", "stood", "near", "a", "river", "and", "people", "went", "often", "to", "see", "it"]
    lines = [f"{' '.join(draw.choices(words, k=9)).capitalize()}." for _ in range(60)]
    (here / "data").mkdir()
    (here / "data" / "text.txt").write_text("\n".join(lines))
    train_tokenizer(here / "data" / "text.txt", template="bert", vocab_size=120).save(here / "words")
    return here


def command(corpus, target, *options):
    arguments = ["prepare", corpus / "data", "--out", target, "--tokenizer", corpus / "words", "--split", "line"]
    return [sys.executable, "-m", "clearhead.cli", *map(str, [*arguments, *options])]


def hashes(folder):
    return {str(p.relative_to(folder)): sha256(p) for p in sorted(folder.rglob("*")) if p.is_file()}


def jobs(option):
    return subprocess.run(["squeue", "-h", *option], capture_output=True, text=True).stdout


def requeue_one(done):
    """Requeue the first running job of a preparation, once."""
    while not done.is_set():
        if found := re.search(r"(\d+_\d+) RUNNING", jobs(["-r", "-o", "%i %T"])):
            done.requeued = subprocess.run(["scontrol", "requeue", found[1]]).returncode == 0
            return
        time.sleep(0.05)


@pytest.mark.slow
def test_slurm_gives_the_bytes_of_a_local_run_even_when_a_job_is_requeued(cluster, corpus, tmp_path):
    done = threading.Event()
    thread = threading.Thread(target=requeue_one, args=(done,))
    thread.start()
    run = subprocess.run(
        command(corpus, tmp_path / "slurm", "--on", "slurm", "--workers", "2", "--dedup", "none", "--json"),
        capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    done.set()
    thread.join()
    assert run.returncode == 0, run.stderr[-2000:]
    assert vars(done)["requeued"]
    local = subprocess.run(
        command(corpus, tmp_path / "local", "--dedup", "none", "--json"), capture_output=True, text=True
    )
    assert json.loads(run.stdout)["tokens"] == json.loads(local.stdout)["tokens"] > 0
    assert hashes(tmp_path / "slurm") == hashes(tmp_path / "local")


def test_a_job_that_fails_is_reported_and_ctrl_c_cancels_one_that_waits(cluster, corpus, tmp_path, monkeypatch):
    monkeypatch.setattr("clearhead.corpus.slurm.FILE_DELAY_S", 1.0)
    waiting = subprocess.Popen(
        command(corpus, tmp_path / "waits", "--on", "slurm", "--dedup", "none"), text=True, stderr=subprocess.PIPE
    )
    subprocess.run(["scontrol", "update", "partition=main", "state=down"], check=True)
    try:
        while not jobs(["-o", "%i"]).strip() and waiting.poll() is None:
            time.sleep(0.1)
        waiting.send_signal(signal.SIGINT)
        _, message = waiting.communicate(timeout=60)
        assert waiting.returncode == 130, message
        deadline = time.monotonic() + 20  # the controller cancels when it comes to it
        while (left := jobs(["-o", "%i %T"]).strip()) and time.monotonic() < deadline:
            time.sleep(0.2)
        assert not left
    finally:
        subprocess.run(["scontrol", "update", "partition=main", "state=up"], check=True)
    refused = subprocess.run(
        command(corpus, tmp_path / "none", "--on", "slurm", "--partition", "absent"), capture_output=True, text=True
    )
    assert refused.returncode == 2 and "Slurm refused the job" in refused.stderr


def test_options_of_slurm_are_checked():
    with pytest.raises(ValueError, match="time is '1 day': write it as sbatch takes it"):
        SlurmConfig(time="1 day")
