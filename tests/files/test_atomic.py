"""Files and folders are there whole or not at all: errors, Ctrl-C, kill -9, full disks, power cuts."""

from __future__ import annotations

import errno
import os
import random
import resource
import signal
import subprocess
import sys
import textwrap
import threading
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from clearhead.files import atomic, new_folder, stale_temporaries, write_atomic, write_manifest
from tests.files.powercut import Tree, recorded

OLD: Tree = {"config.json": b"old config", "weights": b"old" * 100}
NEW: Tree = {
    "config.json": b"new",
    "weights": b"new weights" * 50,
    "below": {"deep": {"file": b"x" * 300}},
    "empty": b"",
}


def write(folder: Path, tree: Tree) -> None:
    for name, value in tree.items():
        if isinstance(value, bytes):
            (folder / name).write_bytes(value)
        else:
            (folder / name).mkdir(parents=True)
            write(folder / name, value)


def read(folder: Path) -> Tree:
    return {p.name: read(p) if p.is_dir() else p.read_bytes() for p in folder.iterdir()}


@pytest.fixture(params=["exchange", "two renames"])
def system(request, monkeypatch):
    if request.param == "two renames":
        monkeypatch.setattr(atomic, "_exchange", lambda a, b: False)
    elif sys.platform != "linux":
        pytest.skip("only Linux exchanges two folders")
    return request.param


@pytest.fixture
def target(tmp_path):
    folder = tmp_path / "model"
    folder.mkdir()
    write(folder, OLD)
    return folder


# Writing


def test_write_atomic(tmp_path):
    for data in (b"bytes\r\n", "text \u00e4\n", ""):
        write_atomic(tmp_path / "file", data)
        assert (tmp_path / "file").read_bytes() == (data.encode() if isinstance(data, str) else data)
    assert [p.name for p in tmp_path.iterdir()] == ["file"]


def test_write_atomic_replaces_a_link_and_leaves_what_it_pointed_to(tmp_path):
    (tmp_path / "other").write_text("other")
    (tmp_path / "link").symlink_to("other")
    write_atomic(tmp_path / "link", "mine")
    assert (tmp_path / "other").read_text() == "other"
    assert (tmp_path / "link").read_text() == "mine"


@pytest.mark.parametrize("name", ["fsync", "replace"])
@pytest.mark.parametrize("error", [OSError, KeyboardInterrupt])
def test_write_atomic_that_fails_leaves_the_old(tmp_path, monkeypatch, name, error):
    def fails(*_):
        raise error

    (tmp_path / "file").write_text("old")
    monkeypatch.setattr(os, name, fails)
    with pytest.raises(error):
        write_atomic(tmp_path / "file", "new")
    assert read(tmp_path) == {"file": b"old"}


def test_a_new_folder(tmp_path):
    with new_folder(tmp_path / "model") as folder:
        assert not (tmp_path / "model").exists()
        assert stale_temporaries(tmp_path) == [folder]
        write(folder, NEW)
    assert read(tmp_path / "model") == NEW
    assert stale_temporaries(tmp_path) == []


def test_an_empty_folder_is_a_free_name(tmp_path):
    (tmp_path / "model").mkdir()
    with new_folder(tmp_path / "model") as folder:
        write(folder, NEW)
    assert read(tmp_path / "model") == NEW


def test_overwriting(system, target):
    with new_folder(target, overwrite=True) as folder:
        write(folder, NEW)
        assert read(target) == OLD
    assert read(target) == NEW
    assert os.listdir(target.parent) == ["model"]


def test_overwriting_nothing(tmp_path):
    with new_folder(tmp_path / "model", overwrite=True) as folder:
        write(folder, NEW)
    assert read(tmp_path / "model") == NEW


def test_the_folder_behind_a_link_is_replaced(system, target):
    link = target.with_name("link")
    link.symlink_to(target)
    with new_folder(link, overwrite=True) as folder:
        write(folder, NEW)
    assert link.is_symlink() and read(target) == NEW


def test_files_get_the_permissions_of_the_umask(tmp_path):
    before = os.umask(0o027)
    try:
        with new_folder(tmp_path / "model") as folder:
            (folder / "a").touch(mode=0o600)  # as safetensors does
        assert (tmp_path / "model" / "a").stat().st_mode & 0o777 == 0o640
        assert (tmp_path / "model").stat().st_mode & 0o777 == 0o750
    finally:
        os.umask(before)


# Refusing


def test_a_folder_that_holds_something_is_refused(target):
    with pytest.raises(FileExistsError, match="is not empty: give another name, or allow"), new_folder(target):
        pytest.fail("not reached")
    assert read(target) == OLD


def test_a_file_is_refused(tmp_path):
    (tmp_path / "model").write_text("a file")
    for overwrite in (False, True):
        with pytest.raises(FileExistsError, match="is a file"), new_folder(tmp_path / "model", overwrite=overwrite):
            pytest.fail("not reached")


def test_a_missing_parent_is_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match="create it first"), new_folder(tmp_path / "no" / "model"):
        pytest.fail("not reached")


def test_a_target_that_is_filled_in_the_meantime_is_left_alone(tmp_path):
    def save() -> None:
        with new_folder(tmp_path / "model") as folder:
            write(folder, NEW)
            (tmp_path / "model").mkdir()
            write(tmp_path / "model", OLD)

    with pytest.raises(OSError, match="not empty"):
        save()
    assert read(tmp_path / "model") == OLD
    assert stale_temporaries(tmp_path) == []


# Errors


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit, GeneratorExit])
@pytest.mark.parametrize("overwrite", [False, True])
def test_an_error_leaves_no_trace(tmp_path, error, overwrite):
    target = tmp_path / "model"
    if overwrite:
        target.mkdir()
        write(target, OLD)

    def save() -> None:
        with new_folder(target, overwrite=overwrite) as folder:
            write(folder, NEW)
            raise error

    with pytest.raises(error):
        save()
    assert os.listdir(tmp_path) == (["model"] if overwrite else [])
    assert not overwrite or read(target) == OLD


@pytest.mark.parametrize("failing", range(1, 30))
def test_every_call_that_fails_leaves_the_old_or_the_new(system, target, monkeypatch, failing):
    """The n-th fsync, rename or mkdir raises: as a disk does that is broken, or a Ctrl-C in between."""
    calls = 0

    def faulty(call):
        def run(*args, **kwargs):
            nonlocal calls
            calls += 1
            if calls == failing:
                raise KeyboardInterrupt if failing % 2 else OSError(errno.EIO, "broken")
            return call(*args, **kwargs)

        return run

    failed = False
    with monkeypatch.context() as patch:
        for name in ("fsync", "rename", "mkdir"):
            patch.setattr(os, name, faulty(getattr(os, name)))
        try:
            with new_folder(target, overwrite=True) as folder:
                write(folder, NEW)
        except (OSError, KeyboardInterrupt):
            failed = True
    assert failed == (failing <= calls)
    assert read(target) in (OLD, NEW)
    assert failed or read(target) == NEW
    assert all(read(p) in (OLD, NEW) for p in stale_temporaries(target.parent)), "a leftover is whole, or gone"


def test_two_writers_of_one_name_leave_one_whole_folder(system, target):
    def save(tree: Tree) -> None:
        with suppress(OSError), new_folder(target, overwrite=True) as folder:
            write(folder, tree)

    trees: list[Tree] = [{f"file {i}": bytes([i]) * 1000 for i in range(k, k + 5)} for k in range(6)]
    threads = [threading.Thread(target=save, args=(tree,)) for tree in trees]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if system == "exchange":
        assert read(target) in trees
    else:  # two pairs of renames can cross; what is there is whole all the same
        assert not target.exists() or read(target) in [OLD, *trees]


def test_a_killed_process_leaves_a_name_that_is_known(tmp_path, target):
    code = f"""
        import os, signal
        from clearhead.files import new_folder
        with new_folder({str(target)!r}, overwrite=True) as folder:
            (folder / "half").write_text("half")
            os.kill(os.getpid(), signal.SIGKILL)
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(code)])
    assert done.returncode == -signal.SIGKILL
    assert read(target) == OLD
    (left,) = stale_temporaries(tmp_path)
    assert left.name.startswith(".model.clearhead-") and left.suffix == ".new"
    with new_folder(target, overwrite=True) as folder:
        write(folder, NEW)
    assert read(target) == NEW


# RELIABILITY 9: a full disk


def save_model(target: Path) -> None:
    """What a save does: weights by safetensors, JSON by us, a manifest, in a new folder."""
    with new_folder(target, overwrite=True) as folder:
        save_file({"a": np.zeros(5000, np.float32)}, folder / "model.safetensors")
        write_atomic(folder / "config.json", "{" + " " * 3000 + "}")
        (folder / "vocab.txt").write_text("word\n" * 500)
        write_manifest(folder, {"task": "none"})


def outcome(target: Path) -> str:
    """Whether a save worked; if it did not, the folder is as it was, and nothing else is there."""
    before, beside = read(target), sorted(os.listdir(target.parent))
    try:
        save_model(target)
        result = "saved"
    except Exception as error:
        result = str(error)
        assert read(target) == before
    assert sorted(os.listdir(target.parent)) == beside
    return result


def test_files_that_cannot_grow(target):
    """The system refuses to let any file grow beyond so many bytes, as a full disk does, in whoever writes it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    outcomes = []
    for limit in [*range(0, 4000, 50), *range(4000, 22_000, 1000)]:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))
        try:
            outcomes.append(outcome(target))
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert outcomes[-1] == "saved"
    assert len(outcomes) - outcomes.count("saved") > 90
    assert all("File too large" in result for result in outcomes if result != "saved")


def test_a_full_disk(tmp_path):
    """A disk of 64 kB, with ever more of it free, until a save fits."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", disk], capture_output=True)
    if mounted.returncode:
        pytest.skip("may not mount a small disk here")
    try:
        (disk / "model").mkdir()
        (disk / "model" / "old").write_bytes(b"old")
        outcomes = []
        for pages in range(15, -1, -1):
            (disk / "ballast").write_bytes(bytes(4096 * pages))
            outcomes.append(outcome(disk / "model"))
        refused = [result for result in outcomes if result != "saved"]
        assert len(refused) > 5 and outcomes.count("saved") > 1
        assert all("No space left" in result for result in refused)
    finally:
        subprocess.run(["umount", disk], check=True)


def test_every_write_call_that_finds_the_disk_full(target, monkeypatch):
    """The n-th write of our own writes half and raises ENOSPC, for every n there is."""
    opened, calls = Path.open, 0

    def opens(self: Path, mode: str = "r", *args, **kwargs):
        file = opened(self, mode, *args, **kwargs)
        return Full(file) if mode in ("w", "xb") else file

    class Full:
        def __init__(self, file):
            self.file = file

        def __enter__(self):
            return self

        def __exit__(self, *_):
            self.file.close()

        def __getattr__(self, name):
            return getattr(self.file, name)

        def write(self, data):
            nonlocal calls
            calls += 1
            if calls == failing:
                self.file.write(data[: len(data) // 2])
                raise OSError(errno.ENOSPC, "No space left on device")
            return self.file.write(data)

    monkeypatch.setattr(Path, "open", opens)
    failing, refused = 1, 0
    while (result := outcome(target)) != "saved":
        assert "No space left" in result
        failing, refused, calls = failing + 1, refused + 1, 0
    assert refused == 3, "three writes of ours"


# RELIABILITY 8: the power goes


def crashes(recorder, per_state: int):
    draw = random.Random(0)
    for disk in recorder.states:
        for _ in range(per_state):
            yield disk.crash(draw)


def test_power_cut_while_a_folder_is_replaced(system, target, monkeypatch):
    with recorded(target.parent, monkeypatch) as recorder, new_folder(target, overwrite=True) as folder:
        write(folder, NEW)
    count = 0
    between = 0
    for tree in crashes(recorder, 60):
        count += 1
        if "model" in tree:
            assert tree["model"] in (OLD, NEW)
        else:
            assert system == "two renames"
            between += 1
            beside = {Path(name).suffix: value for name, value in tree.items()}
            assert beside[".old"] == OLD and beside[".new"] == NEW, "both whole, under their names"
    assert count >= 1000
    assert (between > 0) == (system == "two renames")
    assert recorder.states[-1].crash(random.Random(0))["model"] == NEW, "what was reported done stays done"


def test_power_cut_while_a_folder_is_made(tmp_path, monkeypatch):
    with recorded(tmp_path, monkeypatch) as recorder, new_folder(tmp_path / "model") as folder:
        write(folder, NEW)
    trees = list(crashes(recorder, 60))
    assert len(trees) >= 1000
    assert all(tree.get("model", NEW) == NEW for tree in trees)
    assert all(tree["model"] == NEW for tree in [recorder.states[-1].crash(random.Random(i)) for i in range(100)])


def test_power_cut_while_a_file_is_written(tmp_path, monkeypatch):
    path = tmp_path / "file"
    path.write_bytes(b"old")
    with recorded(tmp_path, monkeypatch) as recorder:
        write_atomic(path, b"new" * 100)
    trees = list(crashes(recorder, 200))
    assert len(trees) >= 1000
    contents = [tree["file"] for tree in trees]
    assert {content for content in contents if isinstance(content, bytes)} == {b"old", b"new" * 100}
    assert all(isinstance(content, bytes) for content in contents)
    assert recorder.states[-1].crash(random.Random(0))["file"] == b"new" * 100


@pytest.mark.parametrize("careless", ["files", "folders", "parent"])
def test_the_model_of_the_disk_finds_a_missing_fsync(target, monkeypatch, careless):
    """The proof proves something: leave one kind of fsync out, and it fails."""
    right = atomic._sync

    def sync(path: Path) -> None:
        kind = "parent" if path == target.parent else "folders" if path.is_dir() else "files"
        if kind != careless:
            right(path)

    monkeypatch.setattr(atomic, "_sync", sync)
    with recorded(target.parent, monkeypatch) as recorder, new_folder(target, overwrite=True) as folder:
        write(folder, NEW)
    assert any(tree.get("model") not in (OLD, NEW) for tree in crashes(recorder, 60))
