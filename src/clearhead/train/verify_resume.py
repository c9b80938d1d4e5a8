"""Verify that a run resumes bit for bit: one that is killed at random moments is compared with one that is not."""

import multiprocessing
import os
import random
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor

from clearhead.files import stale_temporaries
from clearhead.train.checkpoint import Checkpoints, init_optimizer_state, read_tensors, tensors_of
from clearhead.train.optimizer import make_optimizer
from clearhead.train.recipe import Recipe, make_recipe, to_plain
from clearhead.train.run import TrainingRun, prepare, train
from clearhead.train.tracking import TIMES, read_log

Moment = Literal["starting", "training", "saving"]
MOMENTS: tuple[Moment, ...] = ("starting", "training", "saving")
PRELOAD = [
    "clearhead.train.verify_resume",
    "grain.experimental",
    "tensorboard.summary.writer.record_writer",
    "torch._dynamo",
]
STALL_TIMEOUT_S = 600.0  # without the moment to kill at


@dataclass(frozen=True)
class InjectedKill:
    """One process that was killed by SIGKILL."""

    moment: Moment
    step: int  # the last step in its log
    resumed: int  # the step of the checkpoint that the next process resumes from


@dataclass(frozen=True)
class ProofCheck:
    """The comparison of one quantity between both runs."""

    what: str
    count: int
    difference: str | None  # the first difference; None: equal


@dataclass(frozen=True)
class ResumeProof:
    """The kills that were made and the comparisons after them."""

    kills: list[InjectedKill]
    runs: int  # interrupted runs that finished
    checks: list[ProofCheck]  # of the last run: the first difference ends the verification

    @property
    def holds(self) -> bool:
        return all(check.difference is None for check in self.checks)


def shortened(recipe: Recipe, steps: int) -> Recipe:
    """Return the recipe with fewer steps, and several checkpoints and evaluations among them."""
    every = max(1, steps // 8)
    settings = replace(recipe.train, steps=steps, save_every=every, evaluate_every=2 * every, patience=None)
    return replace(recipe, train=settings)


def prove(
    recipe: Recipe,
    base: Path,
    folder: Path,
    *,
    kills: int,
    seed: int,
    on_progress: Callable[[InjectedKill | str], object] = lambda event: None,
) -> ResumeProof:
    """Train `recipe` once without interruption and once killed `kills` times; compare weights, logs and models."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(PRELOAD)
    reference = folder / "reference"
    values = to_plain(recipe), str(base), torch.get_num_threads()

    def start(where: Path) -> BaseProcess:
        process = context.Process(target=_train, args=(*values, str(where)))
        process.start()
        return process

    on_progress("training without interruption")
    process = start(reference)
    process.join()
    _check_end(process)
    run = prepare(recipe, base, reference)
    rng = random.Random(seed)
    done: list[InjectedKill] = []
    checks: list[list[ProofCheck]] = []
    while len(done) < kills or not checks:  # a finished run is compared, and another one starts
        interrupted = folder / f"interrupted-{len(checks)}"
        process = start(interrupted)
        while len(done) < kills and (kill := _kill(process, interrupted, recipe, rng)):
            done.append(kill)
            on_progress(kill)
            process = start(interrupted)
        process.join()
        _check_end(process)
        checks.append(list(_compare(run, reference, interrupted)))
        if any(check.difference for check in checks[-1]):
            break
    return ResumeProof(done, len(checks), checks[-1])


def _train(values: dict[str, Any], base: str, threads: int, folder: str) -> None:
    torch.set_num_threads(threads)
    train(prepare(make_recipe(values), Path(base), Path(folder)), shown=False)


def _kill(process: BaseProcess, folder: Path, recipe: Recipe, rng: random.Random) -> InjectedKill | None:
    """Kill a process at a random moment; return None if it finished before."""
    moment = rng.choice(MOMENTS)
    saved = folder / "checkpoints"
    checkpoints = Checkpoints(saved, recipe.train.keep)
    before = _step(folder)
    target = before + rng.randint(1, max(1, recipe.train.save_every))
    end = time.monotonic() + STALL_TIMEOUT_S
    if moment == "starting":
        time.sleep(rng.uniform(0.0, 0.5))
    while moment != "starting" and process.is_alive() and time.monotonic() < end:
        if moment == "training" and _step(folder) >= target:
            time.sleep(rng.uniform(0.0, 0.05))
            break
        if moment == "saving" and saved.is_dir() and stale_temporaries(saved):
            time.sleep(rng.uniform(0.0, 0.01))
            break
        time.sleep(0.001)
    if process.pid is None or not process.is_alive():
        process.join()
        return None
    os.kill(process.pid, signal.SIGKILL)
    process.join()
    newest = checkpoints.newest()
    return InjectedKill(moment, _step(folder), 0 if newest is None else int(newest.name.removeprefix("step-")))


def _step(folder: Path) -> int:
    """Return the last step in the log of a run; its last line may be incomplete."""
    path = folder / "log.jsonl"
    lines = path.read_bytes().split(b"\n")[:-1] if path.is_file() else []
    return len([line for line in lines if b'"loss"' in line])


def _check_end(process: BaseProcess) -> None:
    if process.exitcode != 0:
        raise ValueError(
            f"a process ended with exit code {process.exitcode}: train the recipe with `clearhead train` to see why"
        )


def _compare(run: TrainingRun, reference: Path, interrupted: Path) -> Iterator[ProofCheck]:
    folders = (reference, interrupted)
    a, b = (_tensors(run, folder) for folder in folders)
    for what in ("model", "optimizer"):
        names = [name for name in a if name.startswith(what)]
        unequal = [name for name in names if not torch.equal(a[name], b[name])]
        yield ProofCheck({"model": "weights"}.get(what, what), len(names), unequal[0] if unequal else None)
    records = [read_log(folder / "log.jsonl") for folder in folders]
    logs = [[{key: r[key] for key in r if key not in TIMES} for r in log] for log in records]
    for what, keys in (("sample order", ("epoch", "batch", "examples")), ("losses", ("loss", "norm", "lr"))):
        steps = ([{k: r.get(k) for k in ("step", *keys)} for r in log if "loss" in r] for log in logs)
        pairs = zip(*steps, strict=False)
        unequal = [f"step {x['step']}: {x} and {y}" for x, y in pairs if x != y]
        yield ProofCheck(what, sum("loss" in r for r in logs[0]), unequal[0] if unequal else None)
    same = logs[0] == logs[1]
    yield ProofCheck("full log", len(logs[0]), None if same else f"{len(logs[0])} and {len(logs[1])} records")
    files = [(folder / "model" / "model.safetensors").read_bytes() for folder in folders]
    yield ProofCheck("final model", len(files[0]), None if files[0] == files[1] else "model.safetensors")


def _tensors(run: TrainingRun, folder: Path) -> dict[str, Tensor]:
    model = run.empty_model()
    optimizer = make_optimizer(model, run.recipe.train.optimizer)
    last = Checkpoints(folder / "checkpoints", 1).all()[-1]
    init_optimizer_state(optimizer)
    tensors = tensors_of(model, optimizer)
    read_tensors(last, tensors)
    return tensors
