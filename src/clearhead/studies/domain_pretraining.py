"""Domain pretraining: masked language modelling on a field's texts before question answering on that field."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from clearhead.data import Row
from clearhead.data.datasets import locate
from clearhead.data.squad import squad_rows
from clearhead.files import write_atomic
from clearhead.studies.labels_needed import MINILM
from clearhead.studies.study_results import MeanInterval, interval_curve, mean_interval
from clearhead.studies.training import OnProgress, finetune_settings, no_progress, scratch_settings, train_recipe
from clearhead.train import make_recipe
from clearhead.train.tracking import read_log
from clearhead.viz import Curve, Panel, draw_curves

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Question = Mapping[str, Any]
"""`question`, `context`, and `answers` of {"text", "start"}."""

CONTEXT_CHARS = 300  # kept on each side of an answer in the training questions
TEST_CHARS = 2000  # context of a test question: more than a window, less than an article
ORIGINAL, PRETRAINED = "original", "domain-pretrained"


@dataclass(frozen=True)
class MaskedLMScores:
    """Masked-token loss on held-out articles during pretraining."""

    label: str
    steps: tuple[int, ...]
    losses: tuple[float, ...]
    accuracy: float  # of masked tokens at the end, in percent


@dataclass(frozen=True)
class QaScores:
    """Question-answering scores on excerpts of the held-out articles."""

    label: str
    f1: MeanInterval
    exact: MeanInterval


@dataclass(frozen=True)
class DomainResult:
    """Results of the study."""

    data: str
    read: int  # articles of pretraining
    held_out: int  # articles of the masked-token evaluation
    trained_on: int  # questions
    tested_on: int  # questions
    seeds: int
    words: tuple[MaskedLMScores, ...]
    answers: tuple[QaScores, ...]

    @property
    def gained(self) -> MeanInterval:
        """F1 with pretraining minus F1 without, per seed; both are fine-tuned on the same batches."""
        before, after = (scores.f1.scores for scores in self.answers)
        return mean_interval([b - a for a, b in zip(before, after, strict=True)])


def halves(questions: Sequence[Question], seed: int) -> tuple[list[Question], list[Question]]:
    """Split the questions by article into two halves."""
    articles = list(dict.fromkeys(question["context"] for question in questions))
    order = np.random.default_rng(seed).permutation(len(articles))
    chosen = {articles[i] for i in order[: len(articles) // 2]}
    return [q for q in questions if q["context"] in chosen], [q for q in questions if q["context"] not in chosen]


def passage(question: Question, context: int = CONTEXT_CHARS) -> Question:
    """Return the question with only the context around its first answer, cut between words."""
    first = question["answers"][0]
    return _crop(question, max(0, first["start"] - context), first["start"] + len(first["text"]) + context)


def excerpt(question: Question, size: int = TEST_CHARS) -> Question:
    """Return the question with the excerpt of its article in which its first answer begins, on a fixed grid."""
    begin = question["answers"][0]["start"] // size * size
    return _crop(question, begin, begin + size)


def _crop(question: Question, begin: int, end: int) -> Question:
    """Return the question with these characters of its context, cut between words, keeping its first answer."""
    context, first = str(question["context"]), question["answers"][0]
    if begin:
        begin = min(context.find(" ", begin) + 1 or begin, first["start"])
    if end < len(context):
        end = max(context.rfind(" ", 0, end), first["start"] + len(first["text"]))
    answers = [{"text": first["text"], "start": first["start"] - begin}]
    return {"question": question["question"], "context": context[begin:end], "answers": answers}


def measure(
    folder: Path,
    questions: Sequence[Question],
    others: Sequence[Question],
    *,
    data: str,
    base_model: str = MINILM,
    num_test: int = 100,
    num_held_out: int = 16,
    seeds: int = 3,
    seed: int = 1,
    pretraining_steps: int = 200,
    batch_tokens: int = 4096,
    finetuning_steps: int = 300,
    max_len: int = 384,
    window: int = 256,
    on_progress: OnProgress = no_progress,
) -> DomainResult:
    """Pretrain on one half of the articles, fine-tune on `others` and that half's questions, test on the other half.

    Pretraining uses blocks of `max_len` tokens, question answering windows of `window` tokens. The masked-token loss is
    measured on `num_held_out` articles of the test half, answers on `num_test` questions with excerpts of all of it.
    """
    folder.mkdir(parents=True, exist_ok=True)
    train_half, test_half = halves(questions, seed)
    chosen = np.random.default_rng(seed).permutation(len(test_half))[:num_test]
    test = [excerpt(test_half[i]) for i in sorted(chosen)]
    train = [*others, *map(passage, train_half)]
    articles = list(dict.fromkeys(question["context"] for question in test_half))[:num_held_out]
    held_out = [question for question in test_half if question["context"] in articles]
    for name, part in (("read", train_half), ("held-out", held_out), ("train", train), ("test", test)):
        _write(part, folder / f"{name}.json")
    words: list[MaskedLMScores] = []
    for label, freeze in ((ORIGINAL, {"freeze": "body"}), (PRETRAINED, {})):
        model = {"base_model": base_model, **freeze}
        words.append(_pretrain(label, model, folder, pretraining_steps, batch_tokens, max_len, seed, on_progress))
    base_models = {ORIGINAL: base_model, PRETRAINED: str((folder / _slug(PRETRAINED) / "model").absolute())}
    answers: list[QaScores] = []
    for label, source in base_models.items():
        runs = range(seed, seed + seeds)
        scores = [_answer(label, source, folder, finetuning_steps, window, n, on_progress) for n in runs]
        answers.append(QaScores(label, mean_interval([f for f, _ in scores]), mean_interval([e for _, e in scores])))
    read = len({question["context"] for question in train_half})
    return DomainResult(data, read, len(articles), len(train), len(test), seeds, tuple(words), tuple(answers))


def _pretrain(
    label: str, model: dict[str, Any], folder: Path, steps: int, batch_tokens: int, max_len: int, seed: int,
    on_progress: OnProgress,
) -> MaskedLMScores:  # fmt: skip
    """Train masked language modelling on one half; with a frozen body only the new head is trained."""
    every = max(1, steps // 6)
    optimizer = {"lr": 3e-4, "betas": [0.9, 0.98], "eps": 1e-6, "weight_decay": 0.01}
    recipe = make_recipe(
        {
            "task": "masked_lm",
            "seed": seed,
            "data": {"train": {"text": "read.json"}, "valid": {"text": "held-out.json"}, "max_len": max_len},
            "model": model,
            "train": scratch_settings(steps, batch_tokens, optimizer, {"kind": "linear"}, evaluate_every=every),
        }
    )
    run, _ = train_recipe(f"masked language modelling, {label}", recipe, folder, folder / _slug(label), on_progress)
    log = [entry for entry in read_log(run.folder / "log.jsonl") if "valid_loss" in entry]
    losses = tuple(round(entry["valid_loss"], 4) for entry in log)
    return MaskedLMScores(label, tuple(entry["step"] for entry in log), losses, round(log[-1]["valid_accuracy"], 2))


def _answer(
    label: str, base_model: str, folder: Path, steps: int, max_len: int, seed: int, on_progress: OnProgress
) -> tuple[float, float]:
    """Fine-tune for question answering; returns test F1 and exact match, which are stored and not computed again."""
    run_folder = folder / f"{_slug(label)}-{seed}"
    score_file = run_folder.with_suffix(".json")
    if score_file.exists():
        scores = json.loads(score_file.read_text(encoding="utf-8"))
        return scores["f1"], scores["exact"]
    columns = {"question": "question", "context": "context", "answers": "answers"}
    recipe = make_recipe(
        {
            "task": "qa",
            "seed": seed,
            "data": {
                "train": {"file": "train.json", **columns}, "valid": {"file": "test.json", **columns},
                "max_len": max_len,
            },
            "model": {"base_model": base_model},
            "train": {**finetune_settings(steps, 2e-4, "f1"), "batch_examples": 16},
        }
    )  # fmt: skip
    run, _ = train_recipe(f"question answering, {label}, seed {seed}", recipe, folder, run_folder, on_progress)
    last = [entry for entry in read_log(run.folder / "log.jsonl") if "valid_f1" in entry][-1]
    scores = {"f1": last["valid_f1"], "exact": last["valid_exact"]}
    write_atomic(score_file, json.dumps(scores) + "\n")
    shutil.rmtree(run_folder)
    return scores["f1"], scores["exact"]


def covid_qa(others: int = 4000) -> tuple[Sequence[Question], Sequence[Question]]:
    """Return the questions of COVID-QA, and `others` questions of SQuAD for fine-tuning."""
    rows = [row.values for row in squad_rows(locate("covid_qa:200423_covidQA.json", Path())) if isinstance(row, Row)]
    squad = (row.values for row in squad_rows(locate("squad:train-v1.1.json", Path())) if isinstance(row, Row))
    sampled = list(islice(squad, 0, None, 20))  # every 20th, from all articles
    return [row for row in rows if row["answers"]], sampled[:others]


def made_up_questions() -> list[Question]:
    """Return questions for a test run."""
    context = "We read that in {0} Ann {0} was there, alone."
    return [
        {"question": f"who was there in {n}?", "context": context.format(n),
         "answers": [{"text": f"Ann {n}", "start": len(f"We read that in {n} ")}]}
        for n in range(1900, 1940)
    ]  # fmt: skip


def draw(measured: DomainResult) -> Figure:
    """Plot the masked-token loss during pretraining, and the question-answering scores without and with it."""
    losses = [Curve(scores.label, scores.steps, scores.losses) for scores in measured.words]
    x = [0.0, 1.0]
    curves = [
        interval_curve("F1", x, [scores.f1 for scores in measured.answers]),
        interval_curve("exact match", x, [scores.exact for scores in measured.answers]),
    ]
    panels = [
        Panel(losses, "pretraining steps", "masked-token loss (nats)", f"{measured.held_out} held-out articles"),
        Panel(
            curves, "", "score (%)", f"{measured.tested_on} questions on held-out articles",
            ticks=list(zip(x, (ORIGINAL, PRETRAINED), strict=True)),
        ),
    ]  # fmt: skip
    return draw_curves(panels, f"Domain pretraining: {measured.data}", width=5.6, height=4.0)


def _slug(label: str) -> str:
    return "".join(c if c.isalnum() else "-" for c in label)


def _write(part: Sequence[Question], path: Path) -> None:
    """Write questions as SQuAD JSON, each article once."""
    if path.exists():
        return
    articles: dict[str, list[dict[str, Any]]] = {}
    for number, question in enumerate(part):
        answers = [{"text": a["text"], "answer_start": a["start"]} for a in question["answers"]]
        entry = {"question": question["question"], "id": str(number), "answers": answers}
        articles.setdefault(str(question["context"]), []).append(entry)
    entries = [{"paragraphs": [{"context": text, "qas": questions}]} for text, questions in articles.items()]
    write_atomic(path, json.dumps({"data": entries}, ensure_ascii=False) + "\n")
