"""Small models with random weights, one for each task, in folders as training writes them."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import torch

from clearhead.hub.folder import LoadedModel, save_folder
from clearhead.models import build
from clearhead.tasks import CaptionImages, Classify, LanguageModel, Pair, QuestionAnswering, Tag, TaskConfig, Translate
from clearhead.tasks.labels import Labels
from clearhead.text import train_tokenizer
from clearhead.vision import ImageProcessor, PatchConfig

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
SMALL = {"size": "tiny", "num_layers": 2, "num_heads": 2, "width": 32, "ffn_dim": 48, "dropout": 0.0}
NAMES = ("classify", "pair", "tag", "qa", "translate", "lm", "caption")


def sentence(draw: random.Random, max_words: int = 12) -> str:
    return " ".join(draw.choices(WORDS, k=draw.randint(1, max_words)))


def make_models(folder: Path) -> dict[str, Path]:
    """The folder of each model, by name."""
    text = folder / "text.txt"
    draw = random.Random(0)
    text.write_text("".join(sentence(draw) + ".\n" for _ in range(300)))
    bert = train_tokenizer(text, template="bert", vocab_size=200)
    some = TaskConfig(max_len=64)
    marian = train_tokenizer(text, template="marian", vocab_size=120)
    patches = PatchConfig(image_size=16, patch_size=8)
    captions = CaptionImages(marian, 48, processor=ImageProcessor(height=16, width=16), patches=patches)
    made: dict[str, tuple[Any, str]] = {
        "classify": (Classify(bert, Labels("single_label", ("bad", "good")), some), "classify"),
        "pair": (Pair(bert, Labels("single_label", ("other", "same")), some), "pair"),
        "tag": (Tag(bert, Labels("single_label", ("O", "B-PER", "I-PER")), some), "tag"),
        "qa": (QuestionAnswering(bert, some), "qa"),
        "translate": (Translate(marian, 48), "translate"),
        "lm": (LanguageModel(train_tokenizer(text, template="gpt2", vocab_size=400), 128), "language_model"),
        "caption": (captions, "caption"),
    }
    folders: dict[str, Path] = {}
    for number, (name, (task, kind)) in enumerate(made.items()):
        config = task.config(SMALL)
        torch.manual_seed(number)
        model = build(config).eval()
        with torch.no_grad():
            for p in model.parameters():
                p.add_(0.1 * torch.randn_like(p))
        saved = task.save_format(config)
        files = dict(saved.files)
        if saved.generation:
            files["generation_config.json"] = json.dumps(saved.generation).encode()
        loaded = LoadedModel(model, config, saved.family, saved.architecture, {}, task.tokenizer, files)
        folders[name] = folder / name
        save_folder(loaded, folders[name], metadata={"task": kind})
    return folders
