"""`clearhead export` of encoders: what is written, what is told, what is refused."""

from __future__ import annotations

import json

import pytest
import torch

from clearhead.export import compare as beside
from clearhead.export.compare import compare_exported, ragged
from clearhead.hub.folder import open_folder
from clearhead.pipeline import load
from tests.cli.typed import refused
from tests.files.hostile import valid
from tests.warm_command import run_command as run


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return valid(tmp_path_factory.mktemp("models") / "bert")


@pytest.mark.slow
def test_onnx_is_held_against_the_original(folder, tmp_path):
    pytest.importorskip("onnxscript")
    done = run("export", folder, "--to", "onnx", "--out", tmp_path / "onnx", "--json")
    assert done.returncode == 0 and not done.stderr, done.stderr
    told = json.loads(done.stdout)
    assert (told["engine"], told["dtype"]) == ("onnx", "float32")
    assert told["bytes"] == sum(f.stat().st_size for f in (tmp_path / "onnx").rglob("*") if f.is_file())
    assert max(told["max_diff_single"], told["max_diff_batch"]) < 1e-5 and told["max_abs_output"] > 0.1
    assert told["sequences_per_s"] > 0 and told["original_sequences_per_s"] > 0


def test_int8_is_told_in_three_lines(folder, tmp_path):
    pytest.importorskip("torchao", exc_type=ImportError)
    done = run("export", folder, "--to", "int8", "--out", tmp_path / "int8")
    assert done.returncode == 0, done.stderr
    size, parity, speed = done.stdout.splitlines()
    assert "int8" in size and "largest difference from the original" in parity and "sequences/s; original" in speed
    assert load(tmp_path / "int8").encode("a b").shape == (16,)
    done = run("export", folder, "--to", "int8", "--out", tmp_path / "again", "--no-measure")
    assert len(done.stdout.splitlines()) == 1


def test_what_is_refused(folder, tmp_path):
    for args, words in (
        (("--to", "tflite"), "unknown export format 'tflite': choose ctranslate2, onnx, int8"),
        (("--to", "int8", "--quantization", "int8"), "is for onnx and ctranslate2"),
        (("--to", "onnx", "--quantization", "int4"), "no quantization 'int4' for ONNX"),
        (("--to", "ctranslate2"), "does not generate text"),
    ):
        assert words in refused("export", folder, *args, "--out", tmp_path / "x")
    assert not (tmp_path / "x").exists()


def test_the_comparison_finds_what_differs(folder):
    """An engine that is right alone and wrong in a batch is told apart; the slower one is slower."""
    opened = open_folder(folder, dtype=torch.float32)
    true = ragged(opened)

    def wrong(ids, layout, segments):
        out = true(ids, layout, segments)
        true(ids, layout, segments)
        true(ids, layout, segments)
        off = 0.0 if len(set(layout.host_lengths)) == 1 else 0.5
        return {name: value + off for name, value in out.items()}

    found = compare_exported(opened, wrong, seconds=0.2)
    assert found.max_diff_single == 0.0 and found.max_diff_batch == pytest.approx(0.5, abs=1e-4)
    assert found.sequences_per_s < found.original_sequences_per_s
    assert compare_exported(opened, true, seconds=0.0).max_diff_batch < 1e-6
    assert len(beside.TEXTS) > 3
