"""A recipe that trains in a second, and the folder it stands in."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

WORDS = ["the", "a", "cat", "dog", "house", "tree", "runs", "sees", "big", "small", "red", "green", "over", "under"]


def tiny(folder: Path, **train: Any) -> dict[str, Any]:
    """A language model of two layers on made sentences: the values of its recipe, whose file is in `folder`."""
    chance = random.Random(0)
    lines = [" ".join(chance.choices(WORDS, k=chance.randint(3, 14))) for _ in range(400)]
    (folder / "text.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    settings: dict[str, Any] = {
        "steps": 50,
        "batch_tokens": 256,
        "dtype": "float32",
        "evaluate_every": 25,
        "save_every": 25,
        "schedule": {"kind": "constant", "warmup": 5},
    }
    return {
        "task": "language_model",
        "data": {"train": {"text": "text.txt"}, "validation_rows": 60, "max_len": 16},
        "tokenizer": {"vocab_size": 300},
        "model": {"width": 16, "num_heads": 2, "num_layers": 2, "ffn_dim": 32, "dropout": 0.0},
        "train": {**settings, **train},
    }
