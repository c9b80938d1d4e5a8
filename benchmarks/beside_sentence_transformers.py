"""One `embed` recipe, trained by clearhead and by sentence-transformers: scores of both on the test split.

    python benchmarks/beside_sentence_transformers.py recipes/stsb-embed.yaml RUN [--record RESULT.json]

RUN is the run folder of that recipe from `clearhead train`; it is trained if it does not exist. Their trainer starts
from the same base model with the same rows, steps, batch size, loss, learning rate and schedule, and with batches
without duplicates. The same code evaluates the base model and both trained models; intervals are 95 % confidence
intervals (bootstrap). `--set` changes keys of the recipe as in `clearhead train`; `--alone` skips the peer. The last
line is a JSON object; `--record` also writes it to a file, with the recipe and the loss curve.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

os.environ.setdefault("HF_HUB_OFFLINE", "1")
warnings.filterwarnings("ignore")

import torch

from beside_trainer import evaluate, finish
from clearhead.models.precision import choose_dtype
from clearhead.tasks import Embed
from clearhead.train.recipe import read_recipe
from clearhead.train.run import prepare, train
from clearhead.train.training_run import TrainingRun


def rows_of(run: TrainingRun) -> dict[str, list[Any]]:
    """Return the columns of the training rows that both sides read."""
    rows = [row.values for row in run.parts()[0]]
    if "text" in rows[0]:
        texts = {name: [str(values[name]) for values in rows] for name in ("text", "second")}
        return {**texts, "label": [float(values["number"]) for values in rows]}
    return {name: [str(values[name]) for values in rows] for name in ("anchor", "positive")}


def their_folder(run: TrainingRun, folder: Path) -> float:
    """Train with sentence-transformers into this folder and return the seconds."""
    from datasets import Dataset
    from sentence_transformers import (
        SentenceTransformer,
        SentenceTransformerTrainer,
        SentenceTransformerTrainingArguments,
    )
    from sentence_transformers.base.sampler import BatchSamplers
    from sentence_transformers.sentence_transformer.losses import CoSENTLoss, MultipleNegativesRankingLoss

    recipe, settings = run.recipe, run.settings
    assert run.base_model is not None and settings.batch_examples is not None
    assert isinstance(run.task, Embed)
    model = SentenceTransformer(str(run.base_model.folder), device="cpu")
    model.max_seq_length = recipe.data.max_len
    scale = 1.0 / recipe.loss.temperature
    losses = {"multiple_negatives": MultipleNegativesRankingLoss, "cosent": CoSENTLoss}
    loss = losses[run.task.loss_kind](model, scale=scale)
    chosen, schedule = settings.optimizer, settings.schedule
    arguments = SentenceTransformerTrainingArguments(
        str(folder / "work"), per_device_train_batch_size=settings.batch_examples, max_steps=settings.last,
        learning_rate=chosen.lr, weight_decay=chosen.weight_decay, adam_beta1=chosen.betas[0],
        adam_beta2=chosen.betas[1], adam_epsilon=chosen.eps, max_grad_norm=chosen.clip or 0.0,
        lr_scheduler_type=schedule.kind, warmup_steps=schedule.warmup, batch_sampler=BatchSamplers.NO_DUPLICATES,
        bf16=choose_dtype(settings.dtype, torch.device("cpu")) == torch.bfloat16, use_cpu=True, report_to="none",
        save_strategy="no", logging_steps=20, seed=recipe.seed, disable_tqdm=True,
    )  # fmt: skip
    trainer = SentenceTransformerTrainer(model, arguments, train_dataset=Dataset.from_dict(rows_of(run)), loss=loss)
    begin = time.perf_counter()
    trainer.train()
    seconds = time.perf_counter() - begin
    model.save(str(folder / "model"))
    return seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recipe", type=Path)
    parser.add_argument("run", type=Path)
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="change a key of the recipe")
    parser.add_argument("--alone", action="store_true", help="without sentence-transformers")
    parser.add_argument("--record", type=Path, help="write the JSON object to this file too")
    given = parser.parse_args()
    recipe = read_recipe(given.recipe, given.set)
    run = prepare(recipe, given.recipe.parent, given.run, print)
    if not (given.run / "model").exists():
        train(run)
    begun = json.loads((given.run / "results.json").read_text())
    changes = "".join(f" --set {change}" for change in given.set)
    record: dict[str, Any] = {"command": f"clearhead train {given.recipe}{changes}", "seed": recipe.seed}
    assert run.base_model is not None
    record["before"] = evaluate(run.base_model.folder, run)
    record |= {"seconds": begun["seconds"], **evaluate(given.run / "model", run)}
    if not given.alone:
        with tempfile.TemporaryDirectory() as folder:
            seconds = their_folder(run, Path(folder))
            record["sentence_transformers"] = {"seconds": round(seconds, 1), **evaluate(Path(folder) / "model", run)}
    finish(record, begun, "sentence_transformers", given.record)


if __name__ == "__main__":
    main()
