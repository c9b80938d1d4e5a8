"""Data and training that studies share: train a recipe, fine-tune on labeled rows, read GLUE and running text."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from clearhead.data import read_rows
from clearhead.data.datasets import locate
from clearhead.files import write_atomic
from clearhead.train import Progress, Recipe, TrainingRun, make_recipe, prepare, train

SHAKESPEARE = "tinyshakespeare:input.txt"

OnProgress = Callable[[str, int, int], object]
"""Progress callback: `on_progress(model name, step, steps)`."""

LabeledRow = tuple[tuple[str, ...], str]
"""The texts of a row, one or two, and its label."""
TEXT_COLUMNS = ("text", "second")

GlueTask = tuple[str, dict[str, str]]
"""File name with {} for the split, and the column mapping."""
SST2: GlueTask = "SST-2/{}.tsv", {"text": "sentence", "label": "label"}
MRPC: GlueTask = "MRPC/{}.tsv", {"text": "#1 String", "second": "#2 String", "label": "Quality"}


@dataclass(frozen=True)
class StudyCorpus:
    """Running text for language models, as a recipe names it."""

    name: str
    base: Path  # folder that a relative name refers to
    validation_rows: int  # lines of the validation part

    @staticmethod
    def from_file(file: Path | None = None) -> StudyCorpus:
        """Return the text of a file; without a file, tiny Shakespeare (`clearhead data tinyshakespeare`)."""
        base, name = (Path(), SHAKESPEARE) if file is None else (file.resolve().parent, file.name)
        with locate(name, base).open("rb") as text:
            lines = sum(1 for _ in text)
        return StudyCorpus(name, base, max(1, min(1000, lines // 20)))

    @property
    def path(self) -> Path:
        return locate(self.name, self.base)

    @property
    def part(self) -> dict[str, str]:
        return {"text": self.name}


@dataclass(frozen=True)
class FinetunedScore:
    """Test score of a fine-tuned model and its training time."""

    score: float  # in percent
    seconds: float


def no_progress(name: str, step: int, steps: int) -> None:
    """Ignore progress."""


def train_recipe(
    name: str, recipe: Recipe, base: Path, folder: Path, on_progress: OnProgress = no_progress
) -> tuple[TrainingRun, Progress]:
    """Train a recipe to the end, or resume it; the model is in `folder`/model.

    Relative paths of the recipe start at `base`. A finished run is not repeated.
    """
    run = prepare(recipe, base, folder)
    steps = run.settings.last
    on_progress(name, 0, steps)
    progress = train(run, trackers=[lambda step, numbers: on_progress(name, step, steps)], shown=False)
    on_progress(name, steps, steps)
    return run, progress


def scratch_settings(
    steps: int, batch_tokens: int, optimizer: dict[str, Any], schedule: dict[str, Any], **others: Any
) -> dict[str, Any]:
    """Return the training settings of a study: a tenth of warmup and, unless `others` differ, one evaluation."""
    return {
        "steps": steps,
        "batch_tokens": batch_tokens,
        "optimizer": optimizer,
        "schedule": {"warmup": max(1, steps // 10), **schedule},
        "evaluate_every": steps,
        "save_every": steps,
        "keep": 1,
        **others,
    }


def finetune_settings(steps: int, lr: float, metric: str) -> dict[str, Any]:
    """Return the training settings that every fine-tuning study uses."""
    return {
        "steps": steps,
        "batch_examples": 32,
        "optimizer": {"lr": lr, "betas": [0.9, 0.999], "eps": 1e-8, "weight_decay": 0.01},
        "schedule": {"kind": "linear", "warmup": max(1, steps // 10)},
        "evaluate_every": steps,  # once, at the end: no model selection on the test data
        "save_every": steps,
        "keep": 1,
        "metric": metric,
    }


def finetune(
    name: str,
    base_model: str,
    rows: Sequence[LabeledRow],
    test: Sequence[LabeledRow],
    folder: Path,
    *,
    steps: int,
    seed: int,
    lr: float = 1e-4,
    metric: str = "accuracy",
    max_len: int = 128,
    on_progress: OnProgress = no_progress,
) -> FinetunedScore:
    """Fine-tune `base_model` on `rows` and return its score on `test`.

    The score is stored in `folder` and the model is deleted; a stored score is not computed again.
    """
    score_file = folder / "score.json"
    if score_file.exists():
        on_progress(name, steps, steps)
        stored = json.loads(score_file.read_text(encoding="utf-8"))
        return FinetunedScore(stored["score"], stored["seconds"])
    options: dict[str, Any] = {"steps": steps, "seed": seed, "lr": lr, "metric": metric, "max_len": max_len}
    progress = finetuned_run(name, base_model, rows, test, folder, **options, on_progress=on_progress)
    assert progress.best is not None
    result = FinetunedScore(progress.best, round(progress.seconds, 1))
    write_atomic(score_file, json.dumps(asdict(result)) + "\n")
    shutil.rmtree(folder / "run")
    return result


def finetuned_run(
    name: str,
    base_model: str,
    rows: Sequence[LabeledRow],
    test: Sequence[LabeledRow],
    folder: Path,
    *,
    steps: int,
    seed: int,
    lr: float = 1e-4,
    metric: str = "accuracy",
    max_len: int = 128,
    data: Mapping[str, Any] | None = None,
    on_progress: OnProgress = no_progress,
) -> Progress:
    """Fine-tune `base_model` on `rows` in `folder`/run, with one evaluation on `test`; `data` are further keys."""
    folder.mkdir(parents=True, exist_ok=True)
    for part, content in (("train", rows), ("test", test)):
        if not (folder / f"{part}.jsonl").exists():
            lines = [{**dict(zip(TEXT_COLUMNS, texts, strict=False)), "label": label} for texts, label in content]
            text = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)
            write_atomic(folder / f"{part}.jsonl", text)
    texts = TEXT_COLUMNS[: len(rows[0][0])]
    columns = {name: name for name in (*texts, "label")}
    recipe = make_recipe(
        {
            "task": "classify" if len(texts) == 1 else "pair",
            "seed": seed,
            "data": {
                "train": {"file": "train.jsonl", **columns}, "valid": {"file": "test.jsonl", **columns},
                "max_len": max_len, **(data or {}),
            },
            "model": {"base_model": base_model},
            "train": finetune_settings(steps, lr, metric),
        }
    )  # fmt: skip
    return train_recipe(name, recipe, folder, folder / "run", on_progress)[1]


def glue_rows(task: GlueTask, part: str) -> list[LabeledRow]:
    """Return the rows of a GLUE task; `part` is "train" or "dev"."""
    file, columns = task
    names = [name for name in TEXT_COLUMNS if name in columns]
    rows = read_rows(locate(f"glue:{file.format(part)}", Path()), columns)
    return [(tuple(row.values[name] for name in names), row.values["label"]) for row in rows]
