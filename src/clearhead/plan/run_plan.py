"""The plan of a run: memory per process, bytes of collectives, time, cost, and what to change where it does not fit."""

import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from clearhead.distributed import Distributed, arrange
from clearhead.models.precision import choose_dtype
from clearhead.plan.fake_step import StaticMemory, run_fake_step
from clearhead.plan.hardware import Hardware
from clearhead.plan.step_meter import StepMeter
from clearhead.plan.synthetic_batch import check_plannable, local_batch, make_task, model_config
from clearhead.train.recipe import Recipe

HOUR_S, DAY_S = 3600.0, 86_400.0
OPTIMIZER_PASSES = {"adamw": 7, "sgd": 5}  # reads and writes of weights, gradients and states in a fused update


@dataclass(frozen=True)
class Plan:
    """The figures of one rank, of the step of all ranks, and of the whole run."""

    hardware: Hardware
    ranks: int
    parameters: int
    memory: dict[str, int]  # by kind, when the sum is largest
    largest: dict[str, int]  # of each kind, at any time
    traffic: dict[str, dict[str, float]]  # by collective: calls, and bytes that a rank sends
    tokens_per_step: int
    idle_ranks: int  # without a sequence of the batch
    compute_s: float  # of a step, each operation at its limit
    communication_s: float
    flops: float  # of a step of one rank
    steps: int
    efficiency: float
    price: float | None  # of a processor for an hour
    changes: tuple[str, ...]  # what would make it fit, or use all ranks

    @property
    def peak(self) -> int:
        """Bytes per processor."""
        return sum(self.memory.values())

    @property
    def fits(self) -> bool:
        """Whether the memory of a processor is sufficient."""
        return self.peak <= self.hardware.memory

    @property
    def step_s(self) -> float:
        """Seconds of a step: communication overlaps with computation, and both reach `efficiency` of their limits."""
        return max(self.compute_s, self.communication_s) / self.efficiency

    @property
    def tokens_per_second(self) -> float:
        """Over all processors."""
        return self.tokens_per_step / self.step_s

    @property
    def days(self) -> float:
        """The time of all steps."""
        return self.steps * self.step_s / DAY_S

    @property
    def cost(self) -> float | None:
        """The price of the run; None without a price per hour."""
        return None if self.price is None else self.price * self.ranks * self.days * DAY_S / HOUR_S

    def to_dict(self) -> dict[str, Any]:
        """Return all figures as plain values."""
        return {
            "hardware": self.hardware.title,
            "source": self.hardware.source,
            "ranks": self.ranks,
            "parameters": self.parameters,
            "memory_bytes": {**self.memory, "total": self.peak},
            "largest_bytes": self.largest,
            "capacity_bytes": self.hardware.memory,
            "fits": self.fits,
            "traffic_per_step": self.traffic,
            "tokens_per_step": self.tokens_per_step,
            "idle_ranks": self.idle_ranks,
            "flops_per_step": self.flops,
            "compute_s": self.compute_s,
            "communication_s": self.communication_s,
            "efficiency": self.efficiency,
            "step_s": self.step_s,
            "tokens_per_second": self.tokens_per_second,
            "steps": self.steps,
            "tokens": self.steps * self.tokens_per_step,
            "days": self.days,
            "price": self.price,
            "cost": self.cost,
            "changes": list(self.changes),
        }


def make_plan(
    recipe: Recipe, base: Path, ranks: int, hardware: Hardware, *, efficiency: float = 0.5, price: float | None = None
) -> Plan:
    """Shard the model of a recipe over fake ranks, run a step without numbers, and work out what it takes."""
    if ranks < 1:
        raise ValueError(f"--ranks is {ranks}: give at least 1")
    if not 0.0 < efficiency <= 1.0:
        raise ValueError(f"--efficiency is {efficiency}: it is a fraction of the roofline, above 0 and at most 1")
    check_plannable(recipe)
    settings = replace(recipe.train, dtype=_dtype(recipe, hardware))
    task = make_task(recipe, base)
    distributed = arrange(Distributed(0, ranks), recipe.parallel)
    per_rank = settings.parts_per_rank(distributed.batch_ranks)
    parts = settings.dropout_parts or distributed.batch_ranks * per_rank
    batch, examples = local_batch(recipe, task, parts)
    config = model_config(recipe, base, task)
    measured = min(2, per_rank)
    static, meter = run_fake_step(config, task, [batch] * measured, settings, distributed, hardware)
    factor = per_rank / measured
    traffic = {
        name: {"calls": factor * total.calls, "bytes": factor * total.nbytes} for name, total in meter.traffic.items()
    }
    speed = hardware.link if ranks <= hardware.per_machine else hardware.network
    update = OPTIMIZER_PASSES[settings.optimizer.kind] * static.gradients / hardware.bandwidth
    tokens = examples * (recipe.data.block_size or recipe.data.max_len)
    plan = Plan(
        hardware=hardware,
        ranks=ranks,
        parameters=static.parameters,
        memory=_at_peak(static, meter),
        largest={**_largest(static, meter)},
        traffic=traffic,
        tokens_per_step=tokens,
        idle_ranks=distributed.tensor * max(0, distributed.batch_ranks - math.ceil(examples / per_rank)),
        compute_s=factor * meter.seconds + update,
        communication_s=sum(t["bytes"] for t in traffic.values()) / speed,
        flops=factor * meter.flops,
        steps=settings.last,
        efficiency=efficiency,
        price=price,
        changes=(),
    )
    return replace(plan, changes=tuple(_changes(plan, recipe, static)))


def _dtype(recipe: Recipe, hardware: Hardware) -> Any:
    if recipe.train.dtype != "auto" or hardware.device.type == "cuda":
        return "bfloat16" if recipe.train.dtype == "auto" else recipe.train.dtype
    return str(choose_dtype("auto", "cpu")).removeprefix("torch.")


def _at_peak(static: StaticMemory, meter: StepMeter) -> dict[str, int]:
    """Return the memory by kind at the time of the largest sum: in a pass, or when the optimizer has all gradients."""
    kinds = ("activations", "gathers")
    in_pass = {kind: meter.peak.get(kind, 0) for kind in ("gradients", *kinds)}
    if sum(in_pass.values()) < static.gradients:
        in_pass = {"gradients": static.gradients, **dict.fromkeys(kinds, 0)}
    return {"weights": static.weights, "optimizer": static.optimizer, **in_pass}


def _largest(static: StaticMemory, meter: StepMeter) -> dict[str, int]:
    passes = {kind: meter.largest[kind] for kind in ("activations", "gathers")}
    return {"weights": static.weights, "optimizer": static.optimizer, "gradients": static.gradients, **passes}


def _changes(plan: Plan, recipe: Recipe, static: StaticMemory) -> list[str]:
    """Return what to change, each as a sentence with its value."""
    changes: list[str] = []
    batch_ranks = plan.ranks // recipe.parallel.tensor
    per_rank = recipe.train.parts_per_rank(batch_ranks)
    if plan.idle_ranks:
        tokens = recipe.data.block_size or recipe.data.max_len
        parts = batch_ranks * per_rank
        changes.append(
            f"{plan.idle_ranks:,} ranks have no sequence: raise train.batch_tokens to {tokens * parts:,}, "
            "or use fewer ranks"
        )
    if plan.fits:
        return changes
    room, kept = plan.hardware.memory, static.weights + static.optimizer + static.gradients
    if kept > room / 2:
        ranks = plan.ranks * 2 ** math.ceil(math.log2(2 * kept / room))
        changes.append(f"weights, gradients and optimizer alone take {kept / 1e9:.1f} GB: use {ranks:,} ranks")
    if not recipe.train.activation_checkpointing:
        changes.append("set train.activation_checkpointing=true: only the input of each block is kept")
    elif plan.tokens_per_step // batch_ranks > per_rank * recipe.data.max_len:
        parts = recipe.train.dropout_parts
        key = "gradient_accumulation" if parts is None else "dropout_parts"
        changes.append(f"set train.{key}={2 * (parts or per_rank)}: smaller parts")
    else:
        changes.append("a part is one sequence already: lower data.max_len, or the width or vocabulary of the model")
    return changes
