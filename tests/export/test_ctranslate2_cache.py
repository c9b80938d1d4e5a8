"""Cached exports: written once, found again, replaced when the weights change, whole after a kill and under a race."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from clearhead.export import ctranslate2_cache as cache
from clearhead.export.ctranslate2 import build_spec
from clearhead.files import stale_temporaries
from clearhead.pipeline import load
from tests.decode.conftest import corpus, folders  # noqa: F401

pytest.importorskip("ctranslate2")


@pytest.fixture
def folder(folders, tmp_path):  # noqa: F811
    """A copy of a translator's folder."""
    load(folders["marian"], dtype="float32").save(tmp_path / "model")
    return tmp_path / "model"


@pytest.fixture(autouse=True)
def user_cache(tmp_path, monkeypatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache"


def spec_of(folder: Path):
    generator = load(folder, dtype="float32").generator
    return build_spec(generator.model, generator.tokenizer, generator.defaults.constraints)


def files(export: Path) -> dict[str, tuple[int, int]]:
    return {p.name: (p.stat().st_ino, p.stat().st_mtime_ns) for p in export.iterdir()}


def test_an_export_is_written_once(folder, user_cache):
    first = cache.cached_export(spec_of(folder), folder, "int8")
    assert first.parent == folder / ".ctranslate2" and first.name.startswith("int8-")
    before = files(first)
    assert cache.cached_export(spec_of(folder), folder, "int8") == first and files(first) == before
    other = cache.cached_export(spec_of(folder), folder, "float32")
    assert other != first and first.exists()
    assert not user_cache.exists()
    load(folder)  # its manifest still fits


def test_a_damaged_export_is_written_again(folder):
    export = cache.cached_export(spec_of(folder), folder, "int8")
    good = (export / "model.bin").read_bytes()
    (export / "model.bin").write_bytes(good[:-1] + bytes([good[-1] ^ 1]))
    assert not cache.is_complete(export)
    assert cache.cached_export(spec_of(folder), folder, "int8") == export
    assert (export / "model.bin").read_bytes() == good
    (export / "model.bin").unlink()
    cache.cached_export(spec_of(folder), folder, "int8")
    assert cache.is_complete(export)


def test_other_weights_replace_an_export(folder):
    model = load(folder, dtype="float32")
    generator = model.generator
    parts = generator.model, generator.tokenizer, generator.defaults.constraints
    kept = cache.cached_export(build_spec(*parts), folder, "float32")
    old = cache.cached_export(build_spec(*parts), folder, "int8")
    with torch.no_grad():
        next(iter(model.model.parameters()))[0, 0] += 1e-3
    new = cache.cached_export(build_spec(*parts), folder, "int8")
    assert new != old and not old.exists() and kept.exists()


def test_folders_of_others_are_not_written_to(folder, user_cache, tmp_path, monkeypatch):
    snapshot = tmp_path / "snapshot"
    snapshot.mkdir()
    for file in folder.iterdir():
        (snapshot / file.name).symlink_to(file)
    for model in (snapshot, None):
        export = cache.cached_export(spec_of(folder), model, "int8")
        assert user_cache in export.parents and cache.is_complete(export)
    assert not (snapshot / ".ctranslate2").exists()
    write = cache._write

    def read_only(spec, target):
        if folder in target.parents:
            raise OSError(errno.EROFS, "Read-only file system", str(target))
        return write(spec, target)

    monkeypatch.setattr(cache, "_write", read_only)
    export = cache.cached_export(spec_of(folder), folder, "int8")
    assert user_cache in export.parents
    assert cache.cached_export(spec_of(folder), folder, "int8") == export


CHILD = """
import os, signal, sys, time
from pathlib import Path
from clearhead.export import ctranslate2_cache as cache
from tests.export.test_ctranslate2_cache import spec_of
folder, how = Path(sys.argv[1]), sys.argv[2]
spec = spec_of(folder)
save = type(spec).save
def slow(self, target):
    save(self, target)
    if how == "kill":
        with open(Path(target) / "model.bin", "r+b") as file:
            file.truncate(100)
        os.kill(os.getpid(), signal.SIGKILL)
    (folder / f"saved-{os.getpid()}").touch()
    while len(list(folder.glob("saved-*"))) < 2:
        time.sleep(0.01)  # both have written, and rename at the same time
type(spec).save = slow
print(cache.cached_export(spec, folder, "int8"))
"""


def child(folder: Path, how: str) -> subprocess.Popen[str]:
    root = Path(__file__).parents[2]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(root / "src"), str(root)])}
    arguments = [sys.executable, "-c", CHILD, str(folder), how]
    return subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True, env=environment, cwd=root)


def test_a_kill_leaves_nothing_that_is_used(folder):
    with child(folder, "kill") as process:
        assert process.wait(120) == -signal.SIGKILL
    home = folder / ".ctranslate2"
    (left,) = stale_temporaries(home)
    assert not list(home.glob("int8-*")) and (left / "model.bin").stat().st_size == 100
    export = cache.cached_export(spec_of(folder), folder, "int8")
    assert cache.is_complete(export) and left.exists()  # it might still be written by another process
    old = time.time() - 2 * cache.ABANDONED_S
    os.utime(left, (old, old))
    cache.cached_export(spec_of(folder), folder, "float32")
    assert not left.exists() and cache.is_complete(export)


def test_two_processes_export_at_once(folder):
    processes = [child(folder, "race") for _ in range(2)]
    outputs = {process.communicate(timeout=120)[0].strip() for process in processes}
    assert [process.returncode for process in processes] == [0, 0]
    (export,) = outputs
    assert cache.is_complete(Path(export)) and not stale_temporaries(folder / ".ctranslate2")
