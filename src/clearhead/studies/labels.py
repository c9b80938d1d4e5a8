"""Does pre-training pay? The labels that an encoder needs: untrained, pre-trained here, and pre-trained elsewhere."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import log10
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch

from clearhead.models import build
from clearhead.models.store import open_folder, save_folder
from clearhead.see import Panel, draw_curves
from clearhead.studies.spread import Spread, band, spread
from clearhead.studies.trained import Heard, trained, unheard
from clearhead.studies.tuned import Labelled, tuned
from clearhead.train import make_recipe
from clearhead.train.initial import initialise
from clearhead.train.tuned import START

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TEXT = ("squad:train-v1.1.json", "wikitext2:valid.txt")
SIZES = (100, 300, 1000, 3000, 10_000)
MINILM = START  # where fine-tuning begins, unless told otherwise
RATES = {"untrained": 3e-4, "pre-trained here": 3e-4, "MiniLM": 1e-4}


@dataclass(frozen=True)
class Learner:
    """One encoder: what it reaches with so many labels."""

    label: str
    parameters: int
    reached: tuple[Spread, ...]  # for each number of labels


@dataclass(frozen=True)
class Labels:
    """What was measured."""

    data: str
    test: int  # rows
    seeds: int
    sizes: tuple[int, ...]
    pretraining_steps: int  # made here; 0 where the pre-trained one was given
    learners: tuple[Learner, ...]
    seconds: float  # of fine-tuning, all runs together


def pretrained(
    folder: Path, *, steps: int, text: Sequence[str] = TEXT, base: Path = Path(), size: str = "mini",
    vocab_size: int = 8000, batch_tokens: int = 4096, seed: int = 1, heard: Heard = unheard,
) -> Path:  # fmt: skip
    """A small BERT that learnt hidden words and next sentences from plain text."""
    recipe = make_recipe(
        {
            "task": "masked",
            "seed": seed,
            "data": {"train": {"text": list(text)}, "hold_out": 200, "max_len": 128, "pairs": "next"},
            "tokenizer": {"vocab_size": vocab_size, "lowercase": True},
            "model": {"family": "bert", "size": size, "dropout": 0.0},
            "train": {
                "steps": steps,
                "batch_tokens": batch_tokens,
                "optimiser": {"lr": 5e-4, "betas": [0.9, 0.98], "eps": 1e-6, "weight_decay": 0.01},
                "schedule": {"kind": "linear", "warmup": max(1, steps // 10)},
                "evaluate_every": max(1, steps // 4),
                "save_every": max(1, steps // 4),
                "keep": 1,
            },
        }
    )
    return trained("pre-training", recipe, base, folder, heard)[0].folder / "model"


def forgotten(source: Path, folder: Path, seed: int) -> Path:
    """The same encoder with the weights it was born with."""
    if not folder.exists():
        opened = open_folder(source)
        torch.manual_seed(seed)
        fresh = initialise(build(opened.config)).to(next(iter(opened.model.parameters())).dtype)
        opened.model.load_state_dict(fresh.state_dict())
        save_folder(opened, folder)
    return folder


def drawn(rows: Sequence[Labelled], count: int, seed: int) -> list[Labelled]:
    """So many rows, drawn by the seed."""
    order = np.random.default_rng([seed, count]).permutation(len(rows))[:count]
    return [rows[i] for i in order]


def measure(
    folder: Path,
    rows: Sequence[Labelled],
    test: Sequence[Labelled],
    starts: Mapping[str, str],
    *,
    data: str,
    sizes: Sequence[int] = SIZES,
    seeds: int = 3,
    pretraining_steps: int = 0,
    least: int = 100,
    heard: Heard = unheard,
) -> Labels:
    """Fine-tune every start on every number of labels with every seed; a seed draws its own rows."""
    learners: list[Learner] = []
    seconds = 0.0
    for label, start in starts.items():
        reached: list[Spread] = []
        for count in sizes:
            scores: list[float] = []
            for seed in range(1, seeds + 1):
                steps = max(least, 3 * count // 32)
                where = folder / label.replace(" ", "-") / f"{count}-{seed}"
                name = f"{label}, {count:,} labels, seed {seed}"
                lr = RATES.get(label, 1e-4)
                some = drawn(rows, count, seed)
                found = tuned(name, start, some, test, where, steps=steps, seed=seed, lr=lr, heard=heard)
                scores.append(found.score)
                seconds += found.seconds
            reached.append(spread(scores))
        learners.append(Learner(label, _parameters(start), tuple(reached)))
    return Labels(data, len(test), seeds, tuple(sizes), pretraining_steps, tuple(learners), round(seconds, 1))


def _parameters(start: str) -> int:
    from clearhead.train.start import folder_of

    model = open_folder(folder_of(start, Path())).model
    return sum(p.numel() for p in (model.encoder or model).parameters())


def draw(measured: Labels) -> Figure:
    """Accuracy against the number of labels."""
    x = [log10(size) for size in measured.sizes]
    curves = [
        band(f"{one.label}\n{one.parameters / 1e6:.1f} M parameters", x, one.reached) for one in measured.learners
    ]
    ticks = [(place, f"{size:,}") for place, size in zip(x, measured.sizes, strict=True)]
    panel = Panel(curves, "labelled sentences", f"accuracy on {measured.test:,} others, %", ticks=ticks)
    return draw_curves([panel], f"Labels needed: {measured.data}", width=7.0, height=4.4)
