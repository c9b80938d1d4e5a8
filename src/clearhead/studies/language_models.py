"""Recurrent and Transformer language models on the same text: what they learn by the step, and by the minute."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import torch

from clearhead.app import load
from clearhead.see import Curve, Panel, draw_curves
from clearhead.studies.corpus import Corpus
from clearhead.studies.trained import Heard, trained, unheard
from clearhead.train import Recipe, make_recipe
from clearhead.train.tracking import read_log

if TYPE_CHECKING:
    from matplotlib.figure import Figure

POINTS = 12  # evaluations of a run
MAX_LEN = 128
MODELS: dict[str, dict[str, Any]] = {
    "LSTM": {"kind": "lstm", "width": 128, "hidden": 232, "num_layers": 2},
    "Transformer": {"width": 128, "num_layers": 4, "num_heads": 4, "hidden": 512},
}
SMALL: dict[str, dict[str, Any]] = {
    "LSTM": {"kind": "lstm", "width": 32, "hidden": 48, "num_layers": 1},
    "Transformer": {"width": 32, "num_layers": 1, "num_heads": 2, "hidden": 128},
}


@dataclass(frozen=True)
class Point:
    """The loss on the validation text after so many steps and seconds."""

    step: int
    seconds: float
    loss: float  # nats a token


@dataclass(frozen=True)
class Speaker:
    """One language model."""

    label: str
    parameters: int
    seconds: float
    tokens_per_second: float  # the median of its steps
    points: tuple[Point, ...]
    sample: str


@dataclass(frozen=True)
class Comparison:
    """What was measured."""

    steps: int
    batch_tokens: int
    vocab_size: int
    threads: int
    prompt: str
    speakers: tuple[Speaker, ...]


def recipes(
    corpus: Corpus, steps: int, seed: int, models: dict[str, dict[str, Any]], vocab_size: int, batch_tokens: int
) -> dict[str, Recipe]:
    """The two, alike in everything but the model."""
    every = max(1, steps // POINTS)
    return {
        label: make_recipe(
            {
                "task": "language_model",
                "seed": seed,
                "data": {"train": corpus.part, "hold_out": corpus.hold_out, "max_len": MAX_LEN},
                "tokenizer": {"vocab_size": vocab_size},
                "model": {**model, "dropout": 0.1},
                "train": {
                    "steps": steps,
                    "batch_tokens": batch_tokens,
                    "dtype": "float32",
                    "optimiser": {"lr": 2e-3, "weight_decay": 0.01},
                    "schedule": {"kind": "cosine", "warmup": max(1, steps // 10), "final": 0.05},
                    "evaluate_every": every,
                    "save_every": steps,
                    "keep": 1,
                },
            }
        )
        for label, model in models.items()
    }


def measure(
    corpus: Corpus,
    folder: Path,
    *,
    steps: int = 600,
    seed: int = 1,
    models: dict[str, dict[str, Any]] = MODELS,
    vocab_size: int = 1000,
    batch_tokens: int = 4096,
    prompt: str = "ROMEO:",
    heard: Heard = unheard,
) -> Comparison:
    """Train the two in `folder`, and let them go on from a prompt."""
    speakers: list[Speaker] = []
    for label, recipe in recipes(corpus, steps, seed, models, vocab_size, batch_tokens).items():
        run, progress = trained(label, recipe, corpus.base, folder / label.lower(), heard)
        log = read_log(run.folder / "log.jsonl")
        at = {r["step"]: r["seconds"] for r in log if "seconds" in r}
        points = tuple(Point(r["step"], at[r["step"]], round(r["valid_loss"], 4)) for r in log if "valid_loss" in r)
        app = load(run.folder / "model")
        written = app.generate(prompt, max_new=MAX_LEN - 16, temperature=0.8, top_p=0.95, seed=seed)
        size = sum(p.numel() for p in app.model.parameters())
        rate = median(r["tokens_per_second"] for r in log if "tokens_per_second" in r)
        speakers.append(Speaker(label, size, round(progress.seconds, 1), round(rate), points, prompt + written.text))
    return Comparison(steps, batch_tokens, vocab_size, torch.get_num_threads(), prompt, tuple(speakers))


def draw(measured: Comparison) -> Figure:
    """The loss against steps, and against minutes."""

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
        Panel(curves(False), "steps", "validation loss (nats a token)", "by the step", labelled=False),
        Panel(curves(True), f"minutes of training, {cores}", "", "by the minute"),
    ]
    return draw_curves(panels, "Two language models on one text", width=5.2, height=4.0)
