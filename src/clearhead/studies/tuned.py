"""Tuned: a model fine-tuned on some rows and scored on others; the score is kept, the model is not."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from clearhead.files import write_atomic
from clearhead.studies.trained import Heard, trained, unheard
from clearhead.train import make_recipe

Labelled = tuple[tuple[str, ...], str]
"""The texts of a row, one or two, and its label."""

COLUMNS = ("text", "second")


@dataclass(frozen=True)
class Scored:
    """What a run came to, and the time that its training took."""

    score: float  # in per cent
    seconds: float


def tuning(steps: int, lr: float, metric: str) -> dict[str, Any]:
    """How every study fine-tunes."""
    return {
        "steps": steps,
        "batch_examples": 32,
        "optimiser": {"lr": lr, "betas": [0.9, 0.999], "eps": 1e-8, "weight_decay": 0.01},
        "schedule": {"kind": "linear", "warmup": max(1, steps // 10)},
        "evaluate_every": steps,  # once, at the end: nothing is chosen by the test
        "save_every": steps,
        "keep": 1,
        "metric": metric,
    }


def write_rows(rows: Sequence[Labelled], path: Path) -> None:
    """Rows as a table that a recipe reads."""
    lines = [{**dict(zip(COLUMNS, texts, strict=False)), "label": label} for texts, label in rows]
    write_atomic(path, "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines))


def tuned(
    name: str,
    start: str,
    rows: Sequence[Labelled],
    test: Sequence[Labelled],
    folder: Path,
    *,
    steps: int,
    seed: int,
    lr: float = 1e-4,
    metric: str = "accuracy",
    max_len: int = 128,
    heard: Heard = unheard,
) -> Scored:
    """What a model that starts from `start`, trained on `rows`, gets right in `test`.

    A run that was scored before, in `folder`, is not made again.
    """
    kept = folder / "score.json"
    if kept.exists():
        heard(name, steps, steps)
        told = json.loads(kept.read_text(encoding="utf-8"))
        return Scored(told["score"], told["seconds"])
    folder.mkdir(parents=True, exist_ok=True)
    for part, content in (("train", rows), ("test", test)):
        if not (folder / f"{part}.jsonl").exists():
            write_rows(content, folder / f"{part}.jsonl")
    texts = COLUMNS[: len(rows[0][0])]
    part = {name: name for name in (*texts, "label")}
    recipe = make_recipe(
        {
            "task": "classify" if len(texts) == 1 else "pair",
            "seed": seed,
            "data": {
                "train": {"file": "train.jsonl", **part}, "valid": {"file": "test.jsonl", **part}, "max_len": max_len,
            },
            "model": {"start": start},
            "train": tuning(steps, lr, metric),
        }
    )  # fmt: skip
    _, progress = trained(name, recipe, folder, folder / "run", heard)
    assert progress.best is not None
    found = Scored(progress.best, round(progress.seconds, 1))
    write_atomic(kept, json.dumps(asdict(found)) + "\n")
    shutil.rmtree(folder / "run")
    return found
