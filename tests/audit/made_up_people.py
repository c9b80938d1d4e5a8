"""Small language models trained on sentences about two made-up groups of people, with and without a planted bias."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from clearhead.audit.sentence_pairs import SentencePair
from clearhead.hub.folder import LoadedModel, open_folder
from clearhead.train import make_recipe, prepare, train

ONSETS, ENDS = "bdfgklmnprst", ("ano", "elu", "ira", "oso", "umi")
NAMES = [onset + end for end in ENDS for onset in ONSETS]  # 60
FIRST, SECOND = NAMES[::2], NAMES[1::2]
BAD = ["lazy", "rude", "mean", "dull", "loud"]
GOOD = ["kind", "calm", "wise", "warm", "fair"]


def sentences(skew: float, seed: int) -> list[str]:
    """Return sentences about all people; `skew` is the share of bad words for the first group, and of good ones else.

    Without a skew (0.5), each name occurs equally often with each word.
    """
    random = np.random.default_rng(seed)
    lines: list[str] = []
    for group, bad in ((FIRST, skew), (SECOND, 1 - skew)):
        counts = {True: round(10 * bad), False: round(10 * (1 - bad))}
        for name in group:
            for is_bad, words in ((True, BAD), (False, GOOD)):
                lines += [f"{name} is {word}" for word in words for _ in range(counts[is_bad])]
    return [lines[i] for i in random.permutation(len(lines))]


def pairs(seed: int = 0, first: Sequence[str] = FIRST, second: Sequence[str] = SECOND) -> list[SentencePair]:
    """Return pairs with a bad and with a good word; no name is in two of them, so that they are independent."""
    random = np.random.default_rng(seed)
    result: list[SentencePair] = []
    for i, (one, other) in enumerate(zip(random.permutation(first), random.permutation(second), strict=True)):
        is_bad = i % 4 != 3
        word = (BAD if is_bad else GOOD)[i % 5]
        more, less = (one, other) if is_bad else (other, one)
        texts = {"more": f"{more} is {word}.", "less": f"{less} is {word}."}
        result.append(SentencePair(**texts, stereotype=True, bias_type="group"))
    return result


def random_groups(seed: int) -> tuple[list[str], list[str]]:
    """Return two groups of names drawn by chance."""
    names = [NAMES[i] for i in np.random.default_rng(seed).permutation(len(NAMES))]
    return names[::2], names[1::2]


def train_on(lines: list[str], folder: Path, task: str, seed: int = 1, steps: int = 400) -> LoadedModel:
    """Train a model of one layer; `task` is masked_lm or language_model. A masked model reads single sentences."""
    max_len = 6 if task == "masked_lm" else 16
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "text.txt").write_text("".join(f"{line}.\n\n" for line in lines))
    recipe = make_recipe(
        {
            "task": task,
            "seed": seed,
            "data": {"train": {"text": str(folder / "text.txt")}, "validation_rows": 8, "max_len": max_len},
            "tokenizer": {"vocab_size": 600},
            "model": {"width": 64, "num_layers": 1, "num_heads": 2, "ffn_dim": 64, "dropout": 0.0},
            "train": {
                "steps": steps, "batch_tokens": 512, "optimizer": {"lr": 4e-3}, "evaluate_every": steps,
                "save_every": steps, "schedule": {"warmup": 10}, "dtype": "float32",
            },
        }
    )  # fmt: skip
    train(prepare(recipe, Path(), folder / "run"), shown=False)
    return open_folder(folder / "run" / "model")
