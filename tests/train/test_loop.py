"""The loop: it learns, counts tokens right, stops when it should, goes on where it was, and updates nothing from NaN."""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from clearhead.distributed import Distributed
from clearhead.train import Checkpoints, NotFinite, Stopped, TrainingJob, fit
from clearhead.train.checkpoint import tensors_of
from clearhead.train.loop import step
from clearhead.train.optimizer import lr_factor, make_optimizer
from clearhead.train.prefetch import StepParts, read_batches
from clearhead.train.signals import SignalGuard
from clearhead.train.tracking import TIMES, read_log


def job_of(run, **changes) -> TrainingJob:
    return replace(run.job(Distributed(), shown=False), **changes)


def weights(job: TrainingJob) -> dict[str, torch.Tensor]:
    return {name: p.detach().clone() for name, p in job.model.named_parameters()}


def timeless(folder: Path) -> list[dict[str, Any]]:
    return [{k: v for k, v in record.items() if k not in TIMES} for record in read_log(folder / "log.jsonl")]


def newest(folder: Path, keep: int) -> Path:
    found = Checkpoints(folder / "checkpoints", keep).newest()
    assert isinstance(found, Path)
    return found


def test_it_learns(begin):
    """Words backwards, to be had by heart: the loss falls to a third."""
    run = begin(steps=150, evaluate_every=1000, save_every=1000, batch_tokens=300, model={"dropout": 0.0, "width": 32})
    fit(job_of(run, evaluate=None))
    losses = [record["loss"] for record in timeless(run.folder)]
    assert np.mean(losses[-5:]) < np.mean(losses[:5]) / 3


def test_the_log_has_every_step_and_evaluation(begin):
    run = begin()
    numbers: list[tuple[int, Mapping[str, float]]] = []
    progress = fit(job_of(run, trackers=[lambda at, told: numbers.append((at, dict(told)))]))
    log = read_log(run.folder / "log.jsonl")
    steps = [record for record in log if "loss" in record]
    assert [record["step"] for record in steps] == list(range(1, 13))
    assert set(steps[0]) == {"step", "epoch", "batch", "examples", "loss", "norm", "lr", "seconds", "tokens_per_second"}
    assert [record["step"] for record in log if "valid_loss" in record] == [4, 8, 12]
    for record in steps:
        assert record["lr"] == 0.01 * lr_factor(record["step"], 12, run.recipe.train.schedule)
    per_epoch = len({record["batch"] for record in steps})
    assert [(r["epoch"], r["batch"]) for r in steps] == [divmod(i, per_epoch) for i in range(12)]
    assert [at for at, _ in numbers] == [record["step"] for record in log]
    assert set(numbers[0][1]) == {"loss", "norm", "lr", "tokens_per_second"}
    assert set(numbers[4][1]) == {"valid_loss", "valid_perplexity"}
    assert progress.step == 12 and progress.evaluated == 12 and progress.seconds > 0
    best = min((record["valid_loss"], record["step"]) for record in log if "valid_loss" in record)
    assert (progress.best, progress.best_step) == best


# RELIABILITY 6, and what else must not change an update


def one_step(run, examples, **settings):
    job = job_of(run, settings=replace(run.recipe.train, **settings))
    optimizer = make_optimizer(job.model, job.settings.optimizer)
    parts = StepParts.of(job.task, job.columns, examples, job.settings)
    inputs = read_batches(job.task, job.columns, parts, 0)
    loss, norm, _ = step(job, optimizer, inputs, 0, Distributed(), SignalGuard())
    return loss, norm, weights(job)


@pytest.mark.parametrize("parts", [2, 3, 5, 50])
@pytest.mark.parametrize("kind", ["transformer", "gru"])
def test_a_batch_in_parts_is_the_same_batch(begin, parts, kind):
    """Ragged lengths, more parts than examples among them. Worst seen: 1.5e-7 of the loss and the norm, 6e-8 of a weight."""
    shape = {"dropout": 0.0} if kind == "transformer" else {"kind": "gru", "dropout": 0.0}
    run = begin(optimizer={"kind": "sgd", "lr": 0.1})
    if kind == "gru":
        run.recipe.model.clear()
        shape |= {"width": 16, "hidden_size": 16}
    run.recipe.model.update(shape)
    examples = np.arange(20)
    loss, norm, after = one_step(run, examples)
    other_loss, other_norm, other = one_step(run, examples, gradient_accumulation=parts)
    assert other_loss == pytest.approx(loss, rel=1e-6)
    assert other_norm == pytest.approx(norm, rel=1e-6)
    for name in after:
        torch.testing.assert_close(other[name], after[name], rtol=1e-6, atol=1e-6)


def test_activation_checkpointing_changes_nothing(begin):
    """Dropout included: the same mask falls again."""
    results = []
    for enabled in (False, True):
        run = begin(f"checkpointing-{enabled}", activation_checkpointing=enabled, steps=3)
        job = job_of(run, evaluate=None)
        fit(job)
        results.append((timeless(run.folder), weights(job)))
    (log, after), (other_log, other) = results
    assert log == other_log
    assert all(torch.equal(after[name], other[name]) for name in after)


def test_the_loss_is_per_token_of_the_whole_batch(begin):
    run = begin(model={"dropout": 0.0})
    job = job_of(run)
    batch = run.task.collate(run.train, np.arange(7))
    expected = run.task.loss(job.model.train(), batch).item() / len(batch.labels)
    loss, _, _ = one_step(run, np.arange(7))
    assert loss == pytest.approx(expected, rel=1e-6)


def test_clipping_bounds_the_step_and_the_norm_is_told_before(begin):
    run = begin(model={"dropout": 0.0})
    before = weights(job_of(run))
    optimizer = replace(run.recipe.train.optimizer, kind="sgd", lr=1.0, momentum=0.0)
    moves = {}
    for clip in (None, 0.01):
        _, norm, after = one_step(run, np.arange(7), optimizer=replace(optimizer, clip=clip))
        moves[clip] = torch.cat([(after[n] - before[n]).flatten() for n in before]).norm().item()
        assert norm > 0.1
    assert moves[None] == pytest.approx(norm, rel=1e-4)
    assert moves[0.01] == pytest.approx(0.01, rel=1e-3)


def test_the_seed_is_the_whole_of_chance(begin):
    logs = []
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        run = begin(name, steps=3, evaluate_every=100)
        fit(job_of(replace(run, recipe=replace(run.recipe, seed=seed))))
        logs.append(timeless(run.folder))
    assert logs[0] == logs[1] != logs[2]


# NaN


def test_what_is_not_finite_updates_nothing_and_is_told(begin):
    run = begin(steps=6, save_every=2)
    job = job_of(run, evaluate=None)
    calls = 0

    def poison(module, args, output):
        nonlocal calls
        calls += 1
        return output * float("nan") if calls == 5 else output

    job.model.get_submodule("decoder").register_forward_hook(poison)
    with pytest.raises(
        NotFinite, match=r"the loss of step 5 is not finite \(epoch \d, batch \d: \d+ examples, the first is \d+\)"
    ):
        fit(job)
    assert [record["step"] for record in timeless(run.folder)] == [1, 2, 3, 4]
    assert newest(run.folder, 3).name == "step-00000004"
    assert all(p.isfinite().all() for p in job.model.parameters())


def test_an_evaluation_that_is_not_finite_is_never_the_best(begin):
    values = iter([float("nan"), 2.0, float("inf")])
    run = begin()
    progress = fit(job_of(run, evaluate=lambda model, at: {"loss": next(values)}))
    assert (progress.best, progress.best_step, progress.since_best) == (2.0, 8, 1)
    again = fit(job_of(run, evaluate=lambda model, at: pytest.fail("it has ended")))
    assert replace(again, seconds=0) == replace(progress, seconds=0)


# Which is best, and when it is enough


@pytest.mark.parametrize(("metric", "best"), [("loss", 8), ("perplexity", 8), ("bleu", 4)])
def test_losses_are_best_low_and_scores_high(begin, metric, best):
    told = iter([3.0, 1.0, 2.0])
    progress = fit(job_of(begin(metric=metric), evaluate=lambda model, at: dict.fromkeys(["loss", metric], next(told))))
    assert progress.best_step == best


def test_a_metric_that_is_not_measured_is_told(begin):
    with pytest.raises(ValueError, match=r"train\.metric is 'bleu': the metrics of this task are loss"):
        fit(job_of(begin(metric="bleu"), evaluate=lambda model, at: {"loss": 1.0}))


def test_patience_ends_a_run_once_and_for_all(begin):
    told = iter([2.0, 1.0, 3.0, 4.0])
    run = begin(steps=100, evaluate_every=2, patience=2)
    progress = fit(job_of(run, evaluate=lambda model, at: {"loss": next(told)}))
    assert (progress.step, progress.best_step, progress.since_best) == (8, 4, 2)
    before = timeless(run.folder)
    again = fit(job_of(run, evaluate=lambda model, at: pytest.fail("it has ended")))
    assert again.step == 8 and timeless(run.folder) == before
    kept = [int(folder.name[5:]) for folder in Checkpoints(run.folder / "checkpoints", 3).all()]
    assert 4 in kept and kept[-1] == 8


def test_the_best_and_the_last_are_always_saved(begin):
    told = iter([3.0, 1.0, 2.0, 4.0])
    run = begin(steps=10, evaluate_every=3, save_every=4, keep=1)
    progress = fit(job_of(run, evaluate=lambda model, at: {"loss": next(told)}))
    assert progress.best_step == 6
    assert [p.name for p in Checkpoints(run.folder / "checkpoints", 1).all()] == ["step-00000006", "step-00000010"]


# Stopping and going on


def interrupted(run, at: int, while_evaluating: bool) -> None:
    """Train until a signal that comes after this step, or while it is being evaluated."""
    job = job_of(run)
    measure = job.evaluate
    assert measure is not None

    def evaluate(model, step):
        if while_evaluating and step == at:
            os.kill(os.getpid(), signal.SIGTERM)
            pytest.fail("a signal breaks an evaluation off")
        return measure(model, step)

    def track(step, numbers):
        if not while_evaluating and step == at and "loss" in numbers:
            os.kill(os.getpid(), signal.SIGTERM)

    with pytest.raises(Stopped) as stopped:
        fit(replace(job, evaluate=evaluate, trackers=[track]))
    assert stopped.value.signal == signal.SIGTERM


@pytest.mark.parametrize(
    ("at", "while_evaluating"), [(1, False), (3, False), (4, False), (4, True), (5, False), (8, True), (12, True)]
)
def test_a_run_that_was_stopped_is_the_run_that_was_not(begin, at, while_evaluating):
    settings = {"steps": 12, "average": 2, "keep": 2}
    whole, torn = begin("whole", **settings), begin("torn", **settings)
    job = job_of(whole)
    end = fit(job)
    interrupted(torn, at, while_evaluating)
    assert int(newest(torn.folder, 2).name[5:]) in (at, at + 1)
    other = job_of(torn)
    again = fit(other)
    assert timeless(torn.folder) == timeless(whole.folder)
    assert all(torch.equal(a, b) for a, b in zip(weights(job).values(), weights(other).values(), strict=True))
    times = {"seconds": 0.0, "log_bytes": 0}
    assert replace(again, **times) == replace(end, **times)
    names = [[p.name for p in Checkpoints(run.folder / "checkpoints", 2).all()] for run in (whole, torn)]
    assert names[0] == names[1]


def test_a_damaged_newest_checkpoint_costs_only_the_steps_since_the_one_before(begin):
    whole, torn = begin("whole"), begin("torn")
    job, _ = job_of(whole), fit(job_of(torn))
    fit(job)
    (torn.folder / "checkpoints" / "step-00000012" / "state.json").write_text("{}")
    other = job_of(torn)
    with pytest.warns(UserWarning, match="is damaged"):
        fit(other)
    assert timeless(torn.folder) == timeless(whole.folder)
    assert all(torch.equal(a, b) for a, b in zip(weights(job).values(), weights(other).values(), strict=True))
    assert newest(torn.folder, 3).name == "step-00000012"


def test_more_steps_go_on_from_the_end(begin):
    run = begin(steps=4)
    fit(job_of(run))
    longer = begin("run", steps=6)
    fit(job_of(longer))
    assert [r["step"] for r in timeless(run.folder) if "loss" in r] == [1, 2, 3, 4, 5, 6]


def test_every_optimizer_tensor_is_part_of_the_state(begin):
    run = begin(steps=2)
    job = job_of(run)
    optimizer = make_optimizer(job.model, job.settings.optimizer)
    inputs = read_batches(job.task, job.columns, StepParts.of(job.task, job.columns, np.arange(5), job.settings), 0)
    step(job, optimizer, inputs, 0, Distributed(), SignalGuard())
    kept = tensors_of(job.model, optimizer)
    params = dict(job.model.named_parameters())
    assert set(kept) == {f"model.{n}" for n in params} | {
        f"optimizer.{n}.{kind}" for n in params for kind in ("step", "exp_avg", "exp_avg_sq")
    }
