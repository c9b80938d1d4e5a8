"""Prepare the folder of a run and train in it. Started again with the same recipe, a run resumes where it stopped."""

import sys
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, cast

import torch

from clearhead.distributed import Distributed, arrange
from clearhead.files.manifest import Folder
from clearhead.hub.folder import carried_files
from clearhead.hub.image_features import load_features
from clearhead.hub.sentence import SentenceConfig, read_sentence
from clearhead.tasks import TaskConfig
from clearhead.tasks.model_presets import patch_config
from clearhead.text import Tokenizer
from clearhead.train.checkpoint import Progress
from clearhead.train.image_codec_run import load_image_codec
from clearhead.train.init_model import Pretrained, skeleton
from clearhead.train.loop import epochs_to_steps, fit, make_batches
from clearhead.train.recipe import EmbeddingConfig, Recipe, columns_of_part
from clearhead.train.run_data import Log, load_columns, load_labels, load_tokenizer, read_part, training_parts
from clearhead.train.run_folder import claim_folder
from clearhead.train.run_mirror import PREPARED, mirror_of
from clearhead.train.run_results import finish
from clearhead.train.tracking import Tracker
from clearhead.train.training_run import TrainingRun
from clearhead.vision import AugmentConfig, ImageProcessor


def prepare(recipe: Recipe, base: Path, out: Folder, log: Log = lambda message: None) -> TrainingRun:
    """Create or reopen the folder of a run: train the tokenizer and tokenize the data, each once.

    Paths in the recipe are relative to `base`. What already exists is verified and reused. Where `out` is in an object
    store, tokenized data are in a local folder, and everything else is also in the store.
    """
    mirror = mirror_of(out)
    folder = out if mirror is None else mirror.local
    assert isinstance(folder, Path)
    if mirror is not None:
        mirror.pull()
    claim_folder(recipe, folder, out)
    parts = cache(lambda: training_parts(recipe, base))
    base_model = Pretrained.from_recipe(recipe, base)
    tokenizer = load_tokenizer(recipe, base, folder, base_model, log)
    labels = load_labels(recipe, parts, folder)
    tokenizer = cast(Tokenizer, tokenizer)  # None where images are read, whose task has no use for it
    settings = task_config(recipe, base_model)
    if recipe.task == "draw":
        settings = replace(settings, image_codec=load_image_codec(recipe, parts, folder, log))
    task = recipe.task_class.from_recipe(tokenizer, settings, labels)
    untrained = skeleton(task, recipe, base_model)
    if recipe.data.test is not None:
        read_part(recipe.data.test, base)  # a missing file is reported now, not after training
    train, valid = load_columns(recipe, base, task, parts, folder, log)
    batches, _ = (make_batches(task, part, recipe.train) for part in (train, valid))  # refuses examples over the budget
    settings = epochs_to_steps(recipe.train, len(batches))
    if mirror is not None:
        mirror.push(PREPARED)
    return TrainingRun(recipe, folder, out, task, untrained, settings, train, valid, base, parts, base_model)


def train(
    run: TrainingRun,
    distributed: Distributed | None = None,
    trackers: Sequence[Tracker] = (),
    *,
    device: torch.device | str = "cpu",
    shown: bool = True,
) -> Progress:
    """Train to the end and write `model/`, the folder that `clearhead.load` and `transformers` open."""
    distributed = arrange(distributed or Distributed(), run.recipe.parallel)
    job = run.job(distributed, trackers, device=device, shown=shown)
    progress = fit(job, distributed)
    if distributed.is_main:
        if shown and run.recipe.data.test is not None:
            print("evaluating the test set", file=sys.stderr, flush=True)
        finish(run, progress)
    distributed.barrier()
    return progress


def task_config(recipe: Recipe, base_model: Pretrained | None) -> TaskConfig:
    """Collect the settings of the task from the recipe and the base model."""
    limits = [recipe.data.max_len]
    if base_model is not None and base_model.limit is not None:
        limits.append(base_model.limit)
    return TaskConfig(
        max_len=min(limits),
        label_smoothing=recipe.train.label_smoothing,
        doubly_stochastic=recipe.train.doubly_stochastic,
        block_size=recipe.data.block_size,
        columns=tuple(columns_of_part(recipe.data.train)),
        balance_classes=recipe.data.balance_classes,
        pairs=recipe.data.pairs,
        whole_words=recipe.data.whole_words,
        language=recipe.data.language,
        family=str(recipe.model.get("family", "bert")),
        encoder=_has_encoder(recipe, base_model),
        segments=base_model is None or base_model.has_segments,
        loss=recipe.loss,
        embedding=_sentence_config(recipe.embedding, base_model),
        **(_image_settings(recipe, base_model) if recipe.reads_images and recipe.task != "draw" else {}),
    )


def _image_settings(recipe: Recipe, base_model: Pretrained | None) -> dict[str, Any]:
    """Return how images are read: as the base model does, else resized to squares and scaled from -1 to 1."""
    size, features, augment = recipe.data.image_size, None, recipe.data.augment
    assert isinstance(augment, AugmentConfig)
    if base_model is None:
        if (source := recipe.model.get("features")) is not None:
            features = load_features(str(source), size or 224)
        processor = ImageProcessor(height=size or 224, width=size or 224) if features is None else features.processor
        patches = patch_config(recipe.model, size or 224, features)
    else:
        if size is not None:
            raise ValueError("data.image_size is set, but the base model has its own size: remove it")
        processor, patches = base_model.image_processor, base_model.patches
    return {
        "image_processor": processor, "image_features": features, "patches": patches,
        "image_tokens": patches.num_tokens, "augment": augment,
    }  # fmt: skip


def _sentence_config(given: EmbeddingConfig, base_model: Pretrained | None) -> SentenceConfig:
    """Return how texts become vectors: as the recipe says, else as the base model does, else the normalized mean."""
    files = {} if base_model is None else carried_files(base_model.folder)
    config = read_sentence(files) if "modules.json" in files else SentenceConfig(normalize=True)
    prompts = {"query": given.query_prompt, "document": given.document_prompt}
    return replace(
        config,
        pool=given.pool or config.pool,
        normalize=config.normalize if given.normalize is None else given.normalize,
        prompts={**config.prompts, **{name: text for name, text in prompts.items() if text is not None}},
    )


def _has_encoder(recipe: Recipe, base_model: Pretrained | None) -> bool:
    """Return whether a dialogue model is an encoder-decoder rather than a decoder alone."""
    if base_model is not None:
        return base_model.config.encoder is not None and base_model.config.decoder is not None
    value = recipe.model.get("encoder", False)
    if not isinstance(value, bool):
        raise ValueError(f"model.encoder is {value!r}: it must be true or false")
    return value
