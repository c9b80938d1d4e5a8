"""Checkpoints: every bit comes back; what is damaged is passed over; what is hostile runs nothing."""

from __future__ import annotations

import io
import json
import os
import pickle
import pickletools
import warnings
from pathlib import Path

import pytest
import torch
from torch.distributed.checkpoint.filesystem import FileSystemReader, FileSystemWriter

from clearhead.files import IntegrityError, read_manifest, stale_temporaries, write_manifest
from clearhead.train.checkpoint import Checkpoints, Progress, init_optimizer_state, read_tensors, tensors_of
from clearhead.train.checkpoint_store import STATE
from clearhead.train.recipe import OptimizerConfig


def copies(model, optimizer) -> dict[str, torch.Tensor]:
    return {name: tensor.clone() for name, tensor in tensors_of(model, optimizer).items()}


def spoil(model, optimizer) -> None:
    with torch.no_grad():
        for tensor in tensors_of(model, optimizer).values():
            tensor.fill_(7.0)


def forge(folder: Path) -> None:
    """A manifest that fits whatever is there now: the hashes carry no key."""
    write_manifest(folder, read_manifest(folder).metadata)


def flip(path: Path) -> None:
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2] + bytes([data[len(data) // 2] ^ 1]) + data[len(data) // 2 + 1 :])


@pytest.mark.parametrize("kind", ["adamw", "sgd"])
def test_every_bit_comes_back(state, kind):
    model, optimizer, checkpoints = state(optimizer=OptimizerConfig(kind=kind, lr=0.01))
    before = copies(model, optimizer)
    assert any(name.startswith("optimizer.") for name in before)
    progress = Progress(step=5, seconds=1.5, best=0.25, best_step=4, since_best=1, evaluated=4, log_bytes=100)
    folder = checkpoints.save(progress, model, optimizer)
    assert folder.name == "step-00000005"
    spoil(model, optimizer)
    assert checkpoints.restore(folder, model, optimizer) == progress
    after = tensors_of(model, optimizer)
    assert all(torch.equal(before[name], after[name]) for name in before)


def test_a_new_optimizer_is_restored_and_weights_do_not_change(state):
    model, optimizer, _ = state()
    weights = {name: p.detach().clone() for name, p in model.named_parameters()}
    fresh = type(optimizer)(model.parameters(), lr=0.3)
    init_optimizer_state(fresh)
    assert all(torch.equal(p, weights[name]) for name, p in model.named_parameters())
    assert fresh.param_groups[0]["lr"] == 0.3
    assert set(tensors_of(model, fresh)) == set(tensors_of(model, optimizer))
    assert all(p.grad is None for p in model.parameters())


def test_only_what_it_is_made_of_is_in_it(state):
    model, optimizer, checkpoints = state()
    folder = checkpoints.save(Progress(step=1), model, optimizer)
    assert sorted(p.name for p in folder.iterdir()) == [".metadata", "__0_0.distcp", "clearhead.json", STATE]
    assert json.loads((folder / STATE).read_text())["step"] == 1


# What is kept


def steps(checkpoints: Checkpoints) -> list[int]:
    return [int(folder.name[5:]) for folder in checkpoints.all()]


def test_the_newest_few_are_kept_and_the_best(state):
    model, optimizer, checkpoints = state(keep=2)
    for step in range(1, 6):
        checkpoints.save(Progress(step=step, best_step=2 if step >= 2 else None), model, optimizer)
    assert steps(checkpoints) == [2, 4, 5]
    checkpoints.save(Progress(step=6, best_step=6), model, optimizer)
    assert steps(checkpoints) == [5, 6], "a best one that is beaten goes"


def test_one_that_was_saved_because_of_a_signal_takes_no_place(state):
    """Else a run that was stopped would keep, and average, others than one that was not."""
    model, optimizer, checkpoints = state(keep=2)
    checkpoints.save(Progress(step=10), model, optimizer)
    checkpoints.save(Progress(step=20), model, optimizer)
    checkpoints.save(Progress(step=25, between=True), model, optimizer)
    assert steps(checkpoints) == [10, 20, 25]
    assert checkpoints.newest() == checkpoints.at(25)
    assert [p.name for p in checkpoints.planned()] == ["step-00000010", "step-00000020"]
    checkpoints.save(Progress(step=30), model, optimizer)
    assert steps(checkpoints) == [20, 30]


def test_what_a_killed_process_left_is_taken_away(state):
    model, optimizer, checkpoints = state()
    (checkpoints.folder / ".step-00000003.clearhead-0a1b2c3d.new").mkdir()
    checkpoints.save(Progress(step=4), model, optimizer)
    assert stale_temporaries(checkpoints.folder) == []


def test_there_may_be_none(tmp_path):
    for folder in (tmp_path, tmp_path / "none"):
        assert Checkpoints(folder, 1).all() == []
        assert Checkpoints(folder, 1).newest() is None


# Damage


@pytest.mark.parametrize("name", ["__0_0.distcp", ".metadata", STATE, "clearhead.json"])
@pytest.mark.parametrize("how", ["flipped", "cut", "gone"])
def test_a_damaged_newest_falls_back_to_the_one_before(state, name, how):
    model, optimizer, checkpoints = state(keep=3)
    for step in (1, 2):
        checkpoints.save(Progress(step=step), model, optimizer)
    path = checkpoints.at(2) / name
    if how == "flipped":
        flip(path)
    elif how == "cut":
        path.write_bytes(path.read_bytes()[:-1])
    else:
        path.unlink()
    with pytest.warns(UserWarning, match="is damaged: .*using the previous checkpoint"):
        assert checkpoints.newest() == checkpoints.at(1)
    with pytest.raises(IntegrityError, match=name.replace(".", r"\.")):
        checkpoints.restore(checkpoints.at(2), model, optimizer)


def test_all_damaged_is_a_beginning(state):
    model, optimizer, checkpoints = state()
    flip(checkpoints.save(Progress(step=1), model, optimizer) / STATE)
    with pytest.warns(UserWarning, match="is damaged"):
        assert checkpoints.newest() is None


def test_a_damaged_later_one_neither_outlives_nor_blocks_a_new_one(state):
    """Fallen back from 9 to 3: the checkpoint at 6 is kept though 9 is later, and 9 is written anew."""
    model, optimizer, checkpoints = state(keep=1)
    for step in (3, 9):
        flip(checkpoints.save(Progress(step=step), model, optimizer) / STATE)
    checkpoints.save(Progress(step=6), model, optimizer)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert checkpoints.newest() == checkpoints.at(6)
    checkpoints.save(Progress(step=9), model, optimizer)
    assert checkpoints.newest() == checkpoints.at(9)


def test_a_model_of_other_shapes_is_told(state):
    model, optimizer, checkpoints = state()
    folder = checkpoints.save(Progress(step=1), model, optimizer)
    other = {"model.nothing": torch.zeros(3)}
    with pytest.raises(ValueError, match=r"step-00000001 cannot be read: .*nothing"):
        read_tensors(folder, other)
    name, tensor = next(iter(tensors_of(model).items()))
    with pytest.raises(ValueError, match="cannot be read"):
        read_tensors(folder, {name: torch.zeros(*(n + 1 for n in tensor.shape))})


def test_a_state_with_other_keys_is_told(state):
    model, optimizer, checkpoints = state()
    folder = checkpoints.save(Progress(step=1), model, optimizer)
    (folder / STATE).write_text('{"steps": 3}')
    forge(folder)
    with pytest.raises(ValueError, match="is not the state of a run of this version"):
        checkpoints.restore(folder, model, optimizer)


def test_a_full_disk_is_told_and_leaves_the_old(state, monkeypatch):
    model, optimizer, checkpoints = state()
    checkpoints.save(Progress(step=1), model, optimizer)
    opened = Path.open

    def full(self, *args, **kwargs):
        if self.suffix == ".distcp":
            raise OSError(28, "No space left on device")
        return opened(self, *args, **kwargs)

    monkeypatch.setattr(Path, "open", full)
    with pytest.raises(ValueError, match=r"no checkpoint can be written to .*No space left on device"):
        checkpoints.save(Progress(step=2), model, optimizer)
    assert steps(checkpoints) == [1] and stale_temporaries(checkpoints.folder) == []


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
@pytest.mark.parametrize("reading", [False, True])
def test_a_signal_while_torch_reads_or_writes_is_no_fault(state, monkeypatch, error, reading):
    model, optimizer, checkpoints = state()
    checkpoints.save(Progress(step=1), model, optimizer)

    def interrupted(*args, **kwargs):
        raise error

    monkeypatch.setattr(
        FileSystemReader if reading else FileSystemWriter, "read_data" if reading else "write_data", interrupted
    )
    act = checkpoints.restore if reading else checkpoints.save
    with pytest.raises(error):
        act(checkpoints.at(1) if reading else Progress(step=2), model, optimizer)
    assert steps(checkpoints) == [1] and stale_temporaries(checkpoints.folder) == []


# Hostility: the pickle of the index


class Runs:
    """Unpickled by anybody else, it makes a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


def hostile(folder: Path, data: bytes) -> Path:
    (folder / ".metadata").write_bytes(data)
    forge(folder)
    return folder


@pytest.fixture
def saved(state):
    model, optimizer, checkpoints = state()
    folder = checkpoints.save(Progress(step=1), model, optimizer)

    def restore() -> None:
        checkpoints.restore(folder, model, optimizer)

    restore()
    return folder, restore


def test_the_proof_proves_something(tmp_path):
    pickle.loads(pickle.dumps(Runs(tmp_path / "made")))
    assert (tmp_path / "made").exists()


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_an_index_that_would_run_code_is_refused(saved, tmp_path, protocol):
    folder, restore = saved
    hostile(folder, pickle.dumps(Runs(tmp_path / "made"), protocol))
    with pytest.raises(ValueError, match=r"the index of the checkpoint names \w+.mkdir, which does not belong in it"):
        restore()
    assert not (tmp_path / "made").exists()


def test_code_hidden_in_a_good_index_is_refused(saved, tmp_path):
    folder, restore = saved
    metadata = pickle.loads((folder / ".metadata").read_bytes())
    metadata.planner_data = Runs(tmp_path / "made")
    hostile(folder, pickle.dumps(metadata))
    with pytest.raises(ValueError, match="does not belong in it"):
        restore()
    assert not (tmp_path / "made").exists()


@pytest.mark.parametrize(
    "name",
    [
        "builtins eval",
        "os system",
        "torch load",
        "torch hub.load",
        "pathlib os",
        "collections abc",
        "pickle loads",
        "torch.serialization load",
    ],
)
def test_names_that_do_not_belong_in_an_index(saved, name):
    folder, restore = saved
    module, what = name.split()
    hostile(folder, b"c" + module.encode() + b"\n" + what.encode() + b"\n.")
    with pytest.raises(ValueError, match="does not belong in it"):
        restore()


def test_a_good_index_names_nothing_but_what_is_allowed(saved):
    from clearhead.distributed.torch_private import INDEX_CLASSES

    folder, _ = saved
    strings: list[str] = []
    for code, value, _ in pickletools.genops((folder / ".metadata").read_bytes()):
        if code.name in ("GLOBAL", "INST"):
            module, name = str(value).split()
            assert name in INDEX_CLASSES.get(module, ()) or isinstance(getattr(torch, name), torch.dtype)
        strings += [str(value)] if "UNICODE" in code.name else []
    assert any("metadata" in text for text in strings)


@pytest.mark.parametrize("path", ["../other", "/etc/passwd", "..", "", "a/../../b", "__0_0.distcp\0"])
def test_an_index_that_leads_out_of_the_folder_is_refused(saved, path):
    folder, restore = saved
    (folder.parent / "other").write_bytes((folder / "__0_0.distcp").read_bytes())
    metadata = pickle.loads((folder / ".metadata").read_bytes())
    for stored in metadata.storage_data.values():
        stored.relative_path = path
    hostile(folder, pickle.dumps(metadata))
    with pytest.raises(ValueError, match="refused"):
        restore()


def test_a_link_out_of_the_folder_is_refused(saved):
    folder, restore = saved
    (folder / "__0_0.distcp").rename(folder.parent / "other")
    (folder / "__0_0.distcp").symlink_to(folder.parent / "other")
    with pytest.raises(ValueError, match="leads out of the folder"):
        restore()


@pytest.mark.parametrize(
    "data", [b"", b"nonsense", b"\x80\x04.", pickle.dumps({}), pickle.dumps([1]), pickle.dumps(None)[:-1], b"(" * 1000]
)
def test_an_index_that_is_none_is_told(saved, data):
    folder, restore = saved
    hostile(folder, data)
    with pytest.raises(ValueError, match=r"cannot be read: .*the index of the checkpoint"):
        restore()


def test_tensors_that_would_run_code_are_refused(saved, tmp_path):
    """Torch reads them with weights_only=True; this says so if it ever stops."""
    folder, restore = saved
    data = io.BytesIO()
    torch.save(Runs(tmp_path / "made"), data)
    size = (folder / "__0_0.distcp").stat().st_size
    (folder / "__0_0.distcp").write_bytes(data.getvalue().ljust(size, b"\0"))
    metadata = pickle.loads((folder / ".metadata").read_bytes())
    for stored in metadata.storage_data.values():
        stored.offset, stored.length = 0, len(data.getvalue())
    hostile(folder, pickle.dumps(metadata))
    with pytest.raises(ValueError, match="cannot be read"):
        restore()
    assert not (tmp_path / "made").exists()
