"""The training loop. A run that stops at any point resumes from its last checkpoint, bit for bit."""

import math
import signal
import time
import zlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from clearhead.data import Columns, DistinctBatches, FixedSizeBatches, TokenBudgetBatches
from clearhead.data.shards import block_size_of, remote_range
from clearhead.distributed import Distributed
from clearhead.distributed.whole_batch import whole_batch_backward
from clearhead.files.manifest import Folder
from clearhead.models.precision import autocast
from clearhead.tasks.task import Batch, Trainable, WholeBatchLoss
from clearhead.train.checkpoint import Checkpoints, Progress
from clearhead.train.malloc import retain_freed
from clearhead.train.optimizer import clip, lr_factor, make_optimizer, set_rate
from clearhead.train.prefetch import Prefetcher, StepBatches, StepParts, read_batches
from clearhead.train.recipe import TrainConfig
from clearhead.train.signals import Interrupted, SignalGuard, Stopped
from clearhead.train.tracking import MetricLogger, ProgressBar, Tracker

LOWER_IS_BETTER = ("loss", "perplexity", "rmse")  # endings of metric names; of all others higher is better

Evaluate = Callable[[nn.Module, int], dict[str, float]]
"""Returns the metrics of a model after a step; "loss" is one of them."""


class NotFinite(ValueError):
    """The loss or a gradient is NaN or infinite; no weight was updated."""


@dataclass(frozen=True, eq=False)
class TrainingJob:
    """The input of the training loop: model, data, settings and folder."""

    task: Trainable
    model: nn.Module
    columns: Columns
    settings: TrainConfig
    seed: int
    folder: Path
    evaluate: Evaluate | None = None
    trackers: Sequence[Tracker] = ()
    shown: bool = True  # progress on the terminal
    saved: Folder | None = None  # of the checkpoints; None: in `folder`
    publish: Callable[[], object] = lambda: None  # called before a checkpoint is complete: stores the logs elsewhere


def make_batches(
    task: Trainable, columns: Columns, settings: TrainConfig, seed: int = 0
) -> TokenBudgetBatches | FixedSizeBatches | DistinctBatches:
    """Group examples into batches by the recipe; the blocks of shards, which are equal in size, by their number.

    The texts of a batch are distinct where its loss compares them with each other.
    """
    if isinstance(task, WholeBatchLoss):
        if settings.batch_examples is None:
            raise ValueError(f"the task {task.spec.name} compares the examples of a batch: set train.batch_examples")
        texts = columns["texts"]
        keys, counts = texts.take(np.arange(len(texts)))
        return DistinctBatches(keys, counts, settings.batch_examples, seed)
    if settings.batch_examples is not None:
        return FixedSizeBatches(_count(columns), settings.batch_examples, seed)
    if (block_size := block_size_of(columns)) is not None:
        return FixedSizeBatches(_count(columns), max(1, settings.batch_tokens // block_size), seed)
    return TokenBudgetBatches(task.lengths(columns), settings.batch_tokens, seed)


def _count(columns: Columns) -> int:
    return len(next(iter(columns.values())))


def epochs_to_steps(settings: TrainConfig, batches: int) -> TrainConfig:
    """Return the settings with epochs, of so many batches each, converted to steps."""
    if settings.epochs is None:
        return settings
    return replace(settings, epochs=None, steps=max(1, math.ceil(settings.epochs * batches)))


def fit(job: TrainingJob, distributed: Distributed | None = None) -> Progress:
    """Train to the end, from the newest checkpoint if there is one."""
    job.folder.mkdir(parents=True, exist_ok=True)
    distributed, settings = distributed or Distributed(), job.settings
    batches = make_batches(job.task, job.columns, settings, job.seed)
    optimizer = make_optimizer(job.model, settings.optimizer)
    checkpoints = Checkpoints(job.saved or job.folder / "checkpoints", settings.keep, distributed, job.publish)
    saved = progress = _begin(checkpoints, job.model, optimizer)
    first = progress.step
    shown, stopping = job.shown and distributed.is_main, False
    device = next(job.model.parameters()).device

    def parts_of(number: int) -> StepParts:
        examples = batches.batch(*batches.place(number))
        return StepParts.of(job.task, job.columns, examples, settings, distributed)

    def read(number: int) -> StepBatches:
        found = read_batches(job.task, job.columns, parts_of(number), number)
        return found.pin() if device.type == "cuda" else found

    blocks = remote_range(job.columns)

    def request(number: int) -> None:
        assert blocks is not None
        blocks.shards.request(np.unique(parts_of(number).own_examples) + blocks.first)

    make_logger = partial(MetricLogger, job.folder, progress.step, progress.log_bytes, job.trackers)
    with (
        retain_freed() as memory,
        checkpoints,
        make_logger() if distributed.is_main else nullcontext() as logger,
        SignalGuard(launched=distributed.size > 1) as stop,
        Prefetcher(read, settings.last, None if blocks is None else request) as prefetcher,
        ProgressBar(settings.last, progress.step, shown=shown) as screen,
    ):
        clock = _Clock(progress, settings.last)
        while True:
            if job.evaluate is not None and not stopping and _should_evaluate(progress, settings):
                screen.measure()
                try:
                    with stop.breaking():
                        metrics = job.evaluate(job.model, progress.step)
                except Interrupted:  # evaluated after the run is resumed
                    stopping = True
                else:
                    progress = _update_best(progress, metrics, settings)
                    _write(logger, {"step": progress.step, **{f"valid_{k}": v for k, v in metrics.items()}}, {})
                    values = "  ".join(f"{name} {value:.4g}" for name, value in metrics.items())
                    best = "" if progress.since_best else "  (best)"
                    screen.say(f"step {progress.step:,}: valid {values}{best}")
                    clock.pause()
            out_of_patience = settings.patience is not None and progress.since_best >= settings.patience
            last = progress.step >= settings.last or out_of_patience
            planned = last or progress.step % settings.save_every == 0 or progress.best_step == progress.step
            if progress is not saved and (planned or stopping):
                progress = replace(progress, log_bytes=logger.size() if logger else 0, between=not planned)
                checkpoints.begin_save(progress, job.model, optimizer)
                saved = progress
            if stopping or last:
                checkpoints.wait()
            if stopping:
                raise Stopped(progress.step, stop.wanted or signal.SIGTERM)  # 0: another rank received the signal
            if last:
                return progress

            epoch, i = batches.place(progress.step)
            inputs = prefetcher.take(progress.step)
            examples = inputs.parts.examples
            lr = settings.optimizer.lr * lr_factor(progress.step + 1, settings.last, settings.schedule)
            set_rate(optimizer, lr)
            loss, norm, stopping = step(job, optimizer, inputs, progress.step, distributed, stop)
            if not (math.isfinite(loss) and math.isfinite(norm)):
                raise NotFinite(
                    f"{'the loss' if not math.isfinite(loss) else 'a gradient'} of step {progress.step + 1:,} is not "
                    f"finite (epoch {epoch}, batch {i}: {len(examples)} examples, the first is {examples[0]}); no "
                    "weight was updated. Try a lower learning rate, a longer warmup or train.dtype=float32"
                )
            clock.tick(int(job.task.lengths(job.columns, examples).sum()))
            progress = replace(progress, step=progress.step + 1, seconds=clock.seconds)
            if progress.step == first + 1:
                checkpoints.reserve(job.model, optimizer)  # the optimizer has its state now
            memory.after_step()
            order = zlib.crc32(examples.tobytes())  # identifies the examples
            record = {"step": progress.step, "epoch": epoch, "batch": i, "examples": order}
            record |= {"loss": loss, "norm": norm, "lr": lr}
            _write(logger, record, {"seconds": clock.seconds, "tokens_per_second": clock.rate})
            screen.show(progress.step, loss, clock.rate, clock.here, clock.left(progress.step))


def step(
    job: TrainingJob,
    optimizer: torch.optim.Optimizer,
    inputs: StepBatches,
    number: int,
    distributed: Distributed,
    stop: SignalGuard,
) -> tuple[float, float, bool]:
    """Update the weights once; return the loss, the gradient norm, and whether any rank was asked to stop.

    The loss is a sum over the tokens of this rank, divided by the tokens of the global batch: neither the number of
    ranks nor gradient accumulation changes it. Where the loss or the gradient is not finite, no weight is updated.
    """
    task, settings = job.task, job.settings
    total, device = 0.0, next(job.model.parameters()).device
    job.model.train()

    def part_of(part: int) -> Batch:
        seed = np.random.SeedSequence([job.seed, number, part]).generate_state(1, np.uint64)[0]
        torch.manual_seed(int(seed >> 1))  # dropout depends on step and part only, not on history
        return inputs.batches[part].to(device)

    if isinstance(task, WholeBatchLoss):
        assert inputs.whole is not None
        whole, embed = inputs.whole.to(device), task.vectors
        sizes = [int(job.columns["texts"].lengths(inputs.parts.examples[part]).sum()) for part in inputs.parts.slices]

        def vectors(part: int) -> Tensor:
            with autocast(settings.dtype, device):
                return embed(job.model, part_of(part))

        def mean_loss(vectors: Tensor, batch: Batch) -> Tensor:
            return task.vectors_loss(vectors, batch) / inputs.targets

        value = whole_batch_backward(vectors, mean_loss, whole, sizes, list(inputs.batches), distributed)
        total = value / distributed.batch_ranks
    else:
        for part in inputs.batches:
            batch = part_of(part)
            with autocast(settings.dtype, device):
                loss = task.loss(job.model, batch) / inputs.targets
            total += float(loss.detach())
            # FSDP averages over ranks, and the gradient is a sum. Every rank takes part, finite or not.
            (loss * distributed.batch_ranks).backward()
    loss, wanted = distributed.sum([total, float(stop.wanted > 0)])
    limit = settings.optimizer.clip or math.inf
    norm = clip(job.model, limit, distributed) if math.isfinite(loss) else math.nan
    if math.isfinite(norm):
        optimizer.step()
    optimizer.zero_grad()
    return loss, norm, wanted > 0


def _begin(checkpoints: Checkpoints, model: nn.Module, optimizer: torch.optim.Optimizer) -> Progress:
    newest = checkpoints.newest()  # verified
    return Progress() if newest is None else checkpoints.read(newest, model, optimizer)


def _should_evaluate(progress: Progress, settings: TrainConfig) -> bool:
    """Return whether an evaluation is scheduled after this step and not done yet."""
    now = progress.step >= settings.last or progress.step % settings.evaluate_every == 0
    return now and progress.evaluated < progress.step


def _update_best(progress: Progress, metrics: dict[str, float], settings: TrainConfig) -> Progress:
    """Record an evaluation; a value that is not finite is never the best."""
    if settings.metric not in metrics:
        raise ValueError(f"train.metric is {settings.metric!r}: the metrics of this task are {', '.join(metrics)}")
    value = metrics[settings.metric]
    sign = -1 if settings.metric.endswith(LOWER_IS_BETTER) else 1
    better = progress.best is None or sign * value > sign * progress.best
    progress = replace(progress, evaluated=progress.step)
    if better and math.isfinite(value):
        return replace(progress, best=value, best_step=progress.step, since_best=0)
    return replace(progress, since_best=progress.since_best + 1)


def _write(logger: MetricLogger | None, record: Mapping[str, float], times: Mapping[str, float]) -> None:
    if logger is not None:
        logger.write(record, times)


class _Clock:
    """Measures training time, speed and the estimated time left."""

    def __init__(self, progress: Progress, steps: int) -> None:
        self._before, self._first, self._steps = progress.seconds, progress.step, steps
        self._start = self._last = time.perf_counter()
        self._training = 0.0  # seconds of steps alone
        self.rate = 0.0  # tokens per second, a running mean

    def tick(self, tokens: int) -> None:
        now = time.perf_counter()
        spent, self._last = now - self._last, now
        self._training += spent
        self.rate = tokens / spent if not self.rate else 0.95 * self.rate + 0.05 * tokens / spent

    def pause(self) -> None:
        """Exclude the time since the last step, such as an evaluation, from the speed."""
        self._last = time.perf_counter()

    @property
    def here(self) -> float:
        return time.perf_counter() - self._start

    @property
    def seconds(self) -> float:
        """Seconds of the full run: all its processes, with evaluation."""
        return self._before + self.here

    def left(self, step: int) -> float | None:
        """Return the estimated seconds to the end, or None in the first steps."""
        done = step - self._first
        return None if done < 3 else self.here / done * (self._steps - step)
