"""Model folders in an object store: saved, loaded and served from there, verified, and cached by their content."""

from __future__ import annotations

import json

import pytest
import torch
from typer.testing import CliRunner

import clearhead
from clearhead.cli import app
from clearhead.files import IntegrityError, verify
from clearhead.files.s3_folder import cache_home, upload_folder
from clearhead.hub.resolve import resolve_model
from tests.files.hostile import valid


@pytest.fixture
def model(tmp_path):
    return clearhead.load(valid(tmp_path / "valid"))


def weights(pipeline) -> list[torch.Tensor]:
    return [param.detach() for param in pipeline.model.parameters()]


def test_saved_and_loaded(model, bucket):
    address = str(bucket / "models" / "first")
    model.save(address)
    verify(bucket / "models" / "first")
    again = clearhead.load(address)
    assert all(torch.equal(a, b) for a, b in zip(weights(model), weights(again), strict=True))
    assert again.loaded.metadata == model.loaded.metadata | again.loaded.metadata
    assert "first" in (bucket / "models" / "first" / "README.md").read_bytes().decode()


def test_the_cache_is_by_content(model, bucket):
    address = bucket / "first"
    model.save(address)
    folder = resolve_model(str(address))
    assert folder.parent == cache_home() / "models" and resolve_model(str(address)) == folder
    with torch.no_grad():
        next(iter(model.model.parameters())).fill_(0.5)
    model.save(address, overwrite=True)
    other = resolve_model(str(address))
    assert other != folder and torch.equal(weights(clearhead.load(other))[0], weights(model)[0])


def test_an_existing_folder_is_not_overwritten(model, bucket):
    model.save(bucket / "first")
    with pytest.raises(FileExistsError, match="is not empty: give another address"):
        model.save(bucket / "first")
    (bucket / "first" / "old.txt").write_bytes(b"old")
    model.save(bucket / "first", overwrite=True)
    assert "old.txt" not in (bucket / "first").files()


def test_a_damaged_model_is_refused_and_not_cached(model, bucket):
    model.save(bucket / "first")
    path = bucket / "first" / "model.safetensors"
    data = path.read_bytes()
    path.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    with pytest.raises(IntegrityError, match=r"model\.safetensors' was changed"):
        clearhead.load(str(bucket / "first"))
    assert not any((cache_home() / "models").iterdir())


def test_an_incomplete_model_is_refused(model, bucket):
    model.save(bucket / "first")
    (bucket / "first" / "clearhead.json").unlink()
    with pytest.raises(ValueError, match=r"is incomplete: clearhead\.json is missing"):
        clearhead.load(str(bucket / "first"))


def test_a_folder_of_transformers(model, bucket, tmp_path):
    """Without a manifest; neither code nor pickles are copied."""
    model.save(tmp_path / "plain")
    config = json.loads((tmp_path / "plain" / "config.json").read_text())
    del config["clearhead"]
    (tmp_path / "plain" / "config.json").write_text(json.dumps(config))
    (tmp_path / "plain" / "clearhead.json").unlink()
    for name in ("code.py", "pytorch_model.bin"):
        (tmp_path / "plain" / name).write_text("no")
    upload_folder(tmp_path / "plain", bucket / "plain")
    again = clearhead.load(str(bucket / "plain"))
    assert all(torch.equal(a, b) for a, b in zip(weights(model), weights(again), strict=True))
    names = {path.name for path in resolve_model(str(bucket / "plain")).iterdir()}
    assert {"config.json", "model.safetensors"} <= names and not names & {"code.py", "pytorch_model.bin"}


def test_names_that_lead_out_of_the_folder_are_refused(model, bucket):
    model.save(bucket / "first")
    (bucket / "first" / "1_Pooling\\config.json").write_bytes(b"{}")
    (bucket / "first" / "a\\b.json").write_bytes(b"{}")
    with pytest.raises(ValueError, match="a name must be relative and plain"):
        resolve_model(str(bucket / "first"))


def test_no_model(bucket):
    with pytest.raises(ValueError, match=r"there is no model at s3://.*/none: it has no config\.json"):
        resolve_model(str(bucket / "none"))
    with pytest.raises(ValueError, match="no such bucket"):
        resolve_model("s3://no-such-bucket/model")
    with pytest.raises(ValueError, match="no revision"):
        resolve_model(str(bucket / "none"), "main")


def test_commands_take_addresses(model, bucket):
    model.save(bucket / "first")
    done = CliRunner().invoke(app, ["info", str(bucket / "first"), "--json"])
    assert done.exit_code == 0, done.stderr
    assert json.loads(done.stdout)["intact"] is True
