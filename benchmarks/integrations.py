"""sentence-transformers and transformers' Trainer with and without `accelerate`, on MiniLM and texts of SQuAD.

`st_encode` is the speed of `SentenceTransformer.encode`, which sorts the texts by length, `st_fit` that of a
`SentenceTransformerTrainer` on questions and paragraphs in random order (in-batch negatives, batches of 32),
`hf_trainer` that of a `Trainer` which classifies paragraphs and questions in random order (batches of 32): each the
time without `accelerate` divided by the time with it, same weights, same batches. `st_max_diff` is the largest
difference of a number in the vectors of `encode`. Dropout is on in training, as the models have it. The short run has
32 texts, batches of 16 and one round per side: its numbers are rough.
"""

from __future__ import annotations

import argparse
import json
import logging
import lzma
import os
import random
import tempfile
import time
import warnings
from collections.abc import Callable
from typing import Any

os.environ.setdefault("TOKENIZERS_PARALLELISM", "true")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
warnings.filterwarnings("ignore")

import torch

from clearhead.integrations import sentence_transformers as ours_st
from clearhead.integrations.transformers import accelerate
from encode import SQUAD, minilm, real_texts
from timing import interleaved, keep_memory

TARGETS = {"st_encode": 1.4, "st_fit": 1.8, "hf_trainer": 2.0}


def pairs(count: int) -> list[tuple[str, str]]:
    """Return questions with their paragraphs, in random order; texts of like lengths where SQuAD is missing."""
    draw = random.Random(1)
    if not SQUAD.exists():
        texts = real_texts(2 * count)
        return list(zip(texts[:count], texts[count:], strict=True))
    with lzma.open(SQUAD, "rt", encoding="utf-8") as file:
        paragraphs = [p for article in json.load(file)["data"] for p in article["paragraphs"]]
    return [(p["qas"][0]["question"], p["context"]) for p in draw.sample(paragraphs, count)]


def encoders(texts: list[str]) -> tuple[dict[str, Callable[[], object]], float]:
    from sentence_transformers import SentenceTransformer

    plain, fast = (SentenceTransformer(str(minilm()), device="cpu") for _ in range(2))
    for model in (plain, fast):
        model.max_seq_length = 512
    ours_st.accelerate(fast)
    difference = float(abs(plain.encode(texts) - fast.encode(texts)).max())
    return {"plain": lambda: plain.encode(texts), "fast": lambda: fast.encode(texts)}, difference


def fits(rows: list[tuple[str, str]], folder: str, batch: int) -> dict[str, Callable[[], object]]:
    from datasets import Dataset
    from sentence_transformers import (
        SentenceTransformer,
        SentenceTransformerTrainer,
        SentenceTransformerTrainingArguments,
    )
    from sentence_transformers.sentence_transformer.losses import MultipleNegativesRankingLoss

    data = Dataset.from_dict({"anchor": [q for q, _ in rows], "positive": [p for _, p in rows]})
    args = SentenceTransformerTrainingArguments(folder, num_train_epochs=1, **quiet(batch))
    works = {}
    for name in ("plain", "fast"):
        model = SentenceTransformer(str(minilm()), device="cpu")
        model.max_seq_length = 512
        if name == "fast":
            ours_st.accelerate(model)
        loss = MultipleNegativesRankingLoss(model)
        works[name] = lambda model=model, loss=loss: SentenceTransformerTrainer(
            model, args, train_dataset=data, loss=loss
        ).train()
    return works


def trainers(texts: list[str], folder: str, batch: int) -> dict[str, Callable[[], object]]:
    from transformers import AutoModelForSequenceClassification, AutoTokenizer, Trainer, TrainingArguments

    tokenizer = AutoTokenizer.from_pretrained(str(minilm()))
    rows: Any = [
        {**tokenizer(text, truncation=True, max_length=512), "labels": int(text.endswith("?"))} for text in texts
    ]
    works = {}
    for name in ("plain", "fast"):
        model = AutoModelForSequenceClassification.from_pretrained(str(minilm()), num_labels=2)
        if name == "fast":
            accelerate(model)
        args = TrainingArguments(folder, num_train_epochs=1, **quiet(batch))
        works[name] = lambda model=model, args=args: Trainer(
            model, args, train_dataset=rows, processing_class=tokenizer
        ).train()
    return works


def quiet(batch: int) -> dict[str, Any]:
    return {
        "per_device_train_batch_size": batch, "save_strategy": "no", "report_to": "none", "disable_tqdm": True,
        "logging_strategy": "no", "use_cpu": True, "learning_rate": 1e-5,
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--full", action="store_true", help="more texts and rounds, some minutes")
    args = parser.parse_args()
    for name in ("transformers", "sentence_transformers"):
        logging.getLogger(name).setLevel(logging.ERROR)
    import transformers

    transformers.utils.logging.disable_progress_bar()
    torch.set_num_threads(2)
    keep_memory()
    begin = time.perf_counter()
    count, batch, rounds = (128, 32, 2) if args.full else (32, 16, 1)
    result: dict[str, float] = {}
    seconds: dict[str, dict[str, float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        encode, difference = encoders(real_texts(count))
        works = {
            "st_encode": encode,
            "st_fit": fits(pairs(count // 2), folder, batch),
            "hf_trainer": trainers(real_texts(count), folder, batch),
        }
        for name, sides in works.items():
            best = seconds[name] = interleaved(sides, rounds * (3 if name == "st_encode" else 1), budget=120)
            result[name] = round(best["plain"] / best["fast"], 2)
            print(f"{name:12} {result[name]:5.2f} times as fast (asked: {TARGETS[name]}): {best}")
    result["st_max_diff"] = difference
    print(json.dumps({"detail": {"texts": count, "seconds": round(time.perf_counter() - begin, 1), "best": seconds}}))
    print(json.dumps(result))


if __name__ == "__main__":
    main()
