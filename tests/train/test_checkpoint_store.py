"""Checkpoints in an object store: as on disk, to the bit; complete or not there; one writer wins."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch

from clearhead.files import IntegrityError, s3_streams
from clearhead.files.s3_path import CommitConflict, S3Path
from clearhead.train.checkpoint import Checkpoints, Progress, tensors_of
from clearhead.train.checkpoint_store import contents

ROOT = Path(__file__).parents[2]


@pytest.fixture
def stored(state, bucket, monkeypatch):
    """A model, its optimizer, and checkpoints in a store, in many parts and chunks."""
    monkeypatch.setattr(s3_streams, "PART_BYTES", 1 << 16)
    monkeypatch.setattr(s3_streams, "CHUNK_BYTES", 1 << 12)

    def make(keep: int = 2):
        model, optimizer, _ = state()
        return model, optimizer, Checkpoints(bucket / "run" / "checkpoints", keep)

    return make


def steps(checkpoints: Checkpoints) -> list[int]:
    return [int(folder.name[5:]) for folder in checkpoints.all()]


def spoil(path: S3Path, how: str) -> None:
    data = path.read_bytes()
    if how == "gone":
        path.unlink()
    else:
        half = len(data) // 2
        flipped = data[:half] + bytes([data[half] ^ 1]) + data[half + 1 :]
        path.write_bytes(flipped if how == "flipped" else data[:-1])


def test_every_bit_comes_back(stored):
    model, optimizer, checkpoints = stored()
    before = {name: tensor.clone() for name, tensor in tensors_of(model, optimizer).items()}
    progress = Progress(step=5, seconds=1.5, best=0.25, best_step=4, since_best=1, evaluated=4, log_bytes=100)
    folder = checkpoints.save(progress, model, optimizer)
    assert str(folder).endswith("/run/checkpoints/step-00000005")
    with torch.no_grad():
        for tensor in tensors_of(model, optimizer).values():
            tensor.fill_(7.0)
    again = Checkpoints(checkpoints.folder, 2)
    assert again.restore(folder, model, optimizer) == progress
    after = tensors_of(model, optimizer)
    assert all(torch.equal(before[name], after[name]) for name in before)


def test_the_same_as_on_disk(stored, tmp_path):
    """File by file, a checkpoint in a store is the one on disk."""
    model, optimizer, checkpoints = stored()
    torch.manual_seed(0)
    disk = Checkpoints(tmp_path / "disk", 2).save(Progress(step=5), model, optimizer)
    remote: Any = contents(checkpoints.save(Progress(step=5), model, optimizer))
    names = {p.name for p in Path(str(disk)).iterdir()} - {"clearhead.json"}
    assert set(remote.files()) == names
    for name in names - {".metadata"}:  # which has the path
        assert (remote / name).read_bytes() == (disk / name).read_bytes()


def test_the_newest_few_are_kept_and_the_best(stored):
    model, optimizer, checkpoints = stored(keep=2)
    for step in range(1, 6):
        checkpoints.save(Progress(step=step, best_step=2 if step >= 2 else None), model, optimizer)
    assert steps(checkpoints) == [2, 4, 5]
    assert len(checkpoints.folder.files()) == 3 * 4, "nothing is left of the others"
    checkpoints.save(Progress(step=6, between=True), model, optimizer)
    assert steps(checkpoints) == [4, 5, 6]


@pytest.mark.parametrize("name", ["__0_0.distcp", ".metadata", "state.json", "clearhead.json"])
@pytest.mark.parametrize("how", ["flipped", "cut", "gone"])
def test_a_damaged_newest_falls_back_to_the_one_before(stored, name, how):
    model, optimizer, checkpoints = stored(keep=3)
    for step in (1, 2):
        checkpoints.save(Progress(step=step), model, optimizer)
    newest: Any = checkpoints.at(2)
    holder: Any = newest if name == "clearhead.json" else contents(newest)
    spoil(holder / name, how)
    again = Checkpoints(checkpoints.folder, 3)
    if (name, how) == ("clearhead.json", "gone"):
        assert again.newest() == checkpoints.at(1), "without a manifest it was never complete"
    else:
        with pytest.warns(UserWarning, match="is damaged: .*using the previous checkpoint"):
            assert again.newest() == checkpoints.at(1)
        with pytest.raises(IntegrityError, match=name.replace(".", r"\.")):
            again.restore(newest, model, optimizer)
    again.save(Progress(step=2), model, optimizer)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert Checkpoints(checkpoints.folder, 3).newest() == newest, "a damaged one is written anew"
    assert len(newest.files()) == 4, "and what is left of it is deleted"


def test_of_two_writers_of_a_checkpoint_one_wins(stored):
    model, optimizer, first = stored()
    second = Checkpoints(first.folder, 2)
    first.newest()
    second.newest()
    with torch.no_grad():
        model[0].weight.fill_(1.0)
    first.save(Progress(step=1), model, optimizer)
    with torch.no_grad():
        model[0].weight.fill_(2.0)
    with pytest.raises(CommitConflict, match=r"step-00000001 was written by another process .* End one of them"):
        second.save(Progress(step=1), model, optimizer)
    newest: Any = Checkpoints(first.folder, 2).newest()
    first.read(newest, model, optimizer)
    assert torch.equal(model[0].weight, torch.ones_like(model[0].weight))
    assert len(newest.files()) == 4, "nothing is left of the loser"


def test_checkpoints_of_another_process_are_not_deleted(stored):
    model, optimizer, first = stored(keep=1)
    second = Checkpoints(first.folder, 1)
    second.newest()
    first.save(Progress(step=9), model, optimizer)
    second.save(Progress(step=3), model, optimizer)
    second.save(Progress(step=6), model, optimizer)
    assert steps(second) == [6, 9]


def test_what_is_published_is_there_before_the_checkpoint(state, bucket):
    model, optimizer, _ = state()
    folder, complete = bucket / "checkpoints", list[int]()
    checkpoints = Checkpoints(folder, 2, publish=lambda: complete.append(len(Checkpoints(folder, 2).all())))
    for step in (1, 2):
        checkpoints.save(Progress(step=step), model, optimizer)
    assert complete == [0, 1]


def test_a_store_that_fails_is_reported(stored, monkeypatch):
    model, optimizer, checkpoints = stored()
    checkpoints.save(Progress(step=1), model, optimizer)
    monkeypatch.setattr(s3_streams.S3Writer, "close", lambda self: (_ for _ in ()).throw(ValueError("no more space")))
    with pytest.raises(ValueError, match=r"no checkpoint can be written to s3://.*no more space"):
        checkpoints.save(Progress(step=2), model, optimizer)
    assert steps(checkpoints) == [1]


def kill(folder: S3Path, count: int) -> dict[str, Any]:
    paths = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": paths}
    command = [sys.executable, "-m", "tests.train.kill_upload", str(folder), str(count)]
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True)
    assert done.returncode == 0
    return json.loads(done.stdout)


@pytest.mark.parametrize("count", [10, pytest.param(200, marks=pytest.mark.slow)])
def test_after_a_kill_the_store_has_the_old_or_the_new(bucket, count):
    result = kill(bucket / "checkpoints", count)
    print(result)
    assert result["killed"] == count
    assert len(result["left"]) == 2 and result["uploads"] == [], "one checkpoint: its manifest, and one attempt"
