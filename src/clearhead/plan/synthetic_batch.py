"""The model and the share of a batch of one process, from a recipe alone: no data is read and none has to exist."""

import math
from dataclasses import replace
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any

import numpy as np

from clearhead.data import Row, Rows
from clearhead.models import ModelConfig
from clearhead.tasks import Task
from clearhead.tasks.model_presets import TEMPLATE, with_token_ids
from clearhead.tasks.task import Batch
from clearhead.text import Tokenizer, train_tokenizer
from clearhead.train.recipe import Recipe
from clearhead.train.run import task_config

TASKS = ("language_model", "masked_lm", "replaced_tokens")  # pre-training: every sequence is as long as a block
WORDS = ("river", "stone", "light", "house", "winter", "garden", "paper", "music")  # of the placeholder text
SENTENCE_WORDS = 12


def check_plannable(recipe: Recipe) -> None:
    """Refuse recipes whose batches or models do not follow from the recipe alone."""
    if recipe.task not in TASKS:
        raise ValueError(f"task is {recipe.task!r}: the lengths of its examples are not known; plan {', '.join(TASKS)}")
    if "base_model" in recipe.model:
        raise ValueError("model.base_model is set: plan a model that is trained from scratch, with its sizes in model")
    if recipe.train.steps is None:
        raise ValueError("train.epochs is set, and the data is not read: give --set train.epochs=null train.steps=N")


def make_task(recipe: Recipe, base: Path) -> Task:
    """Return the task of a recipe, with the tokenizer that it names, else with one for the placeholder text."""
    settings = task_config(recipe, None)
    return recipe.task_class.from_recipe(_named_tokenizer(recipe, base) or _placeholder(recipe), settings, {})


def model_config(recipe: Recipe, base: Path, task: Task) -> ModelConfig:
    """Return the model with the vocabulary of the recipe, whatever that of the placeholder tokenizer is."""
    config = task.config(with_token_ids(recipe.model, task.tokenizer))
    named = _named_tokenizer(recipe, base)
    return _with_vocabulary(config, recipe.tokenizer.vocab_size if named is None else named.vocab_size)


def local_batch(recipe: Recipe, task: Task, parts: int) -> tuple[Batch, int]:
    """Return the largest of so many parts of a batch, and the number of examples of the whole batch."""
    size = recipe.data.block_size or recipe.data.max_len
    count = recipe.train.batch_examples or max(1, recipe.train.batch_tokens // size)
    own = math.ceil(count / parts)
    columns, _ = task.encode(Rows(lambda: iter(_rows(2 * (own + 1) * size))))
    lengths = task.lengths(columns)
    full = np.flatnonzero(lengths >= np.sort(lengths)[-own])[:own]
    return task.collate(columns, full), count


def _rows(words: int) -> list[Row]:
    """Return sentences with at least so many words."""
    count = math.ceil(words / SENTENCE_WORDS)
    texts = [" ".join(WORDS[(i + j) % len(WORDS)] for j in range(SENTENCE_WORDS)) for i in range(count)]
    return [Row({"text": f"{text}."}, "placeholder.txt", i + 1) for i, text in enumerate(texts)]


def _named_tokenizer(recipe: Recipe, base: Path) -> Tokenizer | None:
    """Return the tokenizer in the folder that the recipe names, or in its shards if they exist already."""
    if (folder := recipe.tokenizer.folder) is not None:
        return Tokenizer.load(base / folder)
    names = recipe.data.train.get("shards", [])
    folders = [base / name / "tokenizer" for name in ([names] if isinstance(names, str) else names)]
    return next((Tokenizer.load(folder) for folder in folders if folder.is_dir()), None)


def _placeholder(recipe: Recipe) -> Tokenizer:
    template = TEMPLATE.get(str(recipe.model.get("family")), recipe.task_class.spec.template)
    assert template is not None
    with NamedTemporaryFile("w", encoding="utf-8", suffix=".txt") as text:
        text.writelines(f"{row.values['text']}\n" for row in _rows(SENTENCE_WORDS * len(WORDS)))
        text.flush()
        return train_tokenizer(text.name, template=template, vocab_size=400, progress=False)


def _with_vocabulary(config: ModelConfig, size: int) -> ModelConfig:
    parts: dict[str, Any] = {
        name: replace(stack, vocab_size=size)
        for name, stack in (("encoder", config.encoder), ("decoder", config.decoder))
        if stack is not None
    }
    head, generator = config.head, config.generator
    if head is not None and head.vocab_size:
        parts["head"] = replace(head, vocab_size=size)
    if generator is not None:
        parts["generator"] = _with_vocabulary(generator, size)
    return replace(config, **parts)
