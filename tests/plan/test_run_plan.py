"""The plan of a run beside a run: memory and bytes of four real processes, and the arithmetic above them."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from clearhead.attention.device_info import DeviceInfo
from clearhead.plan import HARDWARE, Hardware, Plan, find_hardware, make_plan
from clearhead.train import make_recipe, prepare
from tests.distributed.together import together
from tests.plan.real_step import measure, recipe_values

NEAR = 0.02  # worst seen: 1e-7 of the memory, 4e-5 of the bytes (sums of a few numbers are not planned)
PLAIN = Hardware(
    title="a processor", memory=10**9, flops={"float32": 1e12, "bfloat16": 2e12}, bandwidth=1e11, link=2e9, network=1e9,
    per_machine=2, device=DeviceInfo("cpu"), source="made up",
)  # fmt: skip


def plan_of(folder: Path, ranks: int, hardware: Hardware = PLAIN, price: float | None = None, **train: Any) -> Plan:
    return make_plan(make_recipe(recipe_values(folder, **train)), folder, ranks, hardware, price=price)


@pytest.mark.parametrize(
    ("train", "parallel"),
    [
        ({}, {}),
        ({}, {"shard": 2, "tensor": 2}),
        pytest.param({}, {"data": 2, "shard": 2}, marks=pytest.mark.slow),
        pytest.param({"gradient_accumulation": 2, "activation_checkpointing": True}, {}, marks=pytest.mark.slow),
        pytest.param({"dropout_parts": 8}, {}, marks=pytest.mark.slow),
    ],
    ids=["plain", "tensor", "copies", "thrifty", "dropout parts"],
)
def test_memory_and_bytes_are_those_of_four_processes(train, parallel, tmp_path):
    values = {**recipe_values(tmp_path, **train), "parallel": parallel}
    run = prepare(make_recipe(values), tmp_path, tmp_path / "run")
    assert run.task.tokenizer is not None and run.task.tokenizer.vocab_size == values["tokenizer"]["vocab_size"]
    plan = make_plan(make_recipe(values), tmp_path, 4, PLAIN)
    for real in together(4, measure, values, tmp_path):
        assert plan.memory["weights"] == real["weights"]
        assert plan.memory["optimizer"] == real["optimizer"]
        assert plan.peak == pytest.approx(real["peak"], rel=NEAR)
        for name in ("all-gather", "reduce-scatter"):
            calls, size = real["traffic"][name]
            assert (plan.traffic[name]["calls"], plan.traffic[name]["bytes"]) == (calls, pytest.approx(size, rel=NEAR))
        planned = sum(traffic["bytes"] for traffic in plan.traffic.values())
        assert planned == pytest.approx(sum(size for _, size in real["traffic"].values()), rel=NEAR)


def test_what_more_ranks_and_less_memory_change(tmp_path):
    one, four = plan_of(tmp_path, 1), plan_of(tmp_path, 4)
    assert one.parameters == four.parameters and not one.traffic
    assert one.memory["weights"] == 4 * one.parameters
    for kind in ("weights", "gradients"):
        assert one.largest[kind] == pytest.approx(4 * four.largest[kind], rel=0.01)
    assert one.largest["activations"] > 3 * four.largest["activations"]
    assert one.flops == pytest.approx(4 * four.flops, rel=0.01)
    thrifty = plan_of(tmp_path, 4, activation_checkpointing=True)
    assert thrifty.largest["activations"] < 0.5 * four.largest["activations"] and thrifty.flops > 1.2 * four.flops


def test_products_are_those_of_the_model(tmp_path):
    """Six operations for each weight of a product and token, and attention's."""
    plan = plan_of(tmp_path, 1)
    products = plan.parameters - 128 * 9  # without the norms; the embedding is the output too
    attention = 4 * 2 * 2 * 128 * 128 * 3.5  # layers, products of a pair, width, length, forward and backward
    assert plan.flops == pytest.approx(plan.tokens_per_step * (6 * products + attention), rel=0.03)


def test_time_and_cost_follow_from_the_limits(tmp_path):
    plan = replace(plan_of(tmp_path, 4, price=2.0), compute_s=0.2, communication_s=0.5, efficiency=0.25)
    assert plan.step_s == 2.0
    assert plan.tokens_per_second == plan.tokens_per_step / 2
    assert plan.days == pytest.approx(10 * 2 / 86_400)
    assert plan.cost == pytest.approx(4 * 2.0 * 20 / 3600)
    slow = replace(PLAIN, network=1e6)
    sent = sum(traffic["bytes"] for traffic in plan.traffic.values())
    assert plan_of(tmp_path, 4, slow).communication_s == pytest.approx(sent / 1e6)
    inside = plan_of(tmp_path, 2, slow)
    assert inside.communication_s == pytest.approx(sum(t["bytes"] for t in inside.traffic.values()) / slow.link)


def test_a_run_that_does_not_fit_says_what_to_change(tmp_path):
    small = replace(PLAIN, memory=5 * 10**6)
    plan = plan_of(tmp_path, 4, small)
    assert not plan.fits and any("train.activation_checkpointing=true" in change for change in plan.changes)
    tiny = plan_of(tmp_path, 4, replace(PLAIN, memory=10**6), activation_checkpointing=True)
    (ranks,) = (change for change in tiny.changes if "use" in change and "ranks" in change)
    assert "use 64 ranks" in ranks
    assert any("train.gradient_accumulation=2" in change for change in tiny.changes)
    parts = plan_of(tmp_path, 4, replace(PLAIN, memory=10**6), activation_checkpointing=True, dropout_parts=4)
    assert any("train.dropout_parts=8" in change for change in parts.changes)
    assert plan_of(tmp_path, 4).changes == ()


def test_ranks_without_a_sequence_are_counted(tmp_path):
    plan = plan_of(tmp_path, 64)
    assert plan.idle_ranks == 32 and "raise train.batch_tokens to 8,192" in plan.changes[0]


def test_a_gpu_takes_its_own_kernel(tmp_path):
    """FlashAttention keeps no scores, and products are bfloat16."""
    gpu = plan_of(tmp_path, 4, HARDWARE["a100-80"], dtype="auto")
    cpu = plan_of(tmp_path, 4, dtype="float32")
    assert gpu.largest["activations"] < 0.8 * cpu.largest["activations"]
    assert gpu.compute_s < 0.1 * cpu.compute_s


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"task": "translate", "data": {"train": {"source": "a", "target": "b"}}}, "the lengths of its examples"),
        ({"model": {"base_model": "there"}}, "model.base_model is set"),
        ({"train": {"epochs": 2}}, r"give --set train.epochs=null train.steps=N"),
    ],
)
def test_what_cannot_be_planned_is_refused(change, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        make_plan(make_recipe({**recipe_values(tmp_path), **change}), tmp_path, 4, PLAIN)


def test_wrong_options_are_refused(tmp_path):
    recipe = make_recipe(recipe_values(tmp_path))
    with pytest.raises(ValueError, match="--ranks is 0"):
        make_plan(recipe, tmp_path, 0, PLAIN)
    with pytest.raises(ValueError, match=r"--efficiency is 1\.5"):
        make_plan(recipe, tmp_path, 1, PLAIN, efficiency=1.5)
    with pytest.raises(ValueError, match=r"--gpu is 'a100': .*a100-80"):
        find_hardware("a100")


def test_the_command(tmp_path):
    values = recipe_values(tmp_path)
    (tmp_path / "recipe.yaml").write_text(yaml.safe_dump(values))
    command = [sys.executable, "-m", "clearhead.cli", "plan", "recipe.yaml", "--ranks", "1024", "--gpu", "h100"]
    command += ["--set", "train.batch_tokens=131072", "--price", "2.5"]
    done = subprocess.run([*command, "--json"], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["ranks"] == 1024 and result["idle_ranks"] == 0 and result["cost"] > 0
    assert result["memory_bytes"]["total"] == sum(v for k, v in result["memory_bytes"].items() if k != "total")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["recipe.yaml", "text.txt"], "nothing is written"
