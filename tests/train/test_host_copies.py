"""Checkpoints in the background: training goes on, and what is written is what was there when the save began."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
import torch
from torch.distributed.checkpoint.filesystem import FileSystemWriter

from clearhead.files import FileEntry, Manifest, manifest, sha256
from clearhead.train.checkpoint import Progress, _divide, tensors_of
from clearhead.train.checkpoint_store import STATE
from clearhead.train.host_copies import HostCopies
from tests.train.test_checkpoint import copies, spoil, steps


@pytest.fixture
def gate(monkeypatch):
    """Holds the thread back before it writes a tensor, until it is set."""
    gate, write = threading.Event(), FileSystemWriter.write_data

    def held(self, *args, **kwargs):
        assert gate.wait(60)
        return write(self, *args, **kwargs)

    monkeypatch.setattr(FileSystemWriter, "write_data", held)
    yield gate
    gate.set()


def test_training_goes_on_while_a_checkpoint_is_written(state, gate):
    model, optimizer, checkpoints = state()
    before = copies(model, optimizer)
    folder = checkpoints.begin_save(Progress(step=1), model, optimizer)
    spoil(model, optimizer)
    assert steps(checkpoints) == [], "it is not there before it is complete"
    gate.set()
    checkpoints.wait()
    checkpoints.restore(folder, model, optimizer)
    after = tensors_of(model, optimizer)
    assert all(torch.equal(before[name], after[name]) for name in before)


def test_a_second_save_waits_for_the_first_and_changes_nothing_in_it(state, gate):
    model, optimizer, checkpoints = state()
    before = copies(model, optimizer)
    first = checkpoints.begin_save(Progress(step=1), model, optimizer)
    spoil(model, optimizer)
    threading.Timer(0.1, gate.set).start()
    checkpoints.save(Progress(step=2), model, optimizer)
    assert steps(checkpoints) == [1, 2]
    checkpoints.restore(first, model, optimizer)
    assert all(torch.equal(before[name], tensor) for name, tensor in tensors_of(model, optimizer).items())


def test_reserved_memory_is_used_and_holds_nothing(state):
    model, optimizer, _ = state()
    tensors, memory = tensors_of(model, optimizer), HostCopies()
    memory.reserve(tensors)
    places = {name: t.data_ptr() for name, t in memory._copies.items()}
    for _ in range(2):
        copied = memory.update(tensors)
        assert {name: t.data_ptr() for name, t in copied.items()} == places
        assert all(torch.equal(copied[name], tensor) for name, tensor in tensors.items())
        spoil(model, optimizer)
    weights = tensors_of(model)
    assert set(memory.update(weights)) == set(weights), "other tensors need other memory"


def test_the_end_of_the_context_waits_and_raises_what_went_wrong(state, monkeypatch):
    model, optimizer, checkpoints = state()

    def full(*args, **kwargs):
        raise OSError(28, "No space left on device")

    with checkpoints:
        checkpoints.begin_save(Progress(step=1), model, optimizer)
    assert steps(checkpoints) == [1]
    monkeypatch.setattr(FileSystemWriter, "write_data", full)
    with pytest.raises(ValueError, match="no checkpoint can be written"), checkpoints:
        checkpoints.begin_save(Progress(step=2), model, optimizer)
    checkpoints.begin_save(Progress(step=3), model, optimizer)
    with pytest.raises(KeyError, match="first"), checkpoints:  # not the error of the thread
        raise KeyError("first")
    checkpoints.wait()
    assert steps(checkpoints) == [1]


def test_each_file_is_hashed_once_when_a_run_resumes(state, monkeypatch):
    model, optimizer, checkpoints = state()
    checkpoints.save(Progress(step=1), model, optimizer)
    hashed: list[str] = []

    def count(path):
        hashed.append(Path(path).name)
        return sha256(path)

    monkeypatch.setattr(manifest, "sha256", count)
    newest = checkpoints.newest()
    assert newest is not None
    checkpoints.read(newest, model, optimizer)
    assert sorted(hashed) == [".metadata", "__0_0.distcp", STATE]


def test_parts_are_nearly_equal_and_complete():
    sizes = {f"file-{i}": FileEntry(size=size, sha256="") for i, size in enumerate((100, 90, 60, 50, 40, 30, 20, 10))}
    parts = _divide(Manifest(version="", metadata={}, files=sizes), 3)
    assert sorted(name for part in parts for name in part) == sorted(sizes)
    assert [sum(sizes[name].size for name in part) for part in parts] == [140, 130, 130]
    assert [len(part) for part in _divide(Manifest(version="", metadata={}, files=sizes), 10)].count(0) == 2
