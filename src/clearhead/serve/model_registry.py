"""The model registry: the served models by name, and the tasks that each supports."""

import threading
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from clearhead.cards.model_card import read_card
from clearhead.decode.translation_engine import EngineName
from clearhead.hub.resolve import PACKAGE
from clearhead.models.heads import LMHead
from clearhead.pipeline import Pipeline, load
from clearhead.serve.errors import ApiError
from clearhead.tasks.registry import answer_task_name

IMAGE_TASK = "classify_image"
TASKS = ("classify", "pair", "tag", "qa", "translate", "embed", "generate", "chat", IMAGE_TASK, "caption")


@dataclass(frozen=True, eq=False)
class ServedModel:
    """A loaded model, its name and its tasks, the task it was trained for first."""

    name: str
    source: str
    pipeline: Pipeline
    tasks: tuple[str, ...]
    card: str | None = None  # README.md of its folder
    created: int = field(default_factory=lambda: int(time.time()))
    engine: EngineName = "auto"  # of translation


class ModelRegistry:
    """Models by name. A request keeps the model that it started with when another replaces it."""

    def __init__(
        self,
        sources: Mapping[str, str],
        *,
        dtype: str | None = "auto",
        device: str = "cpu",
        engine: EngineName = "auto",
    ) -> None:
        self._dtype, self._device = dtype, device
        self._engine: EngineName = engine
        self._lock = threading.Lock()
        self._models = {name: self._load(name, source) for name, source in sources.items()}

    def all(self) -> list[ServedModel]:
        return list(self._models.values())

    def find(self, name: str | None, task: str) -> ServedModel:
        """Returns the model of this name, or without one the best for the task; raises a 404 that lists what exists."""
        able = [model for model in self._models.values() if task in model.tasks or task == "attention"]
        if name is None:
            if not able:
                served = ", ".join(f"{model.name} ({', '.join(model.tasks)})" for model in self._models.values())
                message = f"no served model supports {task!r}; served models: {served}"
                raise ApiError(404, "no_model", message, param="model")
            # a model trained for the task comes before one that also supports it
            return min(able, key=lambda model: model.tasks.index(task) if task in model.tasks else 0)
        model = self.get(name)
        if model not in able:
            message = f"model {name!r} does not support {task!r} (it supports: {', '.join(model.tasks)})"
            if able:
                message += f"; use one of: {', '.join(one.name for one in able)}"
            raise ApiError(404, "wrong_model", message, param="model")
        return model

    def get(self, name: str) -> ServedModel:
        """Returns the model of this name; raises a 404 that lists what exists."""
        model = self._models.get(name)
        if model is None:
            raise self._unknown(name)
        return model

    def reload(self, name: str | None = None) -> list[ServedModel]:
        """Loads one folder again, or all, and swaps the models in; returns the replaced ones.

        If any folder fails to load, nothing is replaced.
        """
        with self._lock:
            names = [name] if name is not None else list(self._models)
            for one in names:
                if one not in self._models:
                    raise self._unknown(one)
            loaded = {one: self._load(one, self._models[one].source) for one in names}
            replaced = [self._models[one] for one in names]
            self._models.update(loaded)
            return replaced

    def _unknown(self, name: str) -> ApiError:
        served = ", ".join(self._models)
        message = f"no model is named {name[:200]!r}; served models: {served}"
        return ApiError(404, "model_not_found", message, param="model")

    def _load(self, name: str, source: str) -> ServedModel:
        pipeline = load(source, dtype=self._dtype, device=self._device)
        pipeline.model.eval()
        tasks = supported_tasks(pipeline)
        if "translate" in tasks:  # an export is written now, and not while a request waits
            pipeline.translation_engine.select(self._engine, pipeline.generator.beam(default=5), 1)
        card = None if pipeline.folder is None else read_card(pipeline.folder)
        return ServedModel(name, source, pipeline, tasks, card, engine=self._engine)


def supported_tasks(pipeline: Pipeline) -> tuple[str, ...]:
    """Returns the tasks of a model, the one it was trained for first."""
    loaded, model = pipeline.loaded, pipeline.model
    if loaded.config.patches is not None:
        offered = {"classify": IMAGE_TASK, "caption": "caption"}
        if (task := answer_task_name(loaded)) not in offered:
            raise ValueError(f"{loaded.architecture} neither classifies images nor writes captions")
        return (offered[str(task)],)
    if loaded.metadata.get("task") == "draw":
        raise ValueError(f"{loaded.architecture} draws images, which the server does not offer: use `clearhead draw`")
    if loaded.tokenizer is None:
        raise ValueError(f"{loaded.architecture} has no tokenizer: put its tokenizer.json into the model folder")
    if isinstance(model.head, LMHead) and model.decoder is not None:
        is_dialogue = loaded.metadata.get("task") == "dialogue"
        if model.encoder is not None:
            return ("chat",) if is_dialogue else ("translate",)
        if pipeline.tokenizer.eos_id is None:  # the end-of-turn token
            return ("generate", "embed")
        return ("chat", "generate", "embed") if is_dialogue else ("generate", "chat", "embed")
    task = answer_task_name(loaded)
    if task == "rerank":  # a pair of texts has a number
        return "pair", "embed"
    return ("embed",) if task in (None, "embed", "answer") else (task, "embed")


def named_models(models: Iterable[str]) -> dict[str, str]:
    """Parses NAME=FOLDER or FOLDER into {name: folder}; the default name is the folder's, or its run's for `model`."""
    sources: dict[str, str] = {}
    for given in models:
        name, equals, source = given.partition("=")
        if not equals:
            path = Path(given)
            name, source = path.resolve().name if path.exists() else given.removeprefix(PACKAGE), given
            if path.exists() and name in ("model", "last", "best"):
                name = path.resolve().parent.name
        if not name or not source:
            raise ValueError(f"{given!r} is not a model: give FOLDER or NAME=FOLDER")
        if name in sources:
            raise ValueError(f"two models are named {name!r}: give one of them another name, as in NAME={source}")
        sources[name] = source
    if not sources:
        raise ValueError("no model given: give at least one folder")
    return sources
