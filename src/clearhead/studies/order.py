"""Word order: what is left of a task when the n-grams of every text are shuffled, in training and in the test."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from zlib import crc32

import numpy as np

from clearhead.see import Panel, draw_curves
from clearhead.studies.glue import COLA, MRPC, SST2, rows_of
from clearhead.studies.labels import MINILM, drawn
from clearhead.studies.spread import Spread, band, spread
from clearhead.studies.trained import Heard, unheard
from clearhead.studies.tuned import Labelled, tuned

if TYPE_CHECKING:
    from matplotlib.figure import Figure

GRAMS = (1, 2, 3, 4, 0)  # words that stay together; 0: the whole text
TASKS = {
    "acceptable or not (CoLA)": COLA,
    "sentiment (SST-2)": SST2,
    "paraphrase (MRPC)": MRPC,
}
MOST = 1000  # rows of a task that are trained on


@dataclass(frozen=True)
class Kept:
    """One task: its score for each length of n-grams."""

    task: str
    rows: int
    test: int
    scores: tuple[Spread, ...]


@dataclass(frozen=True)
class Order:
    """What was measured."""

    start: str
    seeds: int
    grams: tuple[int, ...]
    tasks: tuple[Kept, ...]
    seconds: float  # of fine-tuning, all runs together


def shuffled(text: str, n: int) -> str:
    """The text with its n-grams in another order, always the same for the same text; as it is where n is 0."""
    words = text.split()
    if not n:
        return text
    parts = [words[i : i + n] for i in range(0, len(words), n)]
    order = np.random.default_rng([crc32(text.encode()), n]).permutation(len(parts))
    return " ".join(word for i in order for word in parts[i])


def measure(
    folder: Path,
    tasks: Mapping[str, tuple[Sequence[Labelled], Sequence[Labelled]]],
    *,
    start: str = MINILM,
    grams: Sequence[int] = GRAMS,
    seeds: int = 3,
    epochs: int = 2,
    heard: Heard = unheard,
) -> Order:
    """Fine-tune `start` on every task with every length of n-grams and every seed."""
    found: list[Kept] = []
    seconds = 0.0
    for number, (name, (rows, test)) in enumerate(tasks.items()):
        scores: list[Spread] = []
        for n in grams:
            each: list[float] = []
            for seed in range(1, seeds + 1):
                mine, others = ([(tuple(shuffled(t, n) for t in texts), label) for texts, label in part]
                                for part in (rows, test))  # fmt: skip
                label = f"{name}, {f'{n}-grams' if n else 'whole'}, seed {seed}"
                where, steps = folder / f"{number}-{n}-{seed}", max(1, epochs * len(rows) // 32)
                run = tuned(label, start, mine, others, where, steps=steps, seed=seed, metric="macro_f1", heard=heard)
                each.append(run.score)
                seconds += run.seconds
            scores.append(spread(each))
        found.append(Kept(name, len(rows), len(test), tuple(scores)))
    return Order(start, seeds, tuple(grams), tuple(found), round(seconds, 1))


def glue(most: int = MOST) -> dict[str, tuple[list[Labelled], list[Labelled]]]:
    """The tasks, with at most so many rows each."""
    return {name: (drawn(rows_of(task, "train"), most, 1), rows_of(task, "dev")) for name, task in TASKS.items()}


def draw(measured: Order) -> Figure:
    """The score of each task against the length of what stays together."""
    places = [float(i) for i in range(len(measured.grams))]
    ticks = [(p, str(n) if n else "whole") for p, n in zip(places, measured.grams, strict=True)]
    curves = [band(one.task, places, one.scores) for one in measured.tasks]
    panel = Panel(curves, "words that stay together (n)", "macro F1, %", ticks=ticks)
    return draw_curves([panel], "Trained and tested on shuffled n-grams", width=7.4, height=4.4)
