"""Small models with fresh weights, one for each task, in folders as training leaves them."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import torch

from clearhead.models import build
from clearhead.models.store import Opened, save_folder
from clearhead.tasks import Classify, LanguageModel, Pair, Qa, Settings, Tag, Translate
from clearhead.tasks.labels import Labels
from clearhead.text import train_tokenizer

WORDS = [
    "the",
    "old",
    "man",
    "sees",
    "a",
    "small",
    "dog",
    "under",
    "one",
    "red",
    "tree",
    "and",
    "walks",
    "to",
    "his",
    "house",
    "in",
    "the",
    "rain",
    "with",
    "her",
    "green",
    "umbrella",
]
SMALL = {"size": "tiny", "num_layers": 2, "num_heads": 2, "width": 32, "hidden": 48, "dropout": 0.0}
NAMES = ("classify", "pair", "tag", "qa", "translate", "lm")


def sentence(draw: random.Random, longest: int = 12) -> str:
    return " ".join(draw.choices(WORDS, k=draw.randint(1, longest)))


def make_models(folder: Path) -> dict[str, Path]:
    """The folder of each model, by name."""
    text = folder / "text.txt"
    draw = random.Random(0)
    text.write_text("".join(sentence(draw) + ".\n" for _ in range(300)))
    bert = train_tokenizer(text, template="bert", vocab_size=200)
    some = Settings(max_len=64)
    made: dict[str, tuple[Any, str]] = {
        "classify": (Classify(bert, Labels("label", ("bad", "good")), some), "classify"),
        "pair": (Pair(bert, Labels("label", ("other", "same")), some), "pair"),
        "tag": (Tag(bert, Labels("label", ("O", "B-PER", "I-PER")), some), "tag"),
        "qa": (Qa(bert, some), "qa"),
        "translate": (Translate(train_tokenizer(text, template="marian", vocab_size=120), 48), "translate"),
        "lm": (LanguageModel(train_tokenizer(text, template="gpt2", vocab_size=400), 128), "language_model"),
    }
    found: dict[str, Path] = {}
    for number, (name, (task, kind)) in enumerate(made.items()):
        config = task.config(SMALL)
        torch.manual_seed(number)
        model = build(config).eval()
        with torch.no_grad():
            for p in model.parameters():
                p.add_(0.1 * torch.randn_like(p))
        written = task.generation()
        carried = {"generation_config.json": json.dumps(written).encode()} if written else {}
        opened = Opened(model, config, *task.layout(config), {}, task.tokenizer, carried)
        found[name] = folder / name
        save_folder(opened, found[name], facts={"task": kind})
    return found
