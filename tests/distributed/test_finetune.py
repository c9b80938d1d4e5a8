"""Fine-tuning in several processes: the run of one process, from a base model that only the main rank opens."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from clearhead.distributed import arrange
from clearhead.distributed.ranks import Distributed
from clearhead.train import fit, init_model, make_recipe, prepare, train
from clearhead.train.tracking import read_log
from tests.distributed.test_equal import check_equal
from tests.distributed.tiny import tiny
from tests.distributed.together import together


@pytest.fixture(scope="module")
def base(tmp_path_factory) -> Path:
    """A folder with a text, and in `start` a model that was trained on it."""
    folder = tmp_path_factory.mktemp("finetune")
    train(prepare(make_recipe(tiny(folder, steps=2)), folder, folder / "start"), shown=False)
    return folder


def values(base: Path, **model: Any) -> dict[str, Any]:
    settings = tiny(base, steps=6, evaluate_every=3)
    return {k: v for k, v in settings.items() if k != "tokenizer"} | {"model": {"base_model": "start/model", **model}}


def work(ranks: Distributed, recipe: dict[str, Any], base: Path, folder: Path) -> set[str]:
    """Train to the end; the devices on which the base model was opened."""
    load, devices = init_model._load, set[str]()

    def noted(task: Any, recipe: Any, source: Any, device: str) -> Any:
        devices.add(device)
        return load(task, recipe, source, device)

    init_model._load = noted
    run = prepare(make_recipe(recipe), base, folder)
    ranks = arrange(ranks, run.recipe.parallel)
    fit(run.job(ranks, shown=False), ranks)
    return devices


@pytest.mark.parametrize(
    ("name", "model", "parallel"),
    [
        ("plain", {}, {}),
        ("lora", {"lora": {"rank": 2}}, {}),
        ("longer", {"max_len": 64, "freeze": 1}, {}),
        ("tensor", {}, {"tensor": 2}),
        pytest.param("both", {}, {"shard": 2, "tensor": 2}, marks=pytest.mark.slow),
    ],
)
def test_a_base_model_is_opened_by_the_main_rank_alone(base, name, model, parallel):
    logs, opened = [], []
    for size, mesh in ((1, {}), (4 if len(parallel) == 2 else 2, parallel)):
        recipe, folder = {**values(base, **model), "parallel": mesh}, base / f"{name}-{size}"
        prepare(make_recipe(recipe), base, folder)  # the data is made once
        opened.append(together(size, work, recipe, base, folder))
        logs.append(read_log(folder / "log.jsonl"))
    check_equal(*logs)
    one, several = opened
    assert one == [{"meta", "cpu"}]
    assert several == [{"meta", "cpu"}, *[{"meta"}] * (len(several) - 1)]
