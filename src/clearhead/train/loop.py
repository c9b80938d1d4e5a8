"""The loop: from a batch to an update, over and over, so that a run that stops anywhere goes on to the same bits."""

from __future__ import annotations

import math
import signal
import time
import zlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from torch import nn

from clearhead.data import Columns, Integers, divide
from clearhead.tasks import Task
from clearhead.train.batches import batches_of
from clearhead.train.checkpoint import Checkpoints, Progress
from clearhead.train.memory import TIDY, kept, tidy
from clearhead.train.optimise import clip, make_optimiser, rate, set_rate
from clearhead.train.precision import precision
from clearhead.train.ranks import Ranks
from clearhead.train.recipe import Training
from clearhead.train.stop import Broken, Stop, Stopped
from clearhead.train.tracking import Records, Screen, Tracker

LOW = ("loss", "words", "perplexity", "rmse")  # metrics that are good when they are low; all others when they are high

Evaluate = Callable[[nn.Module, int], dict[str, float]]
"""The metrics of a model after a step, "loss" among them."""


class NotFinite(ValueError):
    """The loss or a gradient is NaN or infinite; nothing was updated."""


@dataclass(frozen=True, eq=False)
class Job:
    """What one run trains, and where it is kept."""

    task: Task
    model: nn.Module
    columns: Columns
    settings: Training
    seed: int
    folder: Path
    evaluate: Evaluate | None = None
    trackers: Sequence[Tracker] = ()
    shown: bool = True  # progress on the terminal


def fit(job: Job, ranks: Ranks | None = None) -> Progress:
    """Train to the end, from the newest checkpoint if there is one."""
    ranks, settings = ranks or Ranks(), job.settings
    batches = batches_of(job.task, job.columns, settings, job.seed)
    optimiser = make_optimiser(job.model, settings.optimiser)
    checkpoints = Checkpoints(job.folder / "checkpoints", settings.keep, ranks)
    saved = progress = _begin(checkpoints, job.model, optimiser)
    shown, stopping = job.shown and ranks.first, False
    with (
        kept(),
        _records(job, progress) if ranks.first else nullcontext() as records,
        Stop(launched=ranks.size > 1) as stop,
        Screen(settings.last, progress.step, shown=shown) as screen,
    ):
        clock = _Clock(progress, settings.last)
        while True:
            if job.evaluate is not None and not stopping and _due(progress, settings):
                screen.measure()
                try:
                    with stop.breaking():
                        metrics = job.evaluate(job.model, progress.step)
                except Broken:  # the next process evaluates
                    stopping = True
                else:
                    progress = _judged(progress, metrics, settings)
                    _write(records, {"step": progress.step, **{f"valid_{k}": v for k, v in metrics.items()}}, {})
                    told = "  ".join(f"{name} {value:.4g}" for name, value in metrics.items())
                    screen.say(f"step {progress.step:,}: valid {told}{'  (best)' if not progress.since_best else ''}")
                    clock.pause()
            last = progress.step >= settings.last or _at_rest(progress, settings)
            due = last or progress.step % settings.save_every == 0 or progress.best_step == progress.step
            if progress is not saved and (due or stopping):
                progress = replace(progress, log_bytes=records.size() if records else 0, between=not due)
                checkpoints.save(progress, job.model, optimiser)
                saved = progress
            if stopping:
                raise Stopped(progress.step, stop.wanted or signal.SIGTERM)  # 0: another rank was asked
            if last:
                return progress

            epoch, i = batches.place(progress.step)
            examples = batches.batch(epoch, i)
            lr = settings.optimiser.lr * rate(progress.step + 1, settings.last, settings.schedule)
            set_rate(optimiser, lr)
            loss, norm, stopping = step(job, optimiser, examples, progress.step, ranks, stop)
            if not (math.isfinite(loss) and math.isfinite(norm)):
                raise NotFinite(
                    f"{'the loss' if not math.isfinite(loss) else 'a gradient'} of step {progress.step + 1:,} is not "
                    f"finite (epoch {epoch}, batch {i}: {len(examples)} examples, the first is {examples[0]}); nothing "
                    "was updated. A lower learning rate, a longer warm-up or train.dtype=float32 may mend it"
                )
            clock.tick(int(job.task.lengths(job.columns, examples).sum()))
            progress = replace(progress, step=progress.step + 1, seconds=clock.seconds)
            if progress.step % TIDY == 0:
                tidy()
            order = zlib.crc32(examples.tobytes())  # which examples these were, in brief
            record = {"step": progress.step, "epoch": epoch, "batch": i, "examples": order}
            record |= {"loss": loss, "norm": norm, "lr": lr}
            _write(records, record, {"seconds": clock.seconds, "tokens_per_second": clock.rate})
            screen.show(progress.step, loss, clock.rate, clock.here, clock.left(progress.step))


def step(
    job: Job, optimiser: torch.optim.Optimizer, examples: Integers, number: int, ranks: Ranks, stop: Stop
) -> tuple[float, float, bool]:
    """One update from one global batch: its loss, the norm of its gradient, and whether anybody wants to stop.

    The loss is a sum over this rank's tokens, divided by the tokens of the whole batch: neither the number of ranks
    nor the number of parts changes it. Where the loss or the gradient is not finite, nothing is updated.
    """
    task, settings = job.task, job.settings
    count = int(task.counts(job.columns, examples).sum())
    parts = divide(task.lengths(job.columns, examples), ranks.size * settings.accumulate)
    mine = range(ranks.rank * settings.accumulate, (ranks.rank + 1) * settings.accumulate)
    total, device = 0.0, next(job.model.parameters()).device
    job.model.train()
    for part in mine:
        torch.manual_seed(_seed(job.seed, number, part))  # dropout follows from the place, not from the past
        batch = task.collate(job.columns, examples[parts[part]], number + 1).to(device)
        with precision(settings.dtype, device):
            loss = task.loss(job.model, batch) / count
        total += float(loss.detach())
        (loss * ranks.size).backward()  # ranks are averaged, and a sum is due; all go this way, whatever the loss is
    loss, wanted = ranks.sum([total, float(stop.wanted > 0)])
    limit = settings.optimiser.clip or math.inf
    norm = clip(job.model, limit) if math.isfinite(loss) else math.nan
    if math.isfinite(norm):
        optimiser.step()
    optimiser.zero_grad()
    return loss, norm, wanted > 0


def _begin(checkpoints: Checkpoints, model: nn.Module, optimiser: torch.optim.Optimizer) -> Progress:
    checkpoints.folder.mkdir(parents=True, exist_ok=True)
    found = checkpoints.newest()
    return Progress() if found is None else checkpoints.restore(found, model, optimiser)


def _seed(seed: int, step: int, part: int) -> int:
    return int(np.random.SeedSequence([seed, step, part]).generate_state(1, np.uint64)[0] >> 1)


def _due(progress: Progress, settings: Training) -> bool:
    """Is it time to evaluate, and not done yet?"""
    now = progress.step >= settings.last or progress.step % settings.evaluate_every == 0
    return now and progress.evaluated < progress.step


def _judged(progress: Progress, metrics: dict[str, float], settings: Training) -> Progress:
    """Is this the best so far? What is not finite never is."""
    if settings.metric not in metrics:
        raise ValueError(f"train.metric is {settings.metric!r}: this task measures {', '.join(metrics)}")
    value = metrics[settings.metric]
    better = progress.best is None or (value < progress.best if settings.metric in LOW else value > progress.best)
    progress = replace(progress, evaluated=progress.step)
    if better and math.isfinite(value):
        return replace(progress, best=value, best_step=progress.step, since_best=0)
    return replace(progress, since_best=progress.since_best + 1)


def _at_rest(progress: Progress, settings: Training) -> bool:
    """Has it got no better for as long as the recipe waits?"""
    return settings.patience is not None and progress.since_best >= settings.patience


def _records(job: Job, progress: Progress) -> Records:
    return Records(job.folder, progress.step, progress.log_bytes, job.trackers)


def _write(records: Records | None, record: Mapping[str, float], times: Mapping[str, float]) -> None:
    if records is not None:
        records.write(record, times)


class _Clock:
    """Time spent training, and the time left by the steps of this process."""

    def __init__(self, progress: Progress, steps: int) -> None:
        self._before, self._first, self._steps = progress.seconds, progress.step, steps
        self._start = self._last = time.perf_counter()
        self._training = 0.0  # seconds of steps alone
        self.rate = 0.0  # tokens a second, a running mean

    def tick(self, tokens: int) -> None:
        """A step has ended."""
        now = time.perf_counter()
        spent, self._last = now - self._last, now
        self._training += spent
        self.rate = tokens / spent if not self.rate else 0.95 * self.rate + 0.05 * tokens / spent

    def pause(self) -> None:
        """Something that is no step has ended."""
        self._last = time.perf_counter()

    @property
    def here(self) -> float:
        """Seconds since this process began."""
        return time.perf_counter() - self._start

    @property
    def seconds(self) -> float:
        """Seconds of the whole run, all its processes and evaluations together."""
        return self._before + self.here

    def left(self, step: int) -> float | None:
        """Seconds to the end, once a few steps are measured."""
        done = step - self._first
        return None if done < 3 else self.here / done * (self._steps - step)
