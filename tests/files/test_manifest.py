"""RELIABILITY 7: no byte of a folder with a manifest changes without being noticed and named."""

from __future__ import annotations

import json
import os
import pickle
import shutil

import pytest

from clearhead.files import (
    MARKER,
    IntegrityError,
    is_marked,
    manifest,
    read_config,
    read_manifest,
    read_parts,
    sha256,
    verify,
    verify_if_marked,
    write_manifest,
)
from tests.files.hostile import valid


@pytest.fixture
def folder(tmp_path):
    return valid(tmp_path / "model", manifest=True)


def names(folder):
    return sorted(p.name for p in folder.iterdir())


# What it says


def test_a_manifest_is_read_back(folder):
    (folder / "below" / "more").mkdir(parents=True)
    (folder / "below" / "more" / "x.json").write_text("{}")
    facts = {"task": "classify", "labels": {0: "schön", 10: "b", 2: "c"}, "provenance": {"rate": 1e-3, "steps": (1, 2)}}
    written = write_manifest(folder, facts)
    assert read_manifest(folder) == written == verify(folder) == verify_if_marked(folder)
    assert written.metadata == {
        "task": "classify",
        "labels": {"0": "schön", "10": "b", "2": "c"},
        "provenance": {"rate": 1e-3, "steps": [1, 2]},
    }
    assert set(written.files) == {*names(folder), "below/more/x.json"} - {"below", "clearhead.json"}
    assert written.files["config.json"].sha256 == sha256(folder / "config.json")
    assert "schön" in (folder / "clearhead.json").read_text()


def test_a_subfolder_with_a_manifest_is_listed_by_it_alone(tmp_path):
    folder = tmp_path / "tree"
    (folder / "a" / "b").mkdir(parents=True)
    for name in ("top.json", "a/one.json", "a/b/two.json"):
        (folder / name).write_text("{}")
    inner = write_manifest(folder / "a", {"kind": "part"})
    outer = write_manifest(folder, {"kind": "root"})
    assert set(inner.files) == {"one.json", "b/two.json"} and set(outer.files) == {"top.json", "a/clearhead.json"}
    assert verify(folder) == outer and read_parts(folder, outer) == {"a": inner}
    (folder / "a" / "b" / "two.json").write_text("[]")
    with pytest.raises(IntegrityError, match=r"'a/b/two.json' was changed"):
        verify(folder)
    write_manifest(folder / "a", {"kind": "part"})  # agrees with its files, but is not the one that was listed
    with pytest.raises(IntegrityError, match=r"'a/clearhead.json' was changed"):
        verify(folder)
    with pytest.raises(IntegrityError, match=r"'a/clearhead.json' was changed"):
        read_parts(folder, outer)
    (folder / "a" / "clearhead.json").unlink()
    with pytest.raises(IntegrityError, match=r"'a/clearhead.json' is missing"):
        read_parts(folder, outer)
    with pytest.raises(IntegrityError, match=r"'a/b/two.json' is not listed"):
        verify(folder)


def test_a_manifest_does_not_hide_files_of_another(folder):
    (folder / "below").mkdir()
    (folder / "below" / "x.json").write_text("{}")
    write_manifest(folder / "below", {})
    with pytest.raises(IntegrityError, match=r"'below/clearhead.json' is not listed"):
        verify(folder)


def test_manifests_are_nested_a_few_times_only(tmp_path):
    deepest = tmp_path / "root" / "/".join("x" * (manifest.MAX_NESTED + 1))
    deepest.mkdir(parents=True)
    below = deepest
    while below != tmp_path:
        write_manifest(below, {})
        below = below.parent
    assert verify(tmp_path / "root" / "x").version
    with pytest.raises(IntegrityError, match=f"nested in more than {manifest.MAX_NESTED} other manifests"):
        verify(tmp_path / "root")


def test_writing_again_gives_the_same_bytes(folder):
    before = (folder / "clearhead.json").read_bytes()
    write_manifest(folder, {"task": "encode"})
    assert (folder / "clearhead.json").read_bytes() == before


def test_facts_must_be_json(folder):
    for facts in ({"a": float("nan")}, {"a": object()}, {"a": "\ud800"}, {"a": "x" * (5 << 20)}):
        with pytest.raises((ValueError, TypeError)):
            write_manifest(folder, facts)
    assert verify(folder)


def test_two_threads_find_the_same(folder, monkeypatch):
    monkeypatch.setattr(manifest, "MIN_BYTES_TWO_THREADS", 0)
    before = (folder / "clearhead.json").read_bytes()
    write_manifest(folder, {"task": "encode"})
    assert (folder / "clearhead.json").read_bytes() == before and verify(folder)
    for name in ("vocab.txt", "tokenizer.json"):
        (folder / name).write_text("x")
    with pytest.raises(IntegrityError) as caught:
        verify(folder)
    assert set(caught.value.problems) == {"vocab.txt", "tokenizer.json"}


def test_a_link_outside_is_not_put_into_a_manifest(folder):
    (folder / "x.txt").symlink_to("/etc/passwd")
    with pytest.raises(ValueError, match="leads out"):
        write_manifest(folder, {})


def test_the_marker(folder):
    config = read_config(folder)
    assert is_marked(config) and config["clearhead"] == MARKER["clearhead"]
    assert not is_marked({"model_type": "bert"})


def test_a_folder_that_never_had_one(tmp_path):
    assert verify_if_marked(valid(tmp_path / "model")) is None


def test_a_damaged_folder_is_an_error_that_travels(folder):
    (folder / "vocab.txt").unlink()
    with pytest.raises(IntegrityError) as caught:
        verify(folder)
    again = pickle.loads(pickle.dumps(caught.value))
    assert str(again) == str(caught.value) and again.problems == {"vocab.txt": "is missing"}


# What it finds


def test_every_problem_is_named_at_once(folder):
    (folder / "vocab.txt").write_text("x")
    (folder / "tokenizer.json").unlink()
    (folder / "added.json").write_text("{}")
    data = bytearray((folder / "model.safetensors").read_bytes())
    data[-1] ^= 1
    (folder / "model.safetensors").write_bytes(data)
    with pytest.raises(IntegrityError) as caught:
        verify(folder)
    assert caught.value.problems == {
        "vocab.txt": "has 1 bytes instead of 83",
        "tokenizer.json": "is missing",
        "added.json": "is not listed in the manifest",
        "model.safetensors": "was changed: its SHA-256 differs",
    }
    assert all(name in str(caught.value) for name in caught.value.problems)


def test_a_great_many_problems_are_counted(folder):
    for i in range(30):
        (folder / f"{i:02d}.json").write_text("{}")
    with pytest.raises(IntegrityError, match=r"'19\.json' is not listed in the manifest; 10 more") as caught:
        verify(folder)
    assert len(caught.value.problems) == 30


@pytest.mark.parametrize("name", ["x.json", "x.safetensors", "x.txt", "x.model", "x.jinja", "X.JSON", "below/x.json"])
def test_a_file_that_would_be_read_must_be_listed(folder, name):
    (folder / name).parent.mkdir(exist_ok=True)
    (folder / name).write_text("{}")
    with pytest.raises(IntegrityError, match=f"'{name}' is not listed"):
        verify(folder)


@pytest.mark.parametrize(
    "name", ["README.md", ".gitattributes", "picture.png", ".cache/x.json", ".git/x.txt", "a/.b/x.json"]
)
def test_other_files_may_be_added(folder, name):
    (folder / name).parent.mkdir(exist_ok=True, parents=True)
    (folder / name).write_text("{}")
    assert verify(folder)


def test_a_link_to_a_folder_is_not_followed(folder, tmp_path):
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "x.json").write_text("{}")
    (folder / "link").symlink_to(tmp_path / "other")
    assert verify(folder)
    (folder / "link.json").symlink_to(tmp_path / "other")
    with pytest.raises(IntegrityError, match=r"link.json"):
        verify(folder)


def test_a_folder_in_the_cache_of_hugging_face(folder, tmp_path):
    repository = tmp_path / "hub" / "models--x--y"
    snapshot = repository / "snapshots" / "rev"
    snapshot.mkdir(parents=True)
    shutil.copytree(folder, repository / "blobs")
    for path in folder.iterdir():
        (snapshot / path.name).symlink_to(f"../../blobs/{path.name}")
    assert verify_if_marked(snapshot)
    (repository / "blobs" / "vocab.txt").write_text("x")
    with pytest.raises(IntegrityError, match=r"vocab.txt"):
        verify_if_marked(snapshot)


@pytest.mark.parametrize(
    "name",
    ["clearhead.json", "config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json", "vocab.txt"],
)
def test_every_file_that_is_deleted(folder, name):
    (folder / name).unlink()
    with pytest.raises(IntegrityError, match=f"'{name}' is missing"):
        verify_if_marked(folder)


def test_without_the_marker_a_manifest_counts_all_the_same(folder):
    config = json.loads((folder / "config.json").read_text())
    del config["clearhead"]
    (folder / "config.json").write_text(json.dumps(config))
    with pytest.raises(IntegrityError, match=r"'config.json' has"):
        verify_if_marked(folder)


def flips(folder, step):
    """One bit in every `step`-th byte of every file, another bit each time: the refusals, of which none may lack."""
    count = 0
    for name in names(folder):
        with (folder / name).open("r+b", buffering=0) as file:
            for at in range(0, os.fstat(file.fileno()).st_size, step):
                right = os.pread(file.fileno(), 1, at)
                os.pwrite(file.fileno(), bytes([right[0] ^ (1 << (at // step % 8))]), at)
                assert blamed(folder) == {name}, f"{name}, byte {at}"
                os.pwrite(file.fileno(), right, at)
                count += 1
    return count


def truncations(folder, step):
    count = 0
    for name in names(folder):
        right = (folder / name).read_bytes()
        with (folder / name).open("r+b", buffering=0) as file:
            for length in range(len(right) - 1, -1, -step):
                file.truncate(length)
                assert blamed(folder) == {name}, f"{name}, {length} bytes"
                count += 1
        (folder / name).write_bytes(right)
    return count


def blamed(folder) -> set[str]:
    try:
        verify_if_marked(folder)
    except IntegrityError as error:
        assert all(name in str(error) for name in error.problems)  # noqa: PT017
        return set(error.problems)
    return set()


def test_flipped_bits_here_and_there(folder):
    assert flips(folder, 23) > 800
    assert verify_if_marked(folder)


def test_truncations_here_and_there(folder):
    assert truncations(folder, 23) > 800
    assert verify_if_marked(folder)


@pytest.mark.slow
def test_one_bit_of_every_byte(folder):
    assert flips(folder, 1) > 20_000
    assert verify_if_marked(folder)


@pytest.mark.slow
def test_every_truncation(folder):
    assert truncations(folder, 1) > 20_000
    assert verify_if_marked(folder)
