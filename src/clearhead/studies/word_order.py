"""Word order: the effect of shuffled n-grams on a language model and on fine-tuned classification tasks.

Texts are shuffled in training and in the test. A language model trained from scratch shows how much of what it learns
is word order; tasks that MiniLM is fine-tuned on show how much of it they need.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from zlib import crc32

import numpy as np

from clearhead.data import Row
from clearhead.data.datasets import locate
from clearhead.data.squad import paragraph_rows
from clearhead.files import write_atomic
from clearhead.studies.labels_needed import MINILM, sample_rows
from clearhead.studies.scaling import language_model
from clearhead.studies.study_results import MeanInterval, interval_curve, mean_interval
from clearhead.studies.training import (
    MRPC,
    SST2,
    LabeledRow,
    OnProgress,
    finetune,
    glue_rows,
    no_progress,
    train_recipe,
)
from clearhead.viz import Panel, draw_curves

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NGRAM_SIZES = (1, 2, 3, 4, 0)  # words that stay together; 0: the full text
TASKS = {"sentiment (SST-2)": SST2, "paraphrase (MRPC)": MRPC}
MAX_TRAIN_ROWS = 1000  # per task


@dataclass(frozen=True)
class TaskScores:
    """Scores of one task, for each n-gram size."""

    task: str
    rows: int
    test: int
    scores: tuple[MeanInterval, ...]


@dataclass(frozen=True)
class WordOrderResult:
    """Results of the study."""

    start: str
    seeds: int
    grams: tuple[int, ...]
    losses: tuple[MeanInterval, ...]  # of the next word, nats a token, for each length of n-grams
    tasks: tuple[TaskScores, ...]
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
    tasks: Mapping[str, tuple[Sequence[LabeledRow], Sequence[LabeledRow]]],
    texts: Sequence[str],
    *,
    base_model: str = MINILM,
    grams: Sequence[int] = NGRAM_SIZES,
    seeds: int = 3,
    epochs: int = 2,
    tokens: int = 1_000_000,
    on_progress: OnProgress = no_progress,
) -> WordOrderResult:
    """Train on `texts` and fine-tune `base_model` on every task, for every n-gram size and every seed."""
    losses: list[MeanInterval] = []
    for n in grams:
        runs = (_language_model_loss(folder, texts, n, grams[0], tokens, i + 1, on_progress) for i in range(seeds))
        losses.append(mean_interval(list(runs)))
    task_scores: list[TaskScores] = []
    seconds = 0.0
    for number, (name, (rows, test)) in enumerate(tasks.items()):
        scores: list[MeanInterval] = []
        for n in grams:
            seed_scores: list[float] = []
            for seed in range(1, seeds + 1):
                train_rows, test_rows = ([(tuple(shuffled(t, n) for t in texts), label) for texts, label in part]
                                for part in (rows, test))  # fmt: skip
                label = f"{name}, {_ngram_name(n)}, seed {seed}"
                run_folder, steps = folder / f"{number}-{n}-{seed}", max(1, epochs * len(rows) // 32)
                data = base_model, train_rows, test_rows, run_folder
                run = finetune(label, *data, steps=steps, seed=seed, metric="macro_f1", on_progress=on_progress)
                seed_scores.append(run.score)
                seconds += run.seconds
            scores.append(mean_interval(seed_scores))
        task_scores.append(TaskScores(name, len(rows), len(test), tuple(scores)))
    return WordOrderResult(base_model, seeds, tuple(grams), tuple(losses), tuple(task_scores), round(seconds, 1))


def _language_model_loss(
    folder: Path, texts: Sequence[str], n: int, first: int, tokens: int, seed: int, on_progress: OnProgress
) -> float:
    """Return the validation loss of a language model on shuffled texts; 5 % of the texts are held out."""
    file = folder / f"text-{n}.txt"
    if not file.exists():
        folder.mkdir(parents=True, exist_ok=True)
        write_atomic(file, "".join(shuffled(text, n) + "\n" for text in texts))
    trained = folder / f"words-{first}-1" / "tokenizer"  # trained once, by the first run
    tokenizer = {"vocab_size": 4000} if (n, seed) == (first, 1) else {"folder": str(trained.absolute())}
    data = {"train": {"text": file.name}, "validation_rows": len(texts) // 20, "max_len": 128}
    steps = max(2, tokens // 2048)
    recipe = language_model(data, tokenizer, width=128, steps=steps, batch_tokens=2048, seed=seed)
    name = f"language model, {_ngram_name(n)}, seed {seed}"
    _, progress = train_recipe(name, recipe, folder, folder / f"words-{n}-{seed}", on_progress)
    assert progress.best is not None
    return progress.best


def _ngram_name(n: int) -> str:
    return f"{n}-grams" if n else "original order"


def glue(max_rows: int = MAX_TRAIN_ROWS) -> dict[str, tuple[list[LabeledRow], list[LabeledRow]]]:
    """Return the training and test rows of each task, with at most `max_rows` for training."""
    return {
        name: (sample_rows(glue_rows(task, "train"), max_rows, 1), glue_rows(task, "dev"))
        for name, task in TASKS.items()
    }


def squad() -> list[str]:
    rows = paragraph_rows("text", locate("squad:train-v1.1.json", Path()))
    return [" ".join(row.values["text"].split()) for row in rows if isinstance(row, Row)]


def draw(measured: WordOrderResult) -> Figure:
    """Plot the language-model loss and the score of each task against the n-gram size."""
    x = [float(i) for i in range(len(measured.grams))]
    ticks = [(p, str(n) if n else "original order") for p, n in zip(x, measured.grams, strict=True)]
    curves = [interval_curve(task.task, x, task.scores) for task in measured.tasks]
    n_label = "n-gram size (words that stay together)"
    loss = interval_curve("language model", x, measured.losses)
    panels = [
        Panel([loss], n_label, "validation loss (nats per token)", "language model", ticks=ticks),
        Panel(curves, n_label, "macro F1 (%)", "fine-tuned tasks", ticks=ticks),
    ]
    return draw_curves(panels, "Trained and tested on shuffled n-grams", width=5.6, height=4.2)
