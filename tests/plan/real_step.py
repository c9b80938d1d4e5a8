"""A training step of real processes, measured without the planner: by torch's profiler and by the process group."""

from __future__ import annotations

import itertools
import random
from pathlib import Path
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile

from clearhead.distributed import Distributed, arrange
from clearhead.plan.step_meter import StepMeter
from clearhead.train import make_recipe, prepare
from clearhead.train.checkpoint import tensors_of
from clearhead.train.loop import make_batches, step
from clearhead.train.optimizer import make_optimizer
from clearhead.train.prefetch import StepParts, read_batches
from clearhead.train.signals import SignalGuard
from tests.distributed.tiny import WORDS


def recipe_values(folder: Path, **train: Any) -> dict[str, Any]:
    """A language model on text of one long line after the other: every block is full."""
    chance = random.Random(0)
    lines = [" ".join(chance.choices(WORDS, k=60)) for _ in range(400)]
    (folder / "text.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return {
        "task": "language_model",
        "data": {"train": {"text": "text.txt"}, "validation_rows": 20, "max_len": 128},
        "tokenizer": {"vocab_size": 300},
        "model": {"kind": "llama", "width": 128, "num_heads": 4, "num_layers": 4, "ffn_dim": 512},
        "train": {"steps": 10, "batch_tokens": 4096, "dtype": "float32", **train},
    }


def measure(ranks: Distributed, values: dict[str, Any], base: Path) -> dict[str, Any]:
    """The bytes of this rank in a step: what stays, the peak, and the buffers of each collective.

    The peak is the smallest of three steps: the threads of gloo allocate buffers of their own at any time.
    """
    run_of = prepare(make_recipe(values), base, base / "run")
    ranks = arrange(ranks, run_of.recipe.parallel)
    job = run_of.job(ranks, shown=False)
    optimizer = make_optimizer(job.model, job.settings.optimizer)
    batches = make_batches(job.task, job.columns, job.settings, job.seed)

    def run(number: int) -> None:
        examples = batches.batch(*batches.place(number))
        parts = StepParts.of(job.task, job.columns, examples, job.settings, ranks)
        inputs = read_batches(job.task, job.columns, parts, number)
        step(job, optimizer, inputs, number, ranks, SignalGuard())

    run(0)  # the optimizer has its state now
    weights = sum(getattr(x, "to_local", lambda x=x: x)().nbytes for x in tensors_of(job.model).values())
    states = [x for x in tensors_of(job.model, optimizer).items() if x[0].startswith("optimizer.")]
    optimizer_bytes = sum(getattr(x, "to_local", lambda x=x: x)().nbytes for _, x in states)
    peaks: list[int] = []
    for _ in range(3):
        with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
            run(1)
        kineto: Any = profiler.profiler
        events = [e for e in kineto.kineto_results.events() if e.name() == "[memory]"]
        sizes = [e.nbytes() for e in sorted(events, key=lambda e: e.start_ns())]
        peaks.append(max(itertools.accumulate(sizes)))
    with StepMeter() as meter:
        run(2)
    return {
        "weights": weights,
        "optimizer": optimizer_bytes,
        "peak": weights + optimizer_bytes + min(peaks),
        "traffic": {name: (t.calls, t.nbytes) for name, t in meter.traffic.items()},
        "threads": torch.get_num_threads(),
    }
