"""Labels needed: accuracy by number of labels for an untrained, a briefly pretrained and a published encoder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import log10
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch

from clearhead.hub.folder import open_folder, save_folder
from clearhead.models import build
from clearhead.studies.study_results import MeanInterval, interval_curve, mean_interval
from clearhead.studies.training import LabeledRow, OnProgress, finetune, no_progress, scratch_settings, train_recipe
from clearhead.train import make_recipe
from clearhead.train.init_model import initialize
from clearhead.train.recipe_finetune import START
from clearhead.viz import Panel, draw_curves

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TEXT = ("squad:train-v1.1.json", "wikitext2:valid.txt")
SIZES = (100, 300, 1000, 3000, 10_000)
MINILM = START  # default base model of fine-tuning
LEARNING_RATES = {"untrained": 3e-4, "pre-trained here": 3e-4, "MiniLM": 1e-4}


@dataclass(frozen=True)
class TrainedRun:
    """Accuracy of one encoder by number of labels."""

    label: str
    parameters: int
    reached: tuple[MeanInterval, ...]  # for each number of labels


@dataclass(frozen=True)
class LabelsResult:
    """Results of the study."""

    data: str
    test: int  # rows
    seeds: int
    sizes: tuple[int, ...]
    pretraining_steps: int  # 0 where the pretrained model was given
    learners: tuple[TrainedRun, ...]
    seconds: float  # total time of all fine-tuning runs


def pretrained(
    folder: Path, *, steps: int, text: Sequence[str] = TEXT, base: Path = Path(), size: str = "mini",
    vocab_size: int = 8000, batch_tokens: int = 4096, seed: int = 1, on_progress: OnProgress = no_progress,
) -> Path:  # fmt: skip
    """Pretrain a small BERT (masked language modelling, next-sentence prediction); returns the model folder."""
    every = max(1, steps // 4)
    optimizer = {"lr": 5e-4, "betas": [0.9, 0.98], "eps": 1e-6, "weight_decay": 0.01}
    recipe = make_recipe(
        {
            "task": "masked_lm",
            "seed": seed,
            "data": {"train": {"text": list(text)}, "validation_rows": 200, "max_len": 128, "pairs": "nsp"},
            "tokenizer": {"vocab_size": vocab_size, "lowercase": True},
            "model": {"family": "bert", "size": size, "dropout": 0.0},
            "train": scratch_settings(
                steps, batch_tokens, optimizer, {"kind": "linear"}, evaluate_every=every, save_every=every
            ),
        }
    )
    return train_recipe("pretraining", recipe, base, folder, on_progress)[0].folder / "model"


def reinitialized(source: Path, folder: Path, seed: int) -> Path:
    """Save a copy of an encoder with newly initialized weights; returns its folder."""
    if not folder.exists():
        loaded = open_folder(source)
        torch.manual_seed(seed)
        fresh = initialize(build(loaded.config)).to(next(iter(loaded.model.parameters())).dtype)
        loaded.model.load_state_dict(fresh.state_dict())
        save_folder(loaded, folder)
    return folder


def sample_rows(rows: Sequence[LabeledRow], count: int, seed: int) -> list[LabeledRow]:
    order = np.random.default_rng([seed, count]).permutation(len(rows))[:count]
    return [rows[i] for i in order]


def measure(
    folder: Path,
    rows: Sequence[LabeledRow],
    test: Sequence[LabeledRow],
    base_models: Mapping[str, str],
    *,
    data: str,
    sizes: Sequence[int] = SIZES,
    seeds: int = 3,
    pretraining_steps: int = 0,
    min_steps: int = 100,
    on_progress: OnProgress = no_progress,
) -> LabelsResult:
    """Fine-tune every base model on every number of labels with every seed; each seed samples its own rows."""
    runs: list[TrainedRun] = []
    seconds = 0.0
    for label, base_model in base_models.items():
        reached: list[MeanInterval] = []
        for count in sizes:
            scores: list[float] = []
            for seed in range(1, seeds + 1):
                steps = max(min_steps, 3 * count // 32)
                run_folder = folder / label.replace(" ", "-") / f"{count}-{seed}"
                name = f"{label}, {count:,} labels, seed {seed}"
                lr = LEARNING_RATES.get(label, 1e-4)
                sampled = sample_rows(rows, count, seed)
                result = finetune(
                    name, base_model, sampled, test, run_folder, steps=steps, seed=seed, lr=lr, on_progress=on_progress
                )
                scores.append(result.score)
                seconds += result.seconds
            reached.append(mean_interval(scores))
        runs.append(TrainedRun(label, _num_parameters(base_model), tuple(reached)))
    return LabelsResult(data, len(test), seeds, tuple(sizes), pretraining_steps, tuple(runs), round(seconds, 1))


def _num_parameters(base_model: str) -> int:
    from clearhead.train.init_model import base_model_folder

    model = open_folder(base_model_folder(base_model, Path())).model
    return sum(p.numel() for p in (model.encoder or model).parameters())


def draw(measured: LabelsResult) -> Figure:
    x = [log10(size) for size in measured.sizes]
    curves = [
        interval_curve(f"{run.label}\n{run.parameters / 1e6:.1f} M parameters", x, run.reached)
        for run in measured.learners
    ]
    ticks = [(place, f"{size:,}") for place, size in zip(x, measured.sizes, strict=True)]
    accuracy = f"accuracy on {measured.test:,} test sentences (%)"
    panel = Panel(curves, "labeled training sentences", accuracy, ticks=ticks)
    return draw_curves([panel], f"Labels needed: {measured.data}", width=7.0, height=4.4)
