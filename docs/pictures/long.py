"""Trains the model whose map of 8,192 tokens the pages show: python docs/pictures/long.py FOLDER

A Llama of two layers reads Shakespeare in which passages come again. What pays then is a head that looks for where the
last words stood before, and reads what followed: an induction head (Olsson et al. 2022). It forms on stretches of 512
tokens, and then learns to look far, on stretches of 8,192. The text is `clearhead data tinyshakespeare`. About a quarter
of an hour on two cores; a run that is stopped goes on.
"""

from __future__ import annotations

import random
import sys
from pathlib import Path
from typing import Any

from clearhead.data.sets import locate
from clearhead.train import make_recipe, prepare, train

LENGTH = 8192


def recipe(name: str, model: dict[str, Any], steps: int, lr: float, **data: Any) -> dict[str, Any]:
    """A language model of the text called `name`."""
    parts = {part: {"text": f"{name}.{part}.txt"} for part in ("train", "valid")}
    return {
        "task": "language_model",
        "data": {**parts, "max_len": LENGTH, **data},
        "tokenizer": {"vocab_size": 1000},
        "model": model,
        "train": {
            "steps": steps,
            "batch_tokens": LENGTH,
            "optimiser": {"lr": lr},
            "schedule": {"kind": "cosine", "warmup": steps // 10, "final": 0.05},
            "evaluate_every": steps // 10,
            "save_every": steps // 10,
            "keep": 1,
        },
    }


def again(lines: list[str], tokens: int, most: int, seed: int) -> str:
    """Passages of 1 to `most` lines, as many short ones as long, each of them read two to four times in a row."""
    draw, out = random.Random(seed), []
    while len(out) < tokens / 12:  # a line is about so many tokens
        size = round(most ** draw.random())
        begin = draw.randrange(len(lines) - size)
        out += lines[begin : begin + size] * draw.randint(2, 4)
    return "\n".join(out) + "\n"


def main(folder: Path) -> None:
    """Write the texts and train, near first, then far."""
    folder.mkdir(parents=True, exist_ok=True)
    text = locate("tinyshakespeare:input.txt", Path()).read_text(encoding="utf-8")
    lines = [line for line in text.split("\n") if line.strip()]
    for name, most in (("near", 24), ("far", 200)):
        (folder / f"{name}.train.txt").write_text(again(lines[:30_000], 4_000_000, most, 1), encoding="utf-8")
        (folder / f"{name}.valid.txt").write_text(again(lines[30_000:], 40_000, most, 2), encoding="utf-8")
    small = {"kind": "llama", "size": "tiny", "num_layers": 2, "num_heads": 4, "width": 128, "hidden": 256}
    train(prepare(make_recipe(recipe("near", small, 1500, 2e-3, stretch=512)), folder, folder / "near"))
    train(prepare(make_recipe(recipe("far", {"start": "near/model"}, 300, 1e-3)), folder, folder / "far"))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
