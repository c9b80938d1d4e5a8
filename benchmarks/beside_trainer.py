"""One recipe, trained by clearhead and by the Trainer of `transformers`: scores of both on the test split.

    python benchmarks/beside_trainer.py recipes/trec.yaml RUN [--rows 5000] [--record docs/results/trec.json]

RUN is the run folder of that recipe from `clearhead train`; it is trained if it does not exist. The Trainer starts
from the same base model with the same rows, steps, batches, learning rate and dtype, and with length grouping. The
same code evaluates both models; intervals are 95 % confidence intervals (bootstrap). With `--rows` both sides train
one epoch on that many rows; `--alone` skips the Trainer. The last line is a JSON object; `--record` also writes it to
a file, with the recipe and the loss curve.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from clearhead import load
from clearhead.attention import Layout
from clearhead.data import Columns
from clearhead.data.ragged import Ragged
from clearhead.models.precision import choose_dtype
from clearhead.train.recipe import read_recipe
from clearhead.train.run import prepare, train
from clearhead.train.run_data import read_part
from clearhead.train.training_run import TrainingRun
from machine import machine_facts

HEADS = {
    "sequence": "AutoModelForSequenceClassification",
    "token": "AutoModelForTokenClassification",
    "span": "AutoModelForQuestionAnswering",
}
IGNORED = -100  # the label of a token that `transformers` leaves out of the loss


class Rowed(torch.utils.data.Dataset[Any]):
    """Examples in the Trainer's format: the first window of each example, with the same tokens and labels."""

    def __init__(self, run: TrainingRun) -> None:
        self.run = run

    def __len__(self) -> int:
        return len(self.run.train["ids"])

    def __getitem__(self, i: int) -> dict[str, Any]:
        task = self.run.task
        batch = task.collate(self.run.train, np.array([i]))
        size, kind = batch.layout.host_lengths[0], task.head[0]
        out: dict[str, Any] = {"input_ids": batch.ids[:size].tolist(), "attention_mask": [1] * size}
        if batch.segments is not None:
            out["token_type_ids"] = batch.segments[:size].tolist()
        if kind == "sequence":
            out["labels"] = batch.labels[0].item()
        elif kind == "token":
            labels = torch.full((size,), IGNORED)
            here = batch.labels[0] < size
            labels[batch.labels[0][here]] = batch.labels[1][here]
            out["labels"] = labels.tolist()
        else:
            out |= {"start_positions": int(batch.labels[0, 0]), "end_positions": int(batch.labels[1, 0])}
        return out


def trainer_folder(run: TrainingRun, folder: Path) -> float:
    """Train with the Trainer into this folder and return the seconds."""
    import transformers
    from transformers import (
        AutoTokenizer,
        DataCollatorForTokenClassification,
        DataCollatorWithPadding,
        Trainer,
        TrainingArguments,
    )

    transformers.logging.set_verbosity_error()
    recipe, settings = run.recipe, run.settings
    assert run.base_model is not None and settings.batch_examples is not None
    kind, labels = run.task.head
    names = (
        {}
        if kind == "span"
        else {"id2label": dict(enumerate(labels)), "label2id": {n: i for i, n in enumerate(labels)}}
    )
    torch.manual_seed(recipe.seed)
    model = getattr(transformers, HEADS[kind]).from_pretrained(run.base_model.folder, **names)
    if kind == "sequence" and recipe.data.train.get("number"):
        model.config.problem_type = "regression"
    words = AutoTokenizer.from_pretrained(run.base_model.folder)
    chosen, schedule = settings.optimizer, settings.schedule
    arguments = TrainingArguments(
        output_dir=str(folder / "work"), per_device_train_batch_size=settings.batch_examples, max_steps=settings.last,
        learning_rate=chosen.lr, weight_decay=chosen.weight_decay, adam_beta1=chosen.betas[0],
        adam_beta2=chosen.betas[1], adam_epsilon=chosen.eps, max_grad_norm=chosen.clip or 0.0,
        lr_scheduler_type=schedule.kind, warmup_steps=schedule.warmup, train_sampling_strategy="group_by_length",
        bf16=choose_dtype(settings.dtype, torch.device("cpu")) == torch.bfloat16, use_cpu=True, report_to=[],
        save_strategy="no", logging_steps=50, seed=recipe.seed, remove_unused_columns=False,
    )  # fmt: skip
    collate = (DataCollatorForTokenClassification if kind == "token" else DataCollatorWithPadding)(words)
    trainer = Trainer(model=model, args=arguments, train_dataset=Rowed(run), data_collator=collate)
    begin = time.perf_counter()
    trainer.train()
    seconds = time.perf_counter() - begin
    model.save_pretrained(folder / "model")
    words.save_pretrained(folder / "model")
    return seconds


def some(columns: Columns, count: int) -> Columns:
    """Return `count` examples, sampled with a fixed seed."""
    total = len(next(iter(columns.values())))
    chosen = np.sort(np.random.default_rng(0).permutation(total)[:count])
    taken = {name: column.take(chosen) for name, column in columns.items()}
    return {name: Ragged(ids, np.concatenate([[0], np.cumsum(sizes)])) for name, (ids, sizes) in taken.items()}


def evaluate(folder: Path, run: TrainingRun) -> dict[str, Any]:
    """Return the scores of a model folder on the test split, with 95 % confidence intervals."""
    assert run.recipe.data.test is not None
    loaded = load(str(folder), dtype=run.settings.dtype).loaded
    task_type: Any = type(run.task)
    task = task_type.from_model(loaded)
    rows = read_part(run.recipe.data.test, run.base, run.recipe.data.rename)
    found = task.evaluate(loaded, rows)
    return {"rows": found.count, **found.scores(), "intervals": found.intervals()}


@torch.inference_mode()
def difference(folder: Path, run: TrainingRun, count: int = 64) -> float:
    """Return the largest difference between clearhead's logits and those of the transformers Auto class, in float32."""
    import transformers

    assert run.recipe.data.test is not None
    theirs = getattr(transformers, HEADS[run.task.head[0]]).from_pretrained(folder).float().eval()
    ours = load(str(folder), dtype="float32").model
    columns, _ = run.task.encode(read_part(run.recipe.data.test, run.base, run.recipe.data.rename))
    worst = 0.0
    for i in range(min(count, len(columns["ids"]))):
        batch = run.task.collate(columns, np.array([i]))
        size = batch.layout.host_lengths[0]
        layout, segments = Layout.from_lengths([size]), None if batch.segments is None else batch.segments[:size]
        given = {"input_ids": batch.ids[None, :size]} | ({} if segments is None else {"token_type_ids": segments[None]})
        expected, found = theirs(**given), ours(batch.ids[:size], layout, segments=segments)
        wanted = (
            torch.stack([expected.start_logits[0], expected.end_logits[0]], 1)
            if "start_logits" in expected
            else expected.logits[0]
        )
        worst = max(worst, float((found - wanted).abs().max()))
    return worst


def finish(record: dict[str, Any], begun: dict[str, Any], peer: str, path: Path | None) -> None:
    """Print the scores with the versions of both sides; the file also gets the recipe and the loss curve."""
    versions = {**begun["versions"], peer: __import__(peer).__version__}
    record = {**record, "versions": versions, "machine": machine_facts(), "threads": torch.get_num_threads()}
    if path is not None:
        whole = {**record, "steps": begun["steps"], "curve": begun["curve"], "recipe": begun["recipe"]}
        path.write_text(json.dumps(whole, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    print(json.dumps(record))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recipe", type=Path)
    parser.add_argument("run", type=Path)
    parser.add_argument("--rows", type=int, help="train both sides on so many rows, one epoch")
    parser.add_argument("--alone", action="store_true", help="without the Trainer")
    parser.add_argument("--record", type=Path, help="write the JSON object to this file too")
    given = parser.parse_args()
    recipe = read_recipe(given.recipe)
    if given.rows:
        steps = -(-given.rows // (recipe.train.batch_examples or 32))
        short = replace(
            recipe.train, steps=steps, epochs=None, schedule=replace(recipe.train.schedule, warmup=steps // 10)
        )
        recipe = replace(recipe, train=short)
    run = prepare(recipe, given.recipe.parent, given.run, print)
    if given.rows:
        run = replace(run, train=some(run.train, given.rows))
    if not (given.run / "model").exists():
        train(run)
    begun = json.loads((given.run / "results.json").read_text())
    record: dict[str, Any] = {"command": f"clearhead train {given.recipe}", "seed": recipe.seed}
    if given.rows:
        record["command"] = f"python {os.path.relpath(sys.argv[0])} {given.recipe} RUN --rows {given.rows}"
    record |= {"seconds": begun["seconds"], **evaluate(given.run / "model", run)}
    record["auto_class_difference"] = difference(given.run / "model", run)
    if not given.alone:
        with tempfile.TemporaryDirectory() as folder:
            seconds = trainer_folder(run, Path(folder))
            record["trainer"] = {"seconds": round(seconds, 1), **evaluate(Path(folder) / "model", run)}
    finish(record, begun, "transformers", given.record)


if __name__ == "__main__":
    main()
