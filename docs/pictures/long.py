"""Trains the model whose map of 8,192 tokens the pages show: python docs/pictures/long.py FOLDER

A Llama of two layers reads Shakespeare in stretches of 8,192 tokens, in which passages come twice. What pays then is a
head that looks for where the last words stood before, and reads what followed: an induction head (Olsson et al. 2022).
The text is `clearhead data tinyshakespeare`. About half an hour on two cores; a run that is stopped goes on.
"""

from __future__ import annotations

import random
import sys
from pathlib import Path

from clearhead.data.sets import locate
from clearhead.train import make_recipe, prepare, train

LENGTH = 8192
RECIPE = {
    "task": "language_model",
    "seed": 1,
    "data": {"train": {"text": "twice.txt"}, "valid": {"text": "valid.txt"}, "max_len": LENGTH},
    "tokenizer": {"vocab_size": 1000},
    "model": {"kind": "llama", "size": "tiny", "num_layers": 2, "num_heads": 4, "width": 128, "hidden": 256},
    "train": {
        "steps": 900,
        "batch_tokens": LENGTH,
        "optimiser": {"lr": 3e-3},
        "schedule": {"kind": "cosine", "warmup": 60, "final": 0.05},
        "evaluate_every": 100,
        "save_every": 100,
        "keep": 1,
    },
}


def twice(lines: list[str], count: int, seed: int) -> str:
    """Passages of 20 to 320 lines, each of them read again at once."""
    draw, out = random.Random(seed), []
    for _ in range(count):
        size = draw.randint(20, 320)
        begin = draw.randrange(len(lines) - size)
        out += [*lines[begin : begin + size], *lines[begin : begin + size]]
    return "\n".join(out) + "\n"


def main(folder: Path) -> None:
    """Write the texts and train."""
    folder.mkdir(parents=True, exist_ok=True)
    text = locate("tinyshakespeare:input.txt", Path()).read_text(encoding="utf-8")
    lines = [line for line in text.split("\n") if line.strip()]
    (folder / "twice.txt").write_text(twice(lines[:30_000], 900, 1), encoding="utf-8")
    (folder / "valid.txt").write_text(twice(lines[30_000:], 8, 2), encoding="utf-8")
    run = prepare(make_recipe(RECIPE), folder, folder / "run")
    train(run)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
