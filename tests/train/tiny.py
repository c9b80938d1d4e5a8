"""A translator that trains in a second: it learns to turn short sentences of made words around."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

from clearhead.train import Recipe, make_recipe

WORDS = ["ba", "be", "bi", "bo", "bu", "da", "de", "di", "do", "du", "ka", "ke", "ki", "ko", "ku"]


def texts(folder: Path, count: int = 80) -> None:
    """`a.x` and `a.y`, which has the same words backwards, line by line."""
    chance = random.Random(0)
    lines = [chance.choices(WORDS, k=chance.randint(1, 7)) for _ in range(count)]
    (folder / "a.x").write_text("".join(" ".join(line) + "\n" for line in lines))
    (folder / "a.y").write_text("".join(" ".join(reversed(line)) + "\n" for line in lines))


def values(**train: Any) -> dict[str, Any]:
    """What stands in the recipe; `train` changes its settings."""
    settings: dict[str, Any] = {
        "steps": 12,
        "batch_tokens": 120,
        "dtype": "float32",
        "evaluate_every": 4,
        "save_every": 3,
        "optimizer": {"lr": 0.01},
        "schedule": {"kind": "linear", "warmup": 2},
    }
    return {
        "task": "translate",
        "data": {"train": {"source": "a.x", "target": "a.y"}, "validation_rows": 10, "max_len": 16},
        "tokenizer": {"vocab_size": 40, "kind": "wordpiece"},
        "model": {"width": 16, "num_heads": 2, "num_layers": 1, "ffn_dim": 32, "dropout": 0.1},
        "train": {**settings, **train},
    }


def recipe(**train: Any) -> Recipe:
    return make_recipe(values(**train))
