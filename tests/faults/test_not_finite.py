"""RELIABILITY 4: NaN and Inf, put anywhere at any step, change no weight and nothing that the optimizer keeps."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
import torch
from torch import nn

from clearhead.data import TokenBudgetBatches
from clearhead.distributed import Distributed
from clearhead.train import NotFinite, fit, loop, prepare
from clearhead.train.checkpoint import tensors_of
from clearhead.train.loop import step
from tests.train.tiny import recipe, texts

TRIALS = 100
PLACES = ("weight", "activation", "gradient", "input")


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    base = tmp_path_factory.mktemp("finite")
    texts(base)
    return prepare(recipe(steps=6, evaluate_every=100, save_every=100), base, base / "run")


def bits(model: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, bytes]:
    return {name: tensor.numpy().tobytes() for name, tensor in tensors_of(model, optimizer).items()}


def poisoned(tensor: torch.Tensor, value: float, chance: random.Random) -> torch.Tensor:
    tensor = tensor.detach().clone() if tensor.is_leaf else tensor.clone()
    tensor.view(-1)[chance.randrange(tensor.numel())] = value
    return tensor


def poison(model: nn.Module, place: str, value: float, chance: random.Random) -> str:
    """Put a value into one number of one tensor, from now on; says where."""
    params = dict(model.named_parameters())
    if place == "weight":
        name = chance.choice(list(params))
        params[name].data = poisoned(params[name].data, value, chance)
        return name
    if place == "gradient":
        name = chance.choice(list(params))
        params[name].register_hook(lambda grad: poisoned(grad, value, chance))
        return name
    modules = {
        name: module
        for name, module in model.named_modules()
        if isinstance(module, (nn.Linear, nn.LayerNorm))
        and not name.startswith("head")  # of the head only weights are read
    }
    name = chance.choice(list(modules))
    if place == "activation":

        def changed(module: nn.Module, args: object, out: torch.Tensor) -> torch.Tensor:
            return poisoned(out, value, chance)

        modules[name].register_forward_hook(changed)
    else:
        modules[name].register_forward_pre_hook(lambda module, args: (poisoned(args[0], value, chance), *args[1:]))
    return name


class Poisoned:
    """`loop.step`, which finds something poisoned at one step, and what there was before it."""

    def __init__(self, at: int, place: str, value: float, chance: random.Random) -> None:
        self.at, self.poison = at, (place, value, chance)
        self.before: dict[str, bytes] = {}
        self.where = ""

    def __call__(self, job, optimizer, inputs, number, *rest):
        if number == self.at:
            self.optimizer = optimizer
            self.where = poison(job.model, *self.poison)
            self.before = bits(job.model, optimizer)
        return step(job, optimizer, inputs, number, *rest)


@pytest.mark.parametrize("place", PLACES)
def test_nothing_is_updated_and_step_and_batch_are_told(run, tmp_path, monkeypatch, place):
    chance = random.Random(place)
    for trial in range(TRIALS // len(PLACES)):
        at, value = chance.randrange(6), chance.choice([float("nan"), float("inf")])
        (folder := tmp_path / str(trial)).mkdir()
        job = replace(run.job(Distributed(), shown=False), folder=folder)
        poisoning = Poisoned(at, place, value, chance)
        monkeypatch.setattr(loop, "step", poisoning)
        with pytest.raises(NotFinite) as told:
            fit(job)
        case = f"{value} in {place} {poisoning.where} at step {at + 1}"
        assert bits(job.model, poisoning.optimizer) == poisoning.before, case
        batches = TokenBudgetBatches(job.task.lengths(job.columns), job.settings.batch_tokens, job.seed)
        epoch, i = batches.place(at)
        examples = len(batches.batch(epoch, i))
        says = f"of step {at + 1} is not finite (epoch {epoch}, batch {i}: {examples} examples"
        assert says in str(told.value) and "no weight was updated" in str(told.value), case
        assert (folder / "log.jsonl").read_bytes().count(b"\n") == at
