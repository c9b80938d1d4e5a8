"""Recall from long texts: a needle in a haystack, and induction, by exact, sparse and linear attention."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from clearhead.models import HeadConfig, Model, ModelConfig, TransformerConfig, build
from clearhead.studies.recall_texts import KINDS, MIN_LEN, VOCAB_SIZE, Kind, RecallTexts
from clearhead.studies.study_results import wilson_interval
from clearhead.studies.training import OnProgress, no_progress
from clearhead.train.loop import TrainingJob, fit
from clearhead.train.recipe import OptimizerConfig, ScheduleConfig, TrainConfig
from clearhead.train.tracking import read_log
from clearhead.viz import Curve, Panel, draw_curves

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TRAIN_TEXTS = 4096
KEYS = 64  # that a query of a sparse method reads
METHODS: dict[str, dict[str, Any] | None] = {
    "exact": None,
    "sink_window": {"window": KEYS - 4, "sinks": 4},
    "bigbird": {"window": 1, "global_blocks": 1, "random": 2, "block": KEYS // 4},
    "selected_blocks": {"blocks": 4, "block": KEYS // 4},
    "lsh": {"rounds": 4, "buckets": 64, "window": KEYS // 4, "local": KEYS // 8},
    "performer": {"features": KEYS},
    "gated_linear": {},
}
LENGTHS = (128, 1024, 2048, 4096, 8192, 16_384, 32_768)
EVALUATION_DRAW = 1 << 40  # no training step has it


@dataclass(frozen=True)
class RecallPoint:
    """Accuracy on texts of one length, in percent, with its 95 % confidence interval."""

    length: int
    kind: str
    accuracy: float
    low: float
    high: float
    questions: int


@dataclass(frozen=True)
class RecallRun:
    """One model: how it was trained, and what it recalls from texts of each length."""

    method: str
    options: dict[str, Any]
    parameters: int
    seconds: float  # of training
    loss: float  # of the last training step, in nats per question
    text_seconds: tuple[float, ...]  # one pass over one text of each length
    points: tuple[RecallPoint, ...]


@dataclass(frozen=True)
class RecallResult:
    """Results of the study."""

    steps: int
    batch_tokens: int
    max_len: int  # of training texts
    keys: int  # that a query of a sparse method reads
    lengths: tuple[int, ...]
    threads: int
    runs: tuple[RecallRun, ...]


def recall_model(method: Mapping[str, Any] | None, width: int, max_len: int) -> Model:
    """Return a model of two layers: the first reads the eight tokens before each, the second all of them by the method.

    Only the first layer has positions (rotary, of distances), so that no position is new in a longer text.
    """
    stack = TransformerConfig(
        vocab_size=VOCAB_SIZE, width=width, num_layers=2, num_heads=2, ffn_dim=2 * width, max_len=max_len,
        positions="none", local_layers=(0,), window=(8, 0), local_rotary_base=10_000.0, norm_first=True,
        activation="gelu_tanh", dropout=0.0, attention=() if method is None else ({**method, "layers": [1]},),
    )  # fmt: skip
    return build(ModelConfig(decoder=stack, head=HeadConfig(kind="lm", width=width, vocab_size=VOCAB_SIZE)))


def measure(
    folder: Path,
    *,
    steps: int = 1000,
    seed: int = 1,
    methods: Sequence[str] = tuple(METHODS),
    lengths: Sequence[int] = LENGTHS,
    texts: int = 16,
    width: int = 64,
    max_len: int = 256,
    batch_tokens: int = 4096,
    on_progress: OnProgress = no_progress,
) -> RecallResult:
    """Train a model with each method on the same short texts in `folder`, and ask it about texts of these lengths."""
    task = RecallTexts()
    random = np.random.default_rng(seed)
    columns = task.examples(np.exp(random.uniform(np.log(MIN_LEN), np.log(max_len), TRAIN_TEXTS)).astype(np.int64))
    settings = TrainConfig(
        steps=steps, batch_tokens=batch_tokens, dtype="float32", save_every=steps, keep=1,
        optimizer=OptimizerConfig(lr=2e-3, betas=(0.9, 0.95), weight_decay=0.01),
        schedule=ScheduleConfig(kind="linear", warmup=max(1, steps // 20)),
    )  # fmt: skip
    runs: list[RecallRun] = []
    for name in methods:
        options = METHODS[name]
        torch.manual_seed(seed)
        model = recall_model(None if options is None else {"kind": name, **options}, width, max(lengths))
        track = [lambda step, numbers, name=name: on_progress(name, step, steps)]
        job = TrainingJob(task, model, columns, settings, seed, folder / name, None, track, shown=False)
        progress = fit(job)
        loss = next(record["loss"] for record in reversed(read_log(job.folder / "log.jsonl")) if "loss" in record)
        points: list[RecallPoint] = []
        times: list[float] = []
        for i, length in enumerate(lengths):
            on_progress(f"{name}, texts", i, len(lengths))
            found, text_seconds = _ask(model, task, length, texts)
            points += found
            times.append(text_seconds)
        on_progress(f"{name}, texts", len(lengths), len(lengths))
        size = sum(p.numel() for p in model.parameters())
        training = round(progress.seconds, 1), round(loss, 4)
        runs.append(RecallRun(name, options or {}, size, *training, tuple(times), tuple(points)))
    return RecallResult(steps, batch_tokens, max_len, KEYS, tuple(lengths), torch.get_num_threads(), tuple(runs))


@torch.no_grad()
def _ask(model: Model, task: RecallTexts, length: int, texts: int) -> tuple[list[RecallPoint], float]:
    """Return the accuracy on texts of each kind, and the seconds that one text takes at best."""
    model.eval()
    columns = task.examples(np.full(texts, length))
    sums = {name: [0.0, 0.0] for name in KINDS}
    seconds: list[float] = []
    for i in range(texts):
        batch = task.collate(columns, np.array([i]), EVALUATION_DRAW)
        begin = time.perf_counter()
        _, accuracy = task.loss_and_metrics(model, batch)
        seconds.append(time.perf_counter() - begin)
        for name, (right, count) in accuracy.items():
            sums[name][0] += right / 100
            sums[name][1] += count
    points = [
        RecallPoint(length, name, round(100 * right / count, 1), *wilson_interval(right, int(count)), int(count))
        for name, (right, count) in sums.items()
    ]
    return points, round(min(seconds), 4)


def draw(measured: RecallResult) -> Figure:
    """Plot the accuracy on texts of each kind, and the time of a text, against its length."""
    ticks = [(float(np.log2(n)), f"{n:,}" if n < 1024 else f"{n // 1024} k") for n in measured.lengths]
    x = [place for place, _ in ticks]
    panels: list[Panel] = []
    titles: dict[Kind, str] = {
        "needle": "needle: the word after a word",
        "induction": "induction: the rest of a passage",
    }
    for kind, title in titles.items():
        curves: list[Curve] = []
        for run in measured.runs:
            points = [p for p in run.points if p.kind == kind]
            y, low, high = ([getattr(p, name) for p in points] for name in ("accuracy", "low", "high"))
            curves.append(Curve(run.method, x, y, low, high))
        options: dict[str, Any] = {"y_range": (0.0, 103.0), "ticks": ticks, "labelled": False}
        panels.append(Panel(curves, "tokens of the text", "right, %", title, **options))
    times = [Curve(run.method, x, run.text_seconds) for run in measured.runs]
    panels.append(Panel(times, "tokens of the text", "seconds a text", "time", y_scale="log", ticks=ticks))
    title = f"Recall from long texts, trained on texts of at most {measured.max_len} tokens"
    return draw_curves(panels, title, width=4.6, height=4.4)
