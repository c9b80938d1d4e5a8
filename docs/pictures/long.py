"""Train the model whose attention map of 8,192 tokens the docs show: python docs/pictures/long.py FOLDER

A Llama of two layers reads Shakespeare with repeated passages. A head that looks for an earlier occurrence of the last
words and reads what followed lowers the loss: an induction head (Olsson et al. 2022). It forms on phrases of random
words that are repeated three to five times, and then learns longer distances, on passages in blocks of 1,024 and of
8,192 tokens. The text is `clearhead data tinyshakespeare`. About ten minutes on two cores; an interrupted run resumes.
"""

from __future__ import annotations

import random
import sys
from pathlib import Path
from typing import Any

from clearhead.data.datasets import locate
from clearhead.train import make_recipe, prepare, train

LENGTH = 8192


def recipe(name: str, model: dict[str, Any], steps: int, lr: float, batch: int = LENGTH, **data: Any) -> dict[str, Any]:
    """Return a language model recipe for the text `name`."""
    parts = {part: {"text": f"{name}.{part}.txt"} for part in ("train", "valid")}
    return {
        "task": "language_model",
        "data": {**parts, "max_len": LENGTH, **data},
        "tokenizer": {"vocab_size": 1000},
        "model": model,
        "train": {
            "steps": steps,
            "batch_tokens": batch,
            "optimizer": {"lr": lr},
            "schedule": {"kind": "cosine", "warmup": steps // 10, "final": 0.05},
            "evaluate_every": steps // 10,
            "save_every": steps // 10,
            "keep": 1,
        },
    }


def phrases(words: list[str], count: int, seed: int) -> str:
    """Return about `count` words: phrases of 2 to 16 sampled words, repeated three to five times."""
    draw, out = random.Random(seed), []
    while count > 0:
        phrase = draw.choices(words, k=draw.randint(2, 16))
        times = draw.randint(3, 5)
        out += [" ".join(phrase)] * times
        count -= len(phrase) * times
    return "\n".join(out) + "\n"


def again(lines: list[str], tokens: int, max_lines: int, seed: int) -> str:
    """Return passages of 1 to `max_lines` lines, log-uniform in length, each repeated two to four times."""
    draw, out = random.Random(seed), []
    while len(out) < tokens / 12:  # about 12 tokens per line
        size = round(max_lines ** draw.random())
        begin = draw.randrange(len(lines) - size)
        out += lines[begin : begin + size] * draw.randint(2, 4)
    return "\n".join(out) + "\n"


def main(folder: Path) -> None:
    """Write the texts and train, first on short distances, then on long ones."""
    folder.mkdir(parents=True, exist_ok=True)
    text = locate("tinyshakespeare:input.txt", Path()).read_text(encoding="utf-8")
    lines = [line for line in text.split("\n") if line.strip()]
    words = text.split()
    texts = {
        "near": (phrases(words[:150_000], 3_000_000, 1), phrases(words[150_000:], 20_000, 2)),
        "further": (again(lines[:30_000], 2_500_000, 24, 1), again(lines[30_000:], 40_000, 24, 2)),
        "far": (again(lines[:30_000], 2_500_000, 200, 1), again(lines[30_000:], 40_000, 200, 2)),
    }
    for name, (train_text, valid_text) in texts.items():
        (folder / f"{name}.train.txt").write_text(train_text, encoding="utf-8")
        (folder / f"{name}.valid.txt").write_text(valid_text, encoding="utf-8")
    small = {
        "kind": "llama", "size": "tiny", "num_layers": 2, "num_heads": 4, "width": 128, "ffn_dim": 256,
        "rotary_base": 1e6,  # slow rotation, so that what is learned at short distance holds at long distance
    }  # fmt: skip
    stages = (
        recipe("near", small, 1800, 4e-3, 4096, block_size=128),
        recipe("further", {"base_model": "near/model"}, 400, 2e-3, block_size=1024),
        recipe("far", {"base_model": "further/model"}, 150, 1e-3),
    )
    for name, stage in zip(texts, stages, strict=True):
        train(prepare(make_recipe(stage), folder, folder / name))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
