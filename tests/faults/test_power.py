"""RELIABILITY 8: the power goes while a checkpoint is saved: the old or the new one is there, whole."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
import torch
from torch import nn

from clearhead.files import atomic
from clearhead.train.checkpoint import Checkpoints, Progress
from clearhead.train.checkpoint_store import NAME
from clearhead.train.optimizer import make_optimizer
from clearhead.train.recipe import OptimizerConfig
from clearhead.train.tracking import MetricLogger
from tests.files.powercut import Disk, File, Folder, Tree, recorded

PER_STATE = 25


def trained(steps: int) -> tuple[nn.Module, torch.optim.Optimizer]:
    torch.manual_seed(0)
    model = nn.Linear(3, 2)
    optimizer = make_optimizer(model, OptimizerConfig())
    for _ in range(steps):
        for param in model.parameters():
            param.grad = torch.ones_like(param)
        optimizer.step()
    return model, optimizer


def read(folder: Path) -> Tree:
    return {p.name: read(p) if p.is_dir() else p.read_bytes() for p in folder.iterdir()}


def write(folder: Path, tree: Tree) -> None:
    folder.mkdir(exist_ok=True)
    for name, value in tree.items():
        if isinstance(value, bytes):
            (folder / name).write_bytes(value)
        else:
            write(folder / name, value)


def saved(folder: Path, count: int) -> dict[str, Tree]:
    """Train and save step by step; what each checkpoint holds."""
    (folder / "checkpoints").mkdir(exist_ok=True)
    held: dict[str, Tree] = {}
    with MetricLogger(folder, 0, 0, []) as records:
        for step in range(1, count + 1):
            records.write({"step": step, "loss": 1.0 / step}, {})
            progress = Progress(step=step, log_bytes=records.size())
            made = Checkpoints(folder / "checkpoints", 1).save(progress, *trained(step))
            held[made.name] = read(Path(str(made)))
    return held


def crashes(states, per_state: int):
    draw = random.Random(0)
    for disk in states:
        for _ in range(per_state):
            yield disk, disk.crash(draw)


def records(disk: Disk) -> int:
    """The records of the log that no power cut takes: its name and its bytes are synced. (More may be there.)"""
    run = disk.nodes[disk.root]
    assert isinstance(run, Folder)
    if not all("log.jsonl" in names for names in (run.synced, *run.changes)):
        return 0
    log = disk.nodes[run.synced["log.jsonl"]]
    assert isinstance(log, File)
    return log.synced.count(b"\n")


def faults(disk: Disk, tree: Tree, held: dict[str, Tree]) -> str | None:
    """What a resume would find wrong."""
    checkpoints = tree.get("checkpoints", {})
    assert isinstance(checkpoints, dict)
    found = sorted(name for name in checkpoints if NAME.fullmatch(name))
    whole = [name for name in found if checkpoints[name] == held[name]]
    if found and not whole:
        return "no checkpoint is whole"
    if found and found[-1] != whole[-1]:
        return f"{found[-1]} is torn, though it has its name"
    if whole and records(disk) < int(whole[-1][5:]):
        return f"{whole[-1]} knows of more records than are safe"
    return None


def test_the_power_goes_while_checkpoints_are_saved(tmp_path, monkeypatch, capsys):
    run = tmp_path / "run"
    run.mkdir()
    with recorded(run, monkeypatch) as recorder:
        held = saved(run, 3)
    found = list(crashes(recorder.states, PER_STATE))
    assert len(found) >= 1000
    for disk, tree in found:
        assert faults(disk, tree, held) is None
    for _, tree in crashes(recorder.states[-1:], 100):
        folders = tree["checkpoints"]
        assert isinstance(folders, dict)
        assert folders["step-00000003"] == held["step-00000003"], "what was reported done stays done"
    trees = [tree for _, tree in found if any(NAME.fullmatch(str(name)) for name in tree.get("checkpoints", {}))]
    for i, tree in enumerate(random.Random(2).sample(trees, 20)):
        write(tmp_path / str(i), tree)
        checkpoints = Checkpoints(tmp_path / str(i) / "checkpoints", 1)
        newest = checkpoints.newest()
        assert newest is not None
        model, optimizer = trained(0)
        step = checkpoints.restore(newest, model, optimizer).step
        assert all(torch.equal(a, b) for a, b in zip(model.parameters(), trained(step)[0].parameters(), strict=True))
    with capsys.disabled():
        print(f"\n{len(found)} states of the disk")


@pytest.mark.parametrize("careless", ["files", "parent"])
def test_the_model_of_the_disk_finds_a_missing_fsync(tmp_path, monkeypatch, careless):
    """The proof proves something: leave one kind of fsync out, and it fails."""
    right = atomic._sync

    def sync(path: Path) -> None:
        kind = "files" if path.is_file() else "parent" if path.name in ("checkpoints", "run") else "folders"
        if kind != careless:
            right(path)

    monkeypatch.setattr(atomic, "_sync", sync)
    run = tmp_path / "run"
    run.mkdir()
    with recorded(run, monkeypatch) as recorder:
        held = saved(run, 2)
    assert any(faults(disk, tree, held) for disk, tree in crashes(recorder.states, PER_STATE))
