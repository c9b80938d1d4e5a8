"""The model that training begins with: newly initialized weights, or a pretrained base model with a new head."""

from __future__ import annotations

import json
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, TypeVar, cast

import torch
from pydantic import TypeAdapter
from torch import Tensor, nn

from clearhead.data.datasets import locate
from clearhead.files.s3_path import is_s3
from clearhead.hub.folder import LoadedModel, carried_files, extend, open_folder, read_model_config
from clearhead.hub.lora import LoraConfig, attach
from clearhead.hub.model_folder import ModelFolder
from clearhead.hub.resolve import PACKAGE, resolve_model
from clearhead.models import ModelConfig, build
from clearhead.models.attention_methods import with_attention
from clearhead.models.model import Model
from clearhead.tasks import Task, did_you_mean
from clearhead.tasks.image_inputs import read_image_processor
from clearhead.tasks.model_presets import attention_entries, check_pool, with_token_ids
from clearhead.text import Tokenizer
from clearhead.train.recipe import Recipe
from clearhead.vision import ImageProcessor, PatchConfig

DROPOUT_KEYS = ("attention_dropout", "dropout", "embedding_dropout", "hidden_dropout")
BASE_MODEL_KEYS = ("attention", "base_model", "freeze", "lora", "max_len", "pool", "positions", *DROPOUT_KEYS)

M = TypeVar("M", bound=nn.Module)


@dataclass(frozen=True, eq=False)
class Pretrained:
    """The base model of a fine-tuning run. Its folder is opened once for config, tokenizer and weights."""

    source: ModelFolder
    config: ModelConfig
    max_len: int | None = None  # tokens of a text, if its positions are extended

    @staticmethod
    def from_recipe(recipe: Recipe, base: Path) -> Pretrained | None:
        """Open the folder that `model.base_model` names; None where the model is trained from scratch."""
        if "base_model" not in recipe.model:
            return None
        for name in recipe.model:
            if name not in BASE_MODEL_KEYS:
                raise ValueError(
                    f"model.{name} cannot be set together with model.base_model, whose folder defines the model: "
                    f"{did_you_mean(name, BASE_MODEL_KEYS)}"
                )
        source = ModelFolder.open(base_model_folder(str(recipe.model["base_model"]), base))
        dropouts = {name: recipe.model[name] for name in DROPOUT_KEYS if name in recipe.model}
        if dropouts:
            source = replace(source, hf_config=source.family.with_dropout(source.hf_config, dropouts))
        architecture = source.family.architecture(source.hf_config)
        config = read_model_config(source.family, source.hf_config, architecture)
        if "positions" in recipe.model and "max_len" not in recipe.model:
            raise ValueError("model.positions says how positions are extended: set model.max_len too, or remove it")
        return Pretrained(source, config, recipe.model.get("max_len"))

    @property
    def folder(self) -> Path:
        return self.source.path

    @property
    def tokenizer(self) -> Tokenizer:
        if self.source.tokenizer is None:
            raise ValueError(f"{self.folder} has no tokenizer that can be read: add tokenizer.json, or vocab.txt")
        return self.source.tokenizer

    @property
    def patches(self) -> PatchConfig:
        """How it divides images; ValueError where it reads text."""
        patches = self.config.patches
        if patches is None:
            raise ValueError(f"{self.folder} reads text, but data.train names images: choose an image model")
        return patches

    @property
    def image_processor(self) -> ImageProcessor:
        return read_image_processor(carried_files(self.folder))

    @property
    def limit(self) -> int | None:
        """The maximum number of tokens of its positions; None: unlimited."""
        return self.config.stack.max_positions if self.max_len is None else self.max_len

    @property
    def has_segments(self) -> bool:
        """Whether it has segment embeddings, which distinguish the texts of a pair."""
        return getattr(self.config.stack, "num_segments", 0) > 0


def skeleton(task: Task, recipe: Recipe, base_model: Pretrained | None) -> LoadedModel:
    """Return what the folder of the trained model will hold, around a model on the meta device."""
    if base_model is not None:
        loaded = _load(task, recipe, base_model, "meta")
        with torch.device("meta"):
            adapt(build(loaded.config), recipe)  # refuses model.freeze or model.lora that do not fit, before training
        return replace(loaded, metadata={})
    config = task.config(with_token_ids(recipe.model, task.tokenizer))
    saved = task.save_format(config)
    family, architecture, generation = saved.family, saved.architecture, saved.generation
    token_ids = {name: id for name, id in generation.items() if name.endswith("_token_id")}
    hf_config = family.write(config, architecture, token_ids)
    files = dict(saved.files)
    if generation:
        files["generation_config.json"] = (json.dumps(generation, indent=2) + "\n").encode()
    with torch.device("meta"):
        model = build(config)
    loaded = LoadedModel(model, config, family, architecture, hf_config, task.tokenizer, files)
    _check_saved(loaded)
    return loaded


def initial_model(task: Task, recipe: Recipe, base_model: Pretrained | None) -> LoadedModel:
    """Return the model before its first step; new weights follow from the seed."""
    torch.manual_seed(recipe.seed)
    if base_model is None:
        loaded = skeleton(task, recipe, None)
        return replace(loaded, model=new_model(loaded.config, task))
    loaded = _load(task, recipe, base_model, "cpu")
    freeze_unused(adapt(loaded.model, recipe), task)
    return loaded


def new_model(config: ModelConfig, task: Task) -> Model:
    """Return a model with new weights, drawn from torch's generator.

    Classifiers of images keep the values that torch gives its layers: from them they train better than from those of
    `initialize` (docs/decisions.md).
    """
    model = build(config)
    classifies_images = config.patches is not None and model.decoder is None
    return freeze_unused(model if classifies_images else initialize(model), task)


def freeze_unused(model: Model, task: Task) -> Model:
    """Freeze a pooler that the folder has but the task does not use: it gets no gradient, so no optimizer state."""
    if task.head[0] == "pooler" and model.head is not None:
        model.head.requires_grad_(False)
    return model


def _load(task: Task, recipe: Recipe, base_model: Pretrained, device: str) -> LoadedModel:
    """Load the base model with the head of the task; on the meta device no weight is copied."""
    kind, labels = task.head
    pool = recipe.model.get("pool")
    pool = None if pool is None else check_pool(pool, kind)
    loaded = open_folder(
        base_model.source, head=kind, labels=labels or None, pool=pool, dtype=torch.float32, device=device
    )
    if base_model.max_len is not None:
        loaded = extend(loaded, base_model.max_len, recipe.model.get("positions", "repeat"))
    for entry in attention_entries(with_token_ids(recipe.model, loaded.tokenizer).get("attention", ())):
        options = {name: value for name, value in entry.items() if name != "layers"}
        model, config = with_attention(loaded.model, loaded.config, options, entry.get("layers"))
        loaded = replace(loaded, model=model, config=config)
    return loaded


def initialize(model: M) -> M:
    """Initialize linear layers by Glorot and Bengio (2010), with biases of 0; embeddings keep their values."""
    embeddings = {id(m.weight) for m in model.modules() if isinstance(m, nn.Embedding)}
    for module in model.modules():
        if isinstance(module, nn.Linear):
            if id(module.weight) not in embeddings:
                nn.init.xavier_uniform_(module.weight)
            if (bias := cast(Tensor | None, module.bias)) is not None:
                nn.init.zeros_(bias)
    return model


def adapt(model: Model, recipe: Recipe) -> Model:
    """Select what is trained: all weights, the upper layers (`model.freeze`), or LoRA matrices (`model.lora`)."""
    lora = lora_of(recipe)
    if lora is not None:
        if "freeze" in recipe.model:
            raise ValueError("model.lora already freezes the base model: remove model.freeze")
        attach(model, lora)
    _freeze(model, recipe.model.get("freeze"))
    return model


def lora_of(recipe: Recipe) -> LoraConfig | None:
    values = recipe.model.get("lora")
    if values is None:
        return None
    if not isinstance(values, dict):
        raise ValueError(f"model.lora is {values!r}: write it as {{rank: 8, alpha: 16, modules: [query, value]}}")
    names = [f.name for f in fields(LoraConfig)]
    for name in values:
        if name not in names:
            raise ValueError(f"model.lora.{name}: {did_you_mean(name, names)}")
    return TypeAdapter(LoraConfig).validate_python(values)


def _freeze(model: Model, setting: Any) -> None:
    """Freeze weights: "body" freezes all but the head, a number n the embeddings and the first n layers."""
    if setting is None:
        return
    stack = model.encoder if model.encoder is not None else model.decoder
    assert stack is not None
    if setting == "body":
        frozen: list[nn.Module] = [part for part in (model.encoder, model.decoder) if part is not None]
    elif isinstance(setting, int) and not isinstance(setting, bool) and hasattr(stack, "blocks"):
        blocks = list(stack.blocks)
        if not 0 <= setting <= len(blocks):
            raise ValueError(f"model.freeze is {setting}: the model has {len(blocks)} layers")
        frozen = [stack.embedding, *blocks[:setting]]
    else:
        raise ValueError(f"model.freeze is {setting!r}: it must be 'body' or the number of lower layers to freeze")
    for part in frozen:
        part.requires_grad_(False)


def base_model_folder(name: str, base: Path) -> Path:
    """Return the folder that `model.base_model` names: a path, `package:NAME`, or a copy of one in an object store."""
    return resolve_model(name) if is_s3(name) or name.startswith(PACKAGE) else locate(name, base)


def _check_saved(loaded: LoadedModel) -> None:
    """Refuse a model that its file format cannot represent, before it is trained."""
    hf_config = loaded.family.write(loaded.config, loaded.architecture, loaded.hf_config)
    restored = loaded.family.read(hf_config, loaded.architecture)
    ours, theirs = loaded.config.stack, restored.stack
    for name in (field.name for field in fields(ours)):
        if name == "kernel" or name.endswith("dropout"):  # settings of computation and training, not of the model
            continue
        if getattr(ours, name) != getattr(theirs, name):
            raise ValueError(
                f"model.{name} is {getattr(ours, name)!r}, but the model is saved as {loaded.family.title}, which has "
                f"{getattr(theirs, name)!r}: remove it"
            )
