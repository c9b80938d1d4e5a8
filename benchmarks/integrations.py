"""sentence-transformers and transformers' Trainer with and without `accelerate`, on MiniLM and texts of SQuAD.

`st_encode` is the speed of `SentenceTransformer.encode`, which sorts the texts by length, `st_fit` that of a
`SentenceTransformerTrainer` on questions and paragraphs in random order (in-batch negatives, batches of 32),
`hf_trainer` that of a `Trainer` which classifies paragraphs and questions in random order (batches of 32): each the
time without `accelerate` divided by the time with it, same weights, same batches. `st_max_diff` is the largest
difference of a number in the vectors of `encode`. Dropout is on in training, as the models have it. Each side runs in
the dtype that is faster for it. The short run has
32 texts, batches of 16 and one round per side: its numbers are rough.
"""

from __future__ import annotations

import logging
import os
import random
import tempfile
import time
import warnings
from collections.abc import Callable
from functools import partial
from itertools import product
from typing import Any

os.environ.setdefault("TOKENIZERS_PARALLELISM", "true")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
warnings.filterwarnings("ignore")

import torch

from benchmark import Benchmark
from clearhead.integrations import sentence_transformers as ours_st
from clearhead.integrations.transformers import accelerate
from encode import minilm
from texts import squad_paragraphs, squad_texts
from timing import FAST, keep_memory

TARGETS = {"st_encode": 1.4, "st_fit": 1.8, "hf_trainer": 2.0}


def pairs(count: int) -> list[tuple[str, str]]:
    """Return questions with their paragraphs, in random order."""
    return [(p["qas"][0]["question"], p["context"]) for p in random.Random(1).sample(squad_paragraphs("dev"), count)]


Works = dict[str, dict[str, Callable[[], object]]]  # of each side in each dtype


def encoders(texts: list[str]) -> tuple[Works, float]:
    from sentence_transformers import SentenceTransformer

    works: Works = {"plain": {}, "fast": {}}
    vectors = {}
    for side, dtype in product(works, FAST):
        model = SentenceTransformer(str(minilm()), device="cpu", model_kwargs={"dtype": getattr(torch, dtype)})
        model.max_seq_length = 512
        if side == "fast":
            ours_st.accelerate(model)
        works[side][dtype] = partial(model.encode, texts)
        vectors[side, dtype] = model.encode(texts)
    return works, float(abs(vectors["plain", "float32"] - vectors["fast", "float32"]).max())


def fits(rows: list[tuple[str, str]], folder: str, batch: int) -> Works:
    from datasets import Dataset
    from sentence_transformers import (
        SentenceTransformer,
        SentenceTransformerTrainer,
        SentenceTransformerTrainingArguments,
    )
    from sentence_transformers.sentence_transformer.losses import MultipleNegativesRankingLoss

    data = Dataset.from_dict({"anchor": [q for q, _ in rows], "positive": [p for _, p in rows]})
    works: Works = {"plain": {}, "fast": {}}
    for name, dtype in product(works, FAST):
        args = SentenceTransformerTrainingArguments(folder, num_train_epochs=1, **quiet(batch, dtype))
        model = SentenceTransformer(str(minilm()), device="cpu")
        model.max_seq_length = 512
        if name == "fast":
            ours_st.accelerate(model)
        loss = MultipleNegativesRankingLoss(model)
        works[name][dtype] = lambda model=model, args=args, loss=loss: SentenceTransformerTrainer(
            model, args, train_dataset=data, loss=loss
        ).train()
    return works


def trainers(texts: list[str], folder: str, batch: int) -> Works:
    from transformers import AutoModelForSequenceClassification, AutoTokenizer, Trainer, TrainingArguments

    tokenizer = AutoTokenizer.from_pretrained(str(minilm()))
    rows: Any = [
        {**tokenizer(text, truncation=True, max_length=512), "labels": int(text.endswith("?"))} for text in texts
    ]
    works: Works = {"plain": {}, "fast": {}}
    for name, dtype in product(works, FAST):
        model = AutoModelForSequenceClassification.from_pretrained(str(minilm()), num_labels=2)
        if name == "fast":
            accelerate(model)
        args = TrainingArguments(folder, num_train_epochs=1, **quiet(batch, dtype))
        works[name][dtype] = lambda model=model, args=args: Trainer(
            model, args, train_dataset=rows, processing_class=tokenizer
        ).train()
    return works


def quiet(batch: int, dtype: str) -> dict[str, Any]:
    return {
        "per_device_train_batch_size": batch, "save_strategy": "no", "report_to": "none", "disable_tqdm": True,
        "logging_strategy": "no", "use_cpu": True, "learning_rate": 1e-5,
        "bf16": dtype == "bfloat16",
    }  # fmt: skip


def main() -> None:
    bench = Benchmark(__file__, __doc__)
    bench.parser.add_argument("--full", action="store_true", help="more texts and rounds, some minutes")
    args = bench.parse()
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
        encode, difference = encoders(squad_texts(count))
        works = {
            "st_encode": encode,
            "st_fit": fits(pairs(count // 2), folder, batch),
            "hf_trainer": trainers(squad_texts(count), folder, batch),
        }
        for name, sides in works.items():
            chosen = {side: works[bench.fastest_dtype(f"{side}, {name}", works)] for side, works in sides.items()}
            best = bench.interleaved(name, chosen, rounds * (3 if name == "st_encode" else 1), budget=120)
            seconds[name] = best
            result[name] = round(best["plain"] / best["fast"], 2)
            print(f"{name:12} {result[name]:5.2f} times as fast (asked: {TARGETS[name]}): {best}")
    result["st_max_diff"] = difference
    bench.reads(f"squad: {count} texts of its dev part, and {count // 2} questions with their paragraphs")
    detail = {"seconds": round(time.perf_counter() - begin, 1), "best": seconds}
    bench.finish({**result, "detail": detail}, peers=("transformers", "sentence-transformers"))


if __name__ == "__main__":
    main()
