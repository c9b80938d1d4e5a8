"""Recurrent and Transformer language models on the same text: validation loss by step and by training time."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import torch

from clearhead.pipeline import load
from clearhead.studies.training import OnProgress, StudyCorpus, no_progress, scratch_settings, train_recipe
from clearhead.train import Recipe, make_recipe
from clearhead.train.tracking import read_log
from clearhead.viz import Curve, Panel, draw_curves

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NUM_EVALUATIONS = 12  # per run
MAX_LEN = 128
MODELS: dict[str, dict[str, Any]] = {
    "LSTM": {"kind": "lstm", "width": 128, "hidden_size": 232, "num_layers": 2},
    "Transformer": {"width": 128, "num_layers": 4, "num_heads": 4, "ffn_dim": 512},
}
SMALL: dict[str, dict[str, Any]] = {
    "LSTM": {"kind": "lstm", "width": 32, "hidden_size": 48, "num_layers": 1},
    "Transformer": {"width": 32, "num_layers": 1, "num_heads": 2, "ffn_dim": 128},
}


@dataclass(frozen=True)
class CurvePoint:
    """Validation loss after a number of steps and seconds."""

    step: int
    seconds: float
    loss: float  # nats per token


@dataclass(frozen=True)
class LanguageModelRun:
    """Results of one language model."""

    label: str
    parameters: int
    seconds: float
    tokens_per_second: float  # median over the steps
    points: tuple[CurvePoint, ...]
    sample: str


@dataclass(frozen=True)
class LanguageModelsResult:
    """Results of the study."""

    steps: int
    batch_tokens: int
    vocab_size: int
    threads: int
    prompt: str
    speakers: tuple[LanguageModelRun, ...]


def recipes(
    corpus: StudyCorpus, steps: int, seed: int, models: dict[str, dict[str, Any]], vocab_size: int, batch_tokens: int
) -> dict[str, Recipe]:
    """Return one recipe per model; they differ in the model only."""
    every = max(1, steps // NUM_EVALUATIONS)
    optimizer, schedule = {"lr": 2e-3, "weight_decay": 0.01}, {"kind": "cosine", "final": 0.05}
    return {
        label: make_recipe(
            {
                "task": "language_model",
                "seed": seed,
                "data": {"train": corpus.part, "validation_rows": corpus.validation_rows, "max_len": MAX_LEN},
                "tokenizer": {"vocab_size": vocab_size},
                "model": {**model, "dropout": 0.1},
                "train": scratch_settings(
                    steps, batch_tokens, optimizer, schedule, dtype="float32", evaluate_every=every
                ),
            }
        )
        for label, model in models.items()
    }


def measure(
    corpus: StudyCorpus,
    folder: Path,
    *,
    steps: int = 600,
    seed: int = 1,
    models: dict[str, dict[str, Any]] = MODELS,
    vocab_size: int = 1000,
    batch_tokens: int = 4096,
    prompt: str = "ROMEO:",
    on_progress: OnProgress = no_progress,
) -> LanguageModelsResult:
    """Train the models in `folder`, and generate a text from a prompt with each."""
    runs: list[LanguageModelRun] = []
    for label, recipe in recipes(corpus, steps, seed, models, vocab_size, batch_tokens).items():
        run, progress = train_recipe(label, recipe, corpus.base, folder / label.lower(), on_progress)
        log = read_log(run.folder / "log.jsonl")
        seconds_at = {r["step"]: r["seconds"] for r in log if "seconds" in r}
        losses = {r["step"]: round(r["valid_loss"], 4) for r in log if "valid_loss" in r}
        points = tuple(CurvePoint(step, seconds_at[step], loss) for step, loss in losses.items())
        pipeline = load(run.folder / "model")
        generated = pipeline.generate(prompt, max_new_tokens=MAX_LEN - 16, temperature=0.8, top_p=0.95, seed=seed)
        size = sum(p.numel() for p in pipeline.model.parameters())
        rate = median(r["tokens_per_second"] for r in log if "tokens_per_second" in r)
        seconds, sample = round(progress.seconds, 1), prompt + generated.text
        runs.append(LanguageModelRun(label, size, seconds, round(rate), points, sample))
    return LanguageModelsResult(steps, batch_tokens, vocab_size, torch.get_num_threads(), prompt, tuple(runs))


def draw(measured: LanguageModelsResult) -> Figure:
    """Plot the validation loss against steps and against minutes of training."""

    def curves(by_time: bool) -> list[Curve]:
        return [
            Curve(
                f"{s.label}\n{s.parameters / 1e6:.2f} M parameters",
                [p.seconds / 60 if by_time else p.step for p in s.points],
                [p.loss for p in s.points],
            )
            for s in measured.speakers
        ]

    cores = "one core" if measured.threads == 1 else f"{measured.threads} cores"
    panels = [
        Panel(curves(False), "steps", "validation loss (nats per token)", "by training step", labelled=False),
        Panel(curves(True), f"minutes of training, {cores}", "", "by training time"),
    ]
    return draw_curves(panels, "LSTM and Transformer language models on the same text", width=5.2, height=4.0)
