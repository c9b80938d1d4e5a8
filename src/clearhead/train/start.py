"""Start: what a run begins with, which is a model of fresh weights, or the body of one that was trained before."""

from __future__ import annotations

import json
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import torch
from pydantic import TypeAdapter
from torch import nn

from clearhead.data.sets import locate
from clearhead.files import read_config
from clearhead.models import ModelConfig, build
from clearhead.models.hub import PACKAGE, carried
from clearhead.models.lora import LoraConfig, attach, merge
from clearhead.models.model import Model
from clearhead.models.store import Opened, family_of, open_folder, read_model_config
from clearhead.tasks import Task, unknown
from clearhead.tasks.build import check_pool
from clearhead.train.initial import initialise
from clearhead.train.recipe import Recipe

OPTIONS = ("start", "freeze", "lora", "pool")  # of a `model` section that has a start


@dataclass(frozen=True)
class Body:
    """A model folder to start from: what it can read."""

    folder: Path
    config: ModelConfig

    @staticmethod
    def of(recipe: Recipe, base: Path) -> Body | None:
        """The folder that `model.start` names; None where a model is built anew."""
        if "start" not in recipe.model:
            return None
        for name in recipe.model:
            if name not in OPTIONS:
                raise ValueError(
                    f"model.{name}: beside model.start, whose folder says the rest, {unknown(name, OPTIONS)}"
                )
        folder = folder_of(str(recipe.model["start"]), base)
        raw = read_config(folder)
        family = family_of(raw, folder)
        return Body(folder, read_model_config(family, raw, family.architecture(raw)))

    @property
    def limit(self) -> int | None:
        """The most tokens that its positions reach."""
        return self.config.stack.limit

    @property
    def has_segments(self) -> bool:
        """Does it tell the texts of a pair apart?"""
        return getattr(self.config.stack, "num_segments", 0) > 0


def frame(task: Task, recipe: Recipe, body: Body | None) -> Opened:
    """All that the folder of a trained model will say, around a model without weights."""
    if body is not None:
        opened = first(task, recipe, body)
        merge(opened.model)
        return replace(opened, model=opened.model.to("meta"), facts={})
    config = task.config(recipe.model)
    family, architecture = task.layout(config)
    rules = task.generation()
    raw = family.write(config, architecture, {name: id for name, id in rules.items() if name.endswith("_token_id")})
    carried = {"generation_config.json": (json.dumps(rules, indent=2) + "\n").encode()} if rules else {}
    with torch.device("meta"):
        model = build(config)
    made = Opened(model, config, family, architecture, raw, task.tokenizer, carried)
    _check_saved(made)
    return made


def first(task: Task, recipe: Recipe, body: Body | None) -> Opened:
    """The model before its first step; what is new in it follows from the seed."""
    torch.manual_seed(recipe.seed)
    if body is None:
        made = frame(task, recipe, None)
        return replace(made, model=initialise(build(made.config)))
    kind, labels = task.head
    pool = recipe.model.get("pool")
    chosen = None if pool is None else check_pool(pool, kind)
    opened = open_folder(body.folder, head=kind, labels=labels or None, pool=chosen, dtype=torch.float32)
    adapt(opened.model, recipe)
    return opened


def adapt(model: Model, recipe: Recipe) -> Model:
    """Let a model learn only what the recipe says: all of it, the upper layers, or narrow matrices beside some."""
    narrow = lora_of(recipe)
    if narrow is not None:
        if "freeze" in recipe.model:
            raise ValueError("model.lora keeps the whole body as it is: take model.freeze out")
        attach(model, narrow)
    _freeze(model, recipe.model.get("freeze"))
    return model


def lora_of(recipe: Recipe) -> LoraConfig | None:
    """The narrow matrices that a recipe asks for."""
    told = recipe.model.get("lora")
    if told is None:
        return None
    if not isinstance(told, dict):
        raise ValueError("model.lora is written {rank: 8, alpha: 16, modules: [query, value]}")
    names = [f.name for f in fields(LoraConfig)]
    for name in told:
        if name not in names:
            raise ValueError(f"model.lora.{name}: {unknown(name, names)}")
    return TypeAdapter(LoraConfig).validate_python(told)


def _freeze(model: Model, how: Any) -> None:
    """Keep some weights as they are: "body" all but the head's, a number the token vectors and so many layers."""
    if how is None:
        return
    stack = model.encoder if model.encoder is not None else model.decoder
    assert stack is not None
    if how == "body":
        still: list[nn.Module] = [part for part in (model.encoder, model.decoder) if part is not None]
    elif isinstance(how, int) and not isinstance(how, bool) and hasattr(stack, "blocks"):
        blocks = list(stack.blocks)  # type: ignore[union-attr]
        if not 0 <= how <= len(blocks):
            raise ValueError(f"model.freeze is {how}: the model has {len(blocks)} layers")
        still = [stack.embedding, *blocks[:how]]
    else:
        raise ValueError(f"model.freeze is {how!r}: 'body', or how many of the first layers are to stay as they are")
    for part in still:
        part.requires_grad_(False)


def folder_of(start: str, base: Path) -> Path:
    """The model folder that `model.start` names: a path, or `package:NAME`, one that a Python package carries."""
    return carried(start) if start.startswith(PACKAGE) else locate(start, base)


def _check_saved(made: Opened) -> None:
    """Refuse a model that its folder could not hold, before it is trained."""
    kept = made.family.read(made.family.write(made.config, made.architecture, made.raw), made.architecture)
    ours, theirs = made.config.stack, kept.stack
    for name in (field.name for field in fields(ours)):
        if name == "kernel" or name.endswith("dropout"):  # how it is computed, and how trained
            continue
        if getattr(ours, name) != getattr(theirs, name):
            raise ValueError(
                f"model.{name} is {getattr(ours, name)!r}, and the model is saved as {made.family.title}, which has "
                f"{getattr(theirs, name)!r}: take it out"
            )
