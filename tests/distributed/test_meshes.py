"""A mesh of processes trains the model of a single one: copies, shards, and blocks that are divided."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from clearhead.distributed import Distributed, ParallelConfig, arrange
from clearhead.train import make_recipe, prepare
from clearhead.train.optimizer import clip, make_optimizer
from tests.distributed.test_equal import begin, check_equal, digests, records, run_both, work
from tests.distributed.tiny import tiny
from tests.distributed.together import together

MESHES = {
    "two copies of two shards": {"data": 2, "shard": 2},
    "two parts": {"shard": 1, "tensor": 2},
    "two shards of two parts": {"shard": 2, "tensor": 2},
}


def on_mesh(folder: Path, parallel: dict[str, int], **train: Any) -> dict[str, Any]:
    return {**tiny(folder, **train), "parallel": parallel}


@pytest.fixture(scope="module")
def base(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("meshes")


@pytest.fixture(scope="module")
def half(base) -> tuple[Path, dict[str, str]]:
    """Half a run in one process: its folder, and the tensors it had at the end."""
    folder = begin(tiny(base, steps=25), base, "half")
    ((_, after),) = together(1, work, tiny(base, steps=25), base, folder)
    return folder, after


@pytest.fixture(scope="module")
def single(base, half) -> list[dict[str, Any]]:
    """The log of 50 steps in one process."""
    folder = shutil.copytree(half[0], base / "single")
    begin(tiny(base), base, "single")
    together(1, work, tiny(base), base, folder)
    return records(folder)


@pytest.mark.parametrize("name", MESHES)
def test_fifty_steps_are_those_of_one_process_and_its_checkpoint_opens(name, base, half, single):
    """The first half was trained by one process, the second half goes on from its checkpoint on the mesh."""
    source, tensors = half
    folder = shutil.copytree(source, base / f"from-{name}")
    values = on_mesh(base, MESHES[name])
    begin(values, base, folder.name)
    count = ParallelConfig(**MESHES[name]).processes
    for before, _ in together(count, work, values, base, folder):
        assert before == tensors  # to the bit
    check_equal(single, records(folder))


def test_one_process_opens_the_checkpoint_of_a_mesh(base, single):
    values = on_mesh(base, {"shard": 2, "tensor": 2}, steps=25)
    folder = begin(values, base, "mesh-first")
    ends = [after for _, after in together(4, work, values, base, folder)]
    assert all(end == ends[0] for end in ends)
    begin(tiny(base), base, folder.name)
    ((before, _),) = together(1, work, tiny(base), base, folder)
    assert before == ends[0]  # to the bit
    check_equal(single, records(folder))


def test_a_translator_of_gated_layers_and_grouped_heads_is_divided(tmp_path):
    """Cross-attention, two query heads for a key head, and dropout of the residuals, which all parts share."""
    values = tiny(tmp_path, steps=6, evaluate_every=3)
    values["task"] = "translate"
    lines = (tmp_path / "text.txt").read_text().splitlines()
    (tmp_path / "back.txt").write_text("\n".join(" ".join(reversed(line.split())) for line in lines) + "\n")
    values["data"] = {"train": {"source": "text.txt", "target": "back.txt"}, "validation_rows": 8, "max_len": 32}
    values["model"] |= {"num_heads": 4, "dropout": 0.1}
    logs = []
    for count, parallel in ((1, {}), (2, {"shard": 1, "tensor": 2})):
        folder = begin({**values, "parallel": parallel}, tmp_path, f"run-{count}")
        together(count, work, {**values, "parallel": parallel}, tmp_path, folder)
        logs.append(records(folder))
    check_equal(*logs)


def test_a_llama_is_divided(tmp_path):
    values = tiny(tmp_path, steps=6, evaluate_every=3, gradient_accumulation=2, activation_checkpointing=True)
    values["model"] = {"kind": "llama", "width": 32, "num_heads": 4, "num_kv_heads": 2, "num_layers": 2, "ffn_dim": 48}
    one, _ = run_both(values, tmp_path, "alone", 1)
    folder = begin({**values, "parallel": {"tensor": 2}}, tmp_path, "divided")
    together(2, work, {**values, "parallel": {"tensor": 2}}, tmp_path, folder)
    check_equal(one, records(folder))


def clipped(ranks: Distributed, values: dict[str, Any], base: Path, folder: Path) -> tuple[float, dict[str, str]]:
    """The norm of a gradient that is its own weight, and the gradient after it is clipped to 1."""
    run = prepare(make_recipe(values), base, folder)
    ranks = arrange(ranks, run.recipe.parallel)
    model = run.job(ranks, shown=False).model
    make_optimizer(model, run.settings.optimizer)
    for param in model.parameters():
        param.grad = param.detach().clone()
    norm = clip(model, 1e9, ranks)
    clip(model, norm / 2, ranks)
    return norm, digests({name: param.grad for name, param in model.named_parameters() if param.grad is not None})


def test_the_norm_counts_each_weight_once(tmp_path):
    one, *_ = together(1, clipped, tiny(tmp_path), tmp_path, begin(tiny(tmp_path), tmp_path, "one"))
    values = on_mesh(tmp_path, {"shard": 2, "tensor": 2})
    answers = together(4, clipped, values, tmp_path, begin(values, tmp_path, "four"))
    norms = {norm for norm, _ in answers}
    assert len(norms) == 1, "all ranks have the same norm, to the bit"
    assert norms.pop() == pytest.approx(one[0], rel=1e-6)
    assert all(grads == answers[0][1] for _, grads in answers) and len(answers[0][1]) == len(one[1])


@pytest.mark.parametrize(
    ("model", "message"),
    [
        ({"num_heads": 2}, r"parallel.tensor is 4, but the model has 2 query heads"),
        ({"num_heads": 4, "ffn_dim": 34}, r"model.ffn_dim is 34, which is no multiple of it"),
        ({"num_heads": 4, "attention_dropout": 0.1}, r"set model.attention_dropout to 0"),
        ({"num_heads": 4, "hidden_dropout": 0.1}, r"set model.hidden_dropout to 0"),
        ({"kind": "gru", "width": 16, "hidden_size": 24}, r"a recurrent model has no heads: set it to 1"),
    ],
)
def test_what_cannot_be_divided_is_refused(model, message, tmp_path):
    values = on_mesh(tmp_path, {"tensor": 4})
    values["model"] = model if "kind" in model else values["model"] | model
    folder = begin(values, tmp_path, "run")
    assert all(re.search(message, answer) for answer in together(4, refusal, values, tmp_path, folder))


def refusal(ranks: Distributed, values: dict[str, Any], base: Path, folder: Path) -> str:
    run = prepare(make_recipe(values), base, folder)
    try:
        run.job(arrange(ranks, run.recipe.parallel), shown=False)
    except ValueError as error:
        return str(error)
    return "not refused"
