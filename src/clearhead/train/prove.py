"""The proof that a run resumes to the bit: killed at random points, it is held against one that was not."""

from __future__ import annotations

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

from clearhead.files import leftovers
from clearhead.train.checkpoint import Checkpoints, fill_optimiser, read_tensors, tensors_of
from clearhead.train.optimise import make_optimiser
from clearhead.train.recipe import Recipe, make_recipe, plain
from clearhead.train.run import Run, prepare, train
from clearhead.train.tracking import TIMES, read_log

Moment = Literal["starting", "training", "saving"]
MOMENTS: tuple[Moment, ...] = ("starting", "training", "saving")
PRELOAD = ["clearhead.train.prove", "grain.experimental", "tensorboard.summary.writer.record_writer", "torch._dynamo"]
PATIENCE = 600.0  # seconds that a run may take to do anything at all


@dataclass(frozen=True)
class Kill:
    """One process that was ended by SIGKILL."""

    moment: Moment
    step: int  # the last step that its log knew of
    resumed: int  # the step of the checkpoint that the next process begins with


@dataclass(frozen=True)
class Check:
    """One thing that must be equal in both runs."""

    what: str
    count: int
    difference: str | None  # the first one; None: there is none


@dataclass(frozen=True)
class Proof:
    """What was done, and what was found."""

    kills: list[Kill]
    runs: int  # that were killed and came to their end
    checks: list[Check]  # of the last of them: the first difference ends the proof

    @property
    def holds(self) -> bool:
        return all(check.difference is None for check in self.checks)


def shortened(recipe: Recipe, steps: int) -> Recipe:
    """The same recipe over a few steps, with several checkpoints and evaluations on the way."""
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
    heard: Callable[[Kill | str], object] = lambda event: None,
) -> Proof:
    """Train `recipe` in `folder` once through, and killed `kills` times in all; compare everything."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(PRELOAD)
    whole = folder / "whole"
    values = plain(recipe), str(base), torch.get_num_threads()

    def start(where: Path) -> BaseProcess:
        process = context.Process(target=_train, args=(*values, str(where)))
        process.start()
        return process

    heard("training once through")
    process = start(whole)
    process.join()
    _check_end(process)
    run = prepare(recipe, base, whole)
    chance = random.Random(seed)
    done: list[Kill] = []
    checks: list[list[Check]] = []
    while len(done) < kills or not checks:  # a run that has come to its end is compared, and another is begun
        torn = folder / f"torn-{len(checks)}"
        process = start(torn)
        while len(done) < kills and (kill := _kill(process, torn, recipe, chance)):
            done.append(kill)
            heard(kill)
            process = start(torn)
        process.join()
        _check_end(process)
        checks.append(list(_compare(run, whole, torn)))
        if any(check.difference for check in checks[-1]):
            break
    return Proof(done, len(checks), checks[-1])


def _train(values: dict[str, Any], base: str, threads: int, folder: str) -> None:
    torch.set_num_threads(threads)
    train(prepare(make_recipe(values), Path(base), Path(folder)), shown=False)


def _kill(process: BaseProcess, folder: Path, recipe: Recipe, chance: random.Random) -> Kill | None:
    """End a process by SIGKILL at a random moment; None if it ended by itself before."""
    moment = chance.choice(MOMENTS)
    checkpoints = Checkpoints(folder / "checkpoints", recipe.train.keep)
    before = _step(folder)
    target = before + chance.randint(1, max(1, recipe.train.save_every))
    end = time.monotonic() + PATIENCE
    if moment == "starting":
        time.sleep(chance.uniform(0.0, 0.5))
    while moment != "starting" and process.is_alive() and time.monotonic() < end:
        if moment == "training" and _step(folder) >= target:
            time.sleep(chance.uniform(0.0, 0.05))
            break
        if moment == "saving" and checkpoints.folder.is_dir() and leftovers(checkpoints.folder):
            time.sleep(chance.uniform(0.0, 0.01))
            break
        time.sleep(0.001)
    if process.pid is None or not process.is_alive():
        process.join()
        return None
    os.kill(process.pid, signal.SIGKILL)
    process.join()
    newest = checkpoints.newest()
    return Kill(moment, _step(folder), 0 if newest is None else int(newest.name.removeprefix("step-")))


def _step(folder: Path) -> int:
    """The last step in the log of a run, whose last line may be unfinished."""
    path = folder / "log.jsonl"
    lines = path.read_bytes().split(b"\n")[:-1] if path.is_file() else []
    return len([line for line in lines if b'"loss"' in line])


def _check_end(process: BaseProcess) -> None:
    if process.exitcode != 0:
        raise ValueError(f"a process of the proof ended with code {process.exitcode}: train the recipe to see why")


def _compare(run: Run, whole: Path, torn: Path) -> Iterator[Check]:
    a, b = (_tensors(run, folder) for folder in (whole, torn))
    for what in ("model", "optimiser"):
        names = [name for name in a if name.startswith(what)]
        unequal = [name for name in names if not torch.equal(a[name], b[name])]
        yield Check({"model": "weights"}.get(what, what), len(names), unequal[0] if unequal else None)
    logs = [[_timeless(record) for record in read_log(folder / "log.jsonl")] for folder in (whole, torn)]
    for what, keys in (("sample order", ("epoch", "batch", "examples")), ("losses", ("loss", "norm", "lr"))):
        steps = ([{k: r.get(k) for k in ("step", *keys)} for r in log if "loss" in r] for log in logs)
        pairs = zip(*steps, strict=False)
        unequal = [f"step {x['step']}: {x} and {y}" for x, y in pairs if x != y]
        yield Check(what, sum("loss" in r for r in logs[0]), unequal[0] if unequal else None)
    same = logs[0] == logs[1]
    yield Check("whole log", len(logs[0]), None if same else f"{len(logs[0])} and {len(logs[1])} records")
    files = [(folder / "model" / "model.safetensors").read_bytes() for folder in (whole, torn)]
    yield Check("final model", len(files[0]), None if files[0] == files[1] else "model.safetensors")


def _timeless(record: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in record.items() if key not in TIMES}


def _tensors(run: Run, folder: Path) -> dict[str, Tensor]:
    """Every tensor of the last checkpoint."""
    model = run.shell()
    optimiser = make_optimiser(model, run.recipe.train.optimiser)
    last = Checkpoints(folder / "checkpoints", 1).all()[-1]
    fill_optimiser(optimiser)
    tensors = tensors_of(model, optimiser)
    read_tensors(last, tensors)
    return tensors
