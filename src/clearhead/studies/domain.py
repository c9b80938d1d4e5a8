"""Reading first: what an encoder gains for the questions of a field by reading the field's own texts before."""

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
from clearhead.data.sets import locate
from clearhead.data.squad import squad_rows
from clearhead.files import write_atomic
from clearhead.see import Curve, Panel, draw_curves
from clearhead.studies.labels import MINILM
from clearhead.studies.spread import Spread, band, spread
from clearhead.studies.trained import Heard, trained, unheard
from clearhead.studies.tuned import tuning
from clearhead.train import make_recipe
from clearhead.train.tracking import read_log

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Question = Mapping[str, Any]
"""`question`, `context`, and `answers` of {"text", "start"}."""

AROUND = 300  # characters that are kept on each side of an answer, in what is trained on
PIECE = 2000  # characters that a question of the test is asked on: more than a window, less than an article
AS_IT_WAS, HAS_READ = "as it was", "has read the field's texts"


@dataclass(frozen=True)
class Words:
    """Hidden words of texts that nobody has read: the loss while one half of the articles is read."""

    label: str
    steps: tuple[int, ...]
    losses: tuple[float, ...]
    accuracy: float  # of the words, at the end, in per cent


@dataclass(frozen=True)
class Answers:
    """Questions on pieces of the other half's articles."""

    label: str
    f1: Spread
    exact: Spread


@dataclass(frozen=True)
class Domain:
    """What was measured."""

    data: str
    read: int  # articles
    held_out: int  # articles, in which words are hidden
    trained_on: int  # questions
    tested_on: int
    seeds: int
    words: tuple[Words, ...]
    answers: tuple[Answers, ...]

    @property
    def gained(self) -> Spread:
        """F1 after reading less F1 before, of each seed: both learn to answer from the same batches."""
        before, after = (one.f1.scores for one in self.answers)
        return spread([b - a for a, b in zip(before, after, strict=True)])


def halves(questions: Sequence[Question], seed: int) -> tuple[list[Question], list[Question]]:
    """The questions of one half of the articles, and those of the other."""
    articles = list(dict.fromkeys(one["context"] for one in questions))
    order = np.random.default_rng(seed).permutation(len(articles))
    chosen = {articles[i] for i in order[: len(articles) // 2]}
    return [q for q in questions if q["context"] in chosen], [q for q in questions if q["context"] not in chosen]


def passage(asked: Question, around: int = AROUND) -> Question:
    """The question with only what stands around its first answer, cut between words."""
    first = asked["answers"][0]
    return _cut(asked, max(0, first["start"] - around), first["start"] + len(first["text"]) + around)


def piece(asked: Question, size: int = PIECE) -> Question:
    """The question with the piece of its article that its first answer begins in; pieces are cut wherever they end."""
    begin = asked["answers"][0]["start"] // size * size
    return _cut(asked, begin, begin + size)


def _cut(asked: Question, begin: int, end: int) -> Question:
    """The question with these characters of its text, cut between words, and its first answer whole."""
    context, first = str(asked["context"]), asked["answers"][0]
    if begin:
        begin = min(context.find(" ", begin) + 1 or begin, first["start"])
    if end < len(context):
        end = max(context.rfind(" ", 0, end), first["start"] + len(first["text"]))
    answers = [{"text": first["text"], "start": first["start"] - begin}]
    return {"question": asked["question"], "context": context[begin:end], "answers": answers}


def measure(
    folder: Path,
    questions: Sequence[Question],
    others: Sequence[Question],
    *,
    data: str,
    start: str = MINILM,
    tests: int = 100,
    held: int = 16,
    seeds: int = 3,
    seed: int = 1,
    reading: int = 200,
    batch_tokens: int = 4096,
    answering: int = 300,
    max_len: int = 384,
    window: int = 256,
    heard: Heard = unheard,
) -> Domain:
    """Read one half of the articles; then learn to answer from `others` and that half's questions; ask on the rest.

    It reads stretches of `max_len` tokens, and answers in windows of `window`. Hidden words are measured in `held`
    articles of the rest, answers with `tests` questions on pieces of all of it.
    """
    folder.mkdir(parents=True, exist_ok=True)
    mine, rest = halves(questions, seed)
    chosen = np.random.default_rng(seed).permutation(len(rest))[:tests]
    asked = [piece(rest[i]) for i in sorted(chosen)]
    learnt = [*others, *map(passage, mine)]
    unread = list(dict.fromkeys(one["context"] for one in rest))[:held]
    hidden = [one for one in rest if one["context"] in unread]
    for name, part in (("read", mine), ("held-out", hidden), ("train", learnt), ("test", asked)):
        _write(part, folder / f"{name}.json")
    words: list[Words] = []
    for label, freeze in ((AS_IT_WAS, {"freeze": "body"}), (HAS_READ, {})):
        model = {"start": start, **freeze}
        words.append(_read(label, model, folder, reading, batch_tokens, max_len, seed, heard))
    starts = {AS_IT_WAS: start, HAS_READ: str((folder / _slug(HAS_READ) / "model").absolute())}
    answers: list[Answers] = []
    for label, where in starts.items():
        found = [_answer(label, where, folder, answering, window, n, heard) for n in range(seed, seed + seeds)]
        answers.append(Answers(label, spread([f for f, _ in found]), spread([e for _, e in found])))
    read = len({one["context"] for one in mine})
    return Domain(data, read, len(unread), len(learnt), len(asked), seeds, tuple(words), tuple(answers))


def _read(
    label: str, model: dict[str, Any], folder: Path, steps: int, batch_tokens: int, max_len: int, seed: int,
    heard: Heard,
) -> Words:  # fmt: skip
    """Hidden words of the half that is read; where the body is frozen, only the new head learns what they are."""
    every = max(1, steps // 6)
    recipe = make_recipe(
        {
            "task": "masked",
            "seed": seed,
            "data": {"train": {"text": "read.json"}, "valid": {"text": "held-out.json"}, "max_len": max_len},
            "model": model,
            "train": {
                "steps": steps,
                "batch_tokens": batch_tokens,
                "optimiser": {"lr": 3e-4, "betas": [0.9, 0.98], "eps": 1e-6, "weight_decay": 0.01},
                "schedule": {"kind": "linear", "warmup": max(1, steps // 10)},
                "evaluate_every": every,
                "save_every": steps,
                "keep": 1,
            },
        }
    )
    run, _ = trained(f"hidden words, {label}", recipe, folder, folder / _slug(label), heard)
    log = [entry for entry in read_log(run.folder / "log.jsonl") if "valid_loss" in entry]
    losses = tuple(round(entry["valid_loss"], 4) for entry in log)
    return Words(label, tuple(entry["step"] for entry in log), losses, round(log[-1]["valid_accuracy"], 2))


def _answer(
    label: str, start: str, folder: Path, steps: int, max_len: int, seed: int, heard: Heard
) -> tuple[float, float]:
    """F1 and exact matches on the test, after learning to answer; kept, so that it is measured once."""
    where = folder / f"{_slug(label)}-{seed}"
    kept = where.with_suffix(".json")
    if kept.exists():
        scores = json.loads(kept.read_text(encoding="utf-8"))
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
            "model": {"start": start},
            "train": {**tuning(steps, 2e-4, "f1"), "batch_examples": 16},
        }
    )  # fmt: skip
    run, _ = trained(f"questions, {label}, seed {seed}", recipe, folder, where, heard)
    last = [entry for entry in read_log(run.folder / "log.jsonl") if "valid_f1" in entry][-1]
    scores = {"f1": last["valid_f1"], "exact": last["valid_exact"]}
    write_atomic(kept, json.dumps(scores) + "\n")
    shutil.rmtree(where)
    return scores["f1"], scores["exact"]


def covid_qa(others: int = 4000) -> tuple[Sequence[Question], Sequence[Question]]:
    """The questions of COVID-QA, and so many of SQuAD, which show what answering is."""
    rows = [row.values for row in squad_rows(locate("covid_qa:200423_covidQA.json", Path())) if isinstance(row, Row)]
    squad = (row.values for row in squad_rows(locate("squad:train-v1.1.json", Path())) if isinstance(row, Row))
    every = list(islice(squad, 0, None, 20))  # of all articles
    return [row for row in rows if row["answers"]], every[:others]


def draw(measured: Domain) -> Figure:
    """The loss while it reads, and the questions before and after."""
    losses = [Curve(one.label, one.steps, one.losses) for one in measured.words]
    places = [0.0, 1.0]
    curves = [
        band("F1", places, [one.f1 for one in measured.answers]),
        band("exact", places, [one.exact for one in measured.answers]),
    ]
    panels = [
        Panel(losses, "steps of reading", "loss of hidden words, nats", f"{measured.held_out} other articles"),
        Panel(
            curves, "", "%", f"{measured.tested_on} questions on other articles",
            ticks=list(zip(places, ("as it was", "has read"), strict=True)),
        ),
    ]  # fmt: skip
    return draw_curves(panels, f"Reading first: {measured.data}", width=5.6, height=4.0)


def _slug(label: str) -> str:
    return "".join(c if c.isalnum() else "-" for c in label)


def _write(part: Sequence[Question], path: Path) -> None:
    """Questions as SQuAD's JSON, an article once."""
    if path.exists():
        return
    articles: dict[str, list[dict[str, Any]]] = {}
    for number, one in enumerate(part):
        answers = [{"text": a["text"], "answer_start": a["start"]} for a in one["answers"]]
        asked = {"question": one["question"], "id": str(number), "answers": answers}
        articles.setdefault(str(one["context"]), []).append(asked)
    entries = [{"paragraphs": [{"context": text, "qas": asked}]} for text, asked in articles.items()]
    write_atomic(path, json.dumps({"data": entries}, ensure_ascii=False) + "\n")
