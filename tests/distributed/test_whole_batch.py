"""In-batch negatives over ranks: any number of processes computes the same loss and trains the same weights."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from clearhead.distributed.ranks import Distributed, full_tensor
from clearhead.train import fit, make_recipe, prepare
from clearhead.train.tracking import read_log
from tests.distributed.together import together

NEAR = 1e-6  # relative, as in test_equal.py
WORDS = ["amber", "bread", "cloud", "delta", "eagle", "field", "grape", "honey", "ivory", "jewel"]


def values(accumulation: int, dropout_parts: int | None = None) -> dict[str, Any]:
    return {
        "task": "embed",
        "data": {
            "train": {"file": "pairs.jsonl", "anchor": "anchor", "positive": "positive"},
            "validation_rows": 8,
            "max_len": 24,
        },
        "model": {"width": 16, "num_layers": 2, "num_heads": 2, "ffn_dim": 32, "dropout": 0.2 if dropout_parts else 0.0},
        "tokenizer": {"vocab_size": 80},
        "train": {
            "steps": 4, "batch_examples": 10, "gradient_accumulation": accumulation, "dropout_parts": dropout_parts,
            "evaluate_every": 2,
            "dtype": "float32", "schedule": {"kind": "constant", "warmup": 0},
            "optimizer": {"kind": "sgd", "lr": 0.1},
        },
    }  # fmt: skip


def work(ranks: Distributed, base: Path, folder: Path, *parts: int) -> dict[str, np.ndarray]:
    job = prepare(make_recipe(values(*parts)), base, folder).job(ranks, shown=False)
    fit(job, ranks)
    return {name: full_tensor(p.detach()).numpy() for name, p in job.model.named_parameters()}


def run(base: Path, size: int, *parts: int) -> tuple[list[dict[str, float]], dict[str, np.ndarray]]:
    folder = base / f"run-{size}-{parts}"
    prepare(make_recipe(values(*parts)), base, folder)  # the data is made once
    weights = work(Distributed(), base, folder, *parts) if size == 1 else together(size, work, base, folder, *parts)[0]
    return list(read_log(folder / "log.jsonl")), weights


@pytest.fixture(scope="module")
def base(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("pairs")
    rng = np.random.default_rng(0)

    def text() -> str:
        return " ".join(rng.choice(WORDS, size=rng.integers(2, 12)))

    rows = [{"anchor": text(), "positive": text()} for _ in range(48)]
    (folder / "pairs.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder


@pytest.fixture(scope="module")
def single(base):
    """One process, the whole batch at once."""
    return run(base, 1, 1)


@pytest.mark.parametrize(("size", "accumulation"), [(2, 1), (4, 1), (1, 4), (2, 2)])
def test_the_loss_and_the_weights_do_not_depend_on_the_number_of_processes(base, single, size, accumulation):
    check_equal(single, run(base, size, accumulation))


def test_dropout_is_that_of_the_parts_in_any_number_of_processes(base):
    """Three parts, whose texts are encoded twice: in one process, and in two of two parts each, the last one empty."""
    check_equal(run(base, 1, 1, 3), run(base, 2, 1, 3))


def check_equal(one: tuple[list[Any], dict[str, Any]], several: tuple[list[Any], dict[str, Any]]) -> None:
    (log, weights), (other, others) = one, several
    assert len(log) == len(other) >= 6
    for mine, theirs in zip(log, other, strict=True):
        for name in mine.keys() & {"loss", "norm", "valid_loss"}:
            assert theirs[name] == pytest.approx(mine[name], rel=NEAR), (mine["step"], name)
    for name, weight in weights.items():
        np.testing.assert_allclose(others[name], weight, rtol=1e-5, atol=1e-6, err_msg=name)
