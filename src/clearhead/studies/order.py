"""Word order: what is left of a task when the n-grams of every text are shuffled, in training and in the test.

A language model that is trained from nothing shows how much of what it learns is order; tasks that MiniLM is tuned to
show how much of that they need.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from zlib import crc32

import numpy as np

from clearhead.data import Row
from clearhead.data.sets import locate
from clearhead.data.squad import paragraph_rows
from clearhead.files import write_atomic
from clearhead.see import Panel, draw_curves
from clearhead.studies.glue import MRPC, SST2, rows_of
from clearhead.studies.labels import MINILM, drawn
from clearhead.studies.scaling import language_model
from clearhead.studies.spread import Spread, band, spread
from clearhead.studies.trained import Heard, trained, unheard
from clearhead.studies.tuned import Labelled, tuned

if TYPE_CHECKING:
    from matplotlib.figure import Figure

GRAMS = (1, 2, 3, 4, 0)  # words that stay together; 0: the whole text
TASKS = {"sentiment (SST-2)": SST2, "paraphrase (MRPC)": MRPC}
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
    losses: tuple[Spread, ...]  # of the next word, nats a token, for each length of n-grams
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
    texts: Sequence[str],
    *,
    start: str = MINILM,
    grams: Sequence[int] = GRAMS,
    seeds: int = 3,
    epochs: int = 2,
    tokens: int = 1_000_000,
    heard: Heard = unheard,
) -> Order:
    """Train on `texts` and tune `start` to every task, with every length of n-grams and every seed."""
    losses = [
        spread([_next_word(folder, texts, n, grams[0], tokens, seed, heard) for seed in range(1, seeds + 1)])
        for n in grams
    ]
    found: list[Kept] = []
    seconds = 0.0
    for number, (name, (rows, test)) in enumerate(tasks.items()):
        scores: list[Spread] = []
        for n in grams:
            each: list[float] = []
            for seed in range(1, seeds + 1):
                mine, others = ([(tuple(shuffled(t, n) for t in texts), label) for texts, label in part]
                                for part in (rows, test))  # fmt: skip
                label = f"{name}, {_named(n)}, seed {seed}"
                where, steps = folder / f"{number}-{n}-{seed}", max(1, epochs * len(rows) // 32)
                run = tuned(label, start, mine, others, where, steps=steps, seed=seed, metric="macro_f1", heard=heard)
                each.append(run.score)
                seconds += run.seconds
            scores.append(spread(each))
        found.append(Kept(name, len(rows), len(test), tuple(scores)))
    return Order(start, seeds, tuple(grams), tuple(losses), tuple(found), round(seconds, 1))


def _next_word(folder: Path, texts: Sequence[str], n: int, first: int, tokens: int, seed: int, heard: Heard) -> float:
    """The loss of a language model on shuffled texts, a twentieth of which it does not train on."""
    file = folder / f"text-{n}.txt"
    if not file.exists():
        folder.mkdir(parents=True, exist_ok=True)
        write_atomic(file, "".join(shuffled(text, n) + "\n" for text in texts))
    learnt = folder / f"words-{first}-1" / "tokenizer"  # once, by the first of them
    words = {"vocab_size": 4000} if (n, seed) == (first, 1) else {"folder": str(learnt.absolute())}
    data = {"train": {"text": file.name}, "hold_out": len(texts) // 20, "max_len": 128}
    steps = max(2, tokens // 2048)
    recipe = language_model(data, words, width=128, steps=steps, batch_tokens=2048, seed=seed)
    _, progress = trained(f"next word, {_named(n)}, seed {seed}", recipe, folder, folder / f"words-{n}-{seed}", heard)
    assert progress.best is not None
    return progress.best


def _named(n: int) -> str:
    return f"{n}-grams" if n else "whole"


def glue(most: int = MOST) -> dict[str, tuple[list[Labelled], list[Labelled]]]:
    """The tasks, with at most so many rows each."""
    return {name: (drawn(rows_of(task, "train"), most, 1), rows_of(task, "dev")) for name, task in TASKS.items()}


def squad() -> list[str]:
    """SQuAD's paragraphs, in which the language model reads."""
    rows = paragraph_rows("text", locate("squad:train-v1.1.json", Path()))
    return [" ".join(row.values["text"].split()) for row in rows if isinstance(row, Row)]


def draw(measured: Order) -> Figure:
    """The loss of the next word and the score of each task against the length of what stays together."""
    places = [float(i) for i in range(len(measured.grams))]
    ticks = [(p, str(n) if n else "whole") for p, n in zip(places, measured.grams, strict=True)]
    curves = [band(one.task, places, one.scores) for one in measured.tasks]
    together = "words that stay together (n)"
    panels = [
        Panel(
            [band("language model", places, measured.losses)], together, "nats a token", "the next word", ticks=ticks
        ),
        Panel(curves, together, "macro F1, %", "tasks", ticks=ticks),
    ]
    return draw_curves(panels, "Trained and tested on shuffled n-grams", width=5.6, height=4.2)
