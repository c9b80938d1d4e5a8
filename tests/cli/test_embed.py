from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from clearhead.pipeline import load
from tests.cli.typed import refused
from tests.files.hostile import valid
from tests.warm_command import run_command as run

COMMAND = str(Path(sys.executable).parent / "clearhead")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return valid(tmp_path_factory.mktemp("models") / "bert")


TEXTS = ["a b c", "", "d e", "f " * 60, "x"]


def test_every_way_out_holds_the_same(folder, tmp_path):
    want = np.asarray(load(folder).encode([t for t in TEXTS if len(t) < 50]).numpy())
    texts = tmp_path / "texts.txt"
    texts.write_text("\n".join(TEXTS) + "\n")
    out = run("embed", folder, "--dtype", "float32", text=texts.read_text())
    assert out.returncode == 0, out.stderr
    assert "1 texts were truncated to the model's limit of 32 tokens; the longest has 62" in out.stderr
    rows = [json.loads(line) for line in out.stdout.splitlines()]
    assert [row["text"] for row in rows] == [0, 1, 2, 3, 4]
    lines = np.array([row["vector"] for row in rows])
    np.testing.assert_allclose(lines[[0, 1, 2, 4]], want, atol=1e-6)
    for name in ("v.jsonl", "v.npy", "v.parquet"):
        out = run("embed", folder, texts, "--dtype", "float32", "--out", tmp_path / name, "--batch-tokens", 8)
        assert out.returncode == 0, out.stderr
        assert not (tmp_path / f"{name}.partial").exists()
    np.testing.assert_allclose(np.load(tmp_path / "v.npy"), lines, atol=1e-6)
    parquet = pytest.importorskip("pyarrow.parquet").read_table(tmp_path / "v.parquet")
    np.testing.assert_allclose(np.array(parquet["vector"].to_pylist()), lines, atol=1e-6)
    assert parquet["text"].to_pylist() == [0, 1, 2, 3, 4]
    assert len((tmp_path / "v.jsonl").read_text().splitlines()) == 5


def test_a_run_that_is_stopped_goes_on(popen, folder, tmp_path):
    """Ctrl-C leaves whole rows, and the number to go on from; the two parts make the whole."""
    texts = tmp_path / "many.txt"
    texts.write_text("".join(f"{'abcdefgh'[i % 8]} b c d e\n" for i in range(200_000)))
    out = tmp_path / "v.npy"
    process = popen(
        [COMMAND, "embed", str(folder), str(texts), "--dtype", "float32", "--out", str(out)],
        stderr=subprocess.PIPE,
    )  # fmt: skip
    partial = tmp_path / "v.npy.partial"
    while not (partial.exists() and partial.stat().st_size > 100_000):
        assert process.poll() is None
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    _, told = process.communicate(timeout=120)
    assert process.returncode == 130
    done = int(told.rpartition("--skip ")[2])
    first = np.load(partial)
    assert len(first) == done and not out.exists()
    rest = tmp_path / "rest.txt"
    rest.write_text("".join(texts.read_text().splitlines(True)[: done + 50]))
    assert run("embed", folder, rest, "--dtype", "float32", "--out", tmp_path / "w.npy", "--skip", done).returncode == 0
    both = np.concatenate([first, np.load(tmp_path / "w.npy")])
    np.testing.assert_allclose(both, load(folder).encode(rest.read_text().splitlines()).numpy(), atol=1e-6)


def test_wrong_input_is_told_in_a_line(folder, tmp_path):
    bad = tmp_path / "bad.txt"
    bad.write_bytes(b"fine\n\xff\xfe\n")
    for args, words in (
        (("embed", folder, bad), "bad.txt, line 2: not UTF-8"),
        (("embed", tmp_path / "none"), "there is no folder"),
        (("embed", folder, tmp_path / "none.txt"), "none.txt"),
        (("embed", folder, bad, "--out", "x.csv"), "'.csv': use .jsonl, .npy or .parquet"),
        (("embed", folder, bad, "--dtype", "int3"), "there is no dtype 'int3'"),
        (("embed", folder, bad, "--pool", "median"), "there is no pooling 'median'"),
        (("embed", folder, bad, "--device", "toaster"), "there is no device 'toaster'"),
        (("embed", folder, bad, "--device", "xpu"), "finds no xpu on this machine; use cpu"),
    ):
        assert words in refused(*args)


def test_info(folder, tmp_path):
    found = json.loads(run("info", folder, "--json").stdout)
    assert found["architecture"] == "BertModel" and found["intact"] is None and found["width"] == 16
    assert found["parameters"] == sum(p.numel() for p in load(folder).model.parameters())
    saved = tmp_path / "saved"
    load(folder).save(saved)
    assert "every file matches its checksum (saved by clearhead" in " ".join(run("info", saved).stdout.split())
    data = bytearray((saved / "model.safetensors").read_bytes())
    data[-1] ^= 1
    (saved / "model.safetensors").write_bytes(data)
    out = run("info", saved)
    assert out.returncode == 1 and "model.safetensors was changed" in " ".join(out.stdout.split())
    assert run("info", tmp_path).returncode == 2
