"""RELIABILITY 9: the disk is full at any write: the last good checkpoint is intact, and the end is told in a line."""

from __future__ import annotations

import errno
import os
import subprocess
from pathlib import Path

import pytest

from clearhead.files import stale_temporaries
from clearhead.train.checkpoint import Checkpoints, Progress
from tests.faults.command import equal, start, told, write
from tests.faults.test_power import read, trained
from tests.train.tiny import texts, values


class Full:
    """A file whose n-th write, counted over all of them, writes half and finds the disk full."""

    calls = failing = 0

    def __init__(self, file) -> None:
        self.file = file

    def __enter__(self):
        return self

    def __exit__(self, *error) -> None:
        self.file.close()

    def __getattr__(self, name: str):
        return getattr(self.file, name)

    def write(self, data):
        Full.calls += 1
        if Full.calls == Full.failing:
            self.file.write(data[: len(data) // 2])
            raise OSError(errno.ENOSPC, "No space left on device")
        return self.file.write(data)


def test_every_write_call_of_a_checkpoint_that_finds_the_disk_full(tmp_path, monkeypatch, capsys):
    checkpoints = Checkpoints(tmp_path, 2)
    checkpoints.save(Progress(step=1), *trained(1))
    good = read(tmp_path / "step-00000001")
    opened = Path.open

    def opens(self: Path, mode: str = "r", *args, **kwargs):
        file = opened(self, mode, *args, **kwargs)
        return file if "r" in mode else Full(file)

    monkeypatch.setattr(Path, "open", opens)
    Full.failing = 1
    said: list[str] = []
    while True:
        Full.calls = 0
        try:
            checkpoints.save(Progress(step=2), *trained(2))
            break
        except (OSError, ValueError) as error:
            said.append(str(error))
        assert os.listdir(tmp_path) == ["step-00000001"] and stale_temporaries(tmp_path) == []
        assert read(tmp_path / "step-00000001") == good
        Full.failing += 1
    assert len(said) == Full.failing - 1 > 50, "many writes were tried"
    assert all("No space left on device" in text for text in said)
    assert checkpoints.newest() == checkpoints.at(2)
    with capsys.disabled():
        print(f"\n{Full.failing - 1} write calls")


@pytest.fixture
def whole(tmp_path):
    """A run that nothing hindered."""
    texts(tmp_path)
    write(tmp_path, values(steps=9, save_every=3, evaluate_every=100, keep=1))
    process = start(tmp_path, tmp_path / "whole")
    process.join()
    assert process.exitcode == 0, told(tmp_path)
    return tmp_path / "whole"


def check_told(base: Path, code: int | None, reason: str) -> None:
    assert code == 2, told(base)
    lines = told(base).splitlines()
    assert [line for line in lines if line.startswith("clearhead: ")] == lines[-1:], told(base)
    assert reason in lines[-1]
    assert "Traceback" not in told(base)


def check_intact(folder: Path) -> None:
    """Whatever is named a checkpoint is one."""
    checkpoints = Checkpoints(folder / "checkpoints", 1)
    assert checkpoints.newest() == (checkpoints.all() or [None])[-1]


@pytest.mark.parametrize("trials", [3, pytest.param(30, marks=pytest.mark.slow)])
def test_files_that_cannot_grow(whole, tmp_path, trials, capsys):
    """The system lets no file grow beyond so many bytes, whoever writes it: `clearhead train` ends with a line."""
    sizes = [p.stat().st_size for p in whole.rglob("*") if p.is_file()]
    refused = 0
    for trial in range(trials):
        limit = max(sizes) * (trial + 1) // (trials + 1)
        torn = tmp_path / f"torn-{trial}"
        process = start(tmp_path, torn, limit)
        process.join()
        check_told(tmp_path, process.exitcode, "File too large")
        check_intact(torn)
        refused += 1
        process = start(tmp_path, torn)
        process.join()
        assert process.exitcode == 0, told(tmp_path)
        assert equal(torn, whole)
    with capsys.disabled():
        print(f"\n{refused} limits, down to {max(sizes) // (trials + 1):,} bytes")


@pytest.mark.parametrize("step", [64, pytest.param(8, marks=pytest.mark.slow)])
def test_a_disk_that_is_full(whole, tmp_path, step, capsys):
    """A disk with ever more room, by so many pages, until a run fits on it."""
    disk = tmp_path / "disk"
    disk.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", disk], capture_output=True).returncode:
        pytest.skip("may not mount a small disk here")
    try:
        refused = 0
        for pages in range(1024 - step, -1, -step):
            (disk / "ballast").write_bytes(bytes(4096 * pages))
            process = start(tmp_path, disk / "run")
            process.join()
            if process.exitcode == 0:
                break
            check_told(tmp_path, process.exitcode, "No space left on device")
            check_intact(disk / "run")
            refused += 1
        assert refused >= 2
        assert equal(disk / "run", whole)
    finally:
        subprocess.run(["umount", disk], check=True)
    with capsys.disabled():
        print(f"\n{refused} disks too small, each run gone on where the one before had ended")
