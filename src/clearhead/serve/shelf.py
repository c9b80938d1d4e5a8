"""The shelf: the models that are served, by name, and what each of them can do."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from clearhead.app import App, load
from clearhead.models.heads import Vocabulary
from clearhead.models.hub import PACKAGE
from clearhead.serve.faults import Fault
from clearhead.tasks.answering import answers

TASKS = ("classify", "pair", "tag", "qa", "translate", "embed", "generate", "chat")


@dataclass(frozen=True, eq=False)
class Shelved:
    """A model that is being served."""

    name: str
    source: str
    app: App
    tasks: tuple[str, ...]
    made: int = field(default_factory=lambda: int(time.time()))


class Shelf:
    """Models by name. A request keeps the model that it began with, also when another is put in its place."""

    def __init__(self, sources: Mapping[str, str], *, dtype: str | None = "auto", device: str = "cpu") -> None:
        self._dtype, self._device = dtype, device
        self._lock = threading.Lock()
        self._held = {name: self._load(name, source) for name, source in sources.items()}

    def all(self) -> list[Shelved]:
        """In the order in which they were named."""
        return list(self._held.values())

    def of(self, name: str | None, task: str) -> Shelved:
        """The model of that name, or the first of those that are there for this; a fault says what there is."""
        able = [one for one in self._held.values() if task in one.tasks or task == "attention"]
        if name is None:
            if not able:
                served = ", ".join(f"{one.name} ({', '.join(one.tasks)})" for one in self._held.values())
                raise Fault(404, "no_model", f"no model here can {task}; there are: {served}", param="model")
            return min(able, key=lambda one: one.tasks.index(task) if task in one.tasks else 0)  # made for it first
        found = self._held.get(name)
        if found is None:
            raise self._unknown(name)
        if found not in able:
            message = f"{name} cannot {task}, but {', '.join(found.tasks)}"
            if able:
                message += f"; {', '.join(one.name for one in able)} can {task}"
            raise Fault(404, "wrong_model", message, param="model")
        return found

    def reload(self, name: str | None = None) -> list[str]:
        """Open the folders again, and put them in the place of what is served; which ones those are."""
        with self._lock:
            names = [name] if name is not None else list(self._held)
            for one in names:
                if one not in self._held:
                    raise self._unknown(one)
                self._held[one] = self._load(one, self._held[one].source)
            return names

    def _unknown(self, name: str) -> Fault:
        there = ", ".join(self._held)
        return Fault(
            404, "model_not_found", f"there is no model {name[:200]!r} here; there are: {there}", param="model"
        )

    def _load(self, name: str, source: str) -> Shelved:
        app = load(source, dtype=self._dtype, device=self._device)
        app.model.eval()
        return Shelved(name, source, app, tasks_of(app))


def tasks_of(app: App) -> tuple[str, ...]:
    """What a model can do, the most particular first."""
    opened, model = app.opened, app.model
    if opened.tokenizer is None:
        raise ValueError(f"{opened.architecture} has no tokenizer beside it: put tokenizer.json into its folder")
    if isinstance(model.head, Vocabulary) and model.decoder is not None:
        converses = opened.facts.get("task") == "converse"
        if model.encoder is not None:
            return ("chat",) if converses else ("translate",)
        if app.tokenizer.eos_id is None:  # what ends a turn
            return ("generate", "embed")
        return ("chat", "generate", "embed") if converses else ("generate", "chat", "embed")
    labelled = answers(opened)
    return ("embed",) if labelled is None else (labelled, "embed")


def named(models: Iterable[str]) -> dict[str, str]:
    """NAME=FOLDER as it says; a folder is called as it is named, one called `model` as the run that it is in."""
    found: dict[str, str] = {}
    for one in models:
        name, equals, source = one.partition("=")
        if not equals:
            path = Path(one)
            name, source = path.resolve().name if path.exists() else one.removeprefix(PACKAGE), one
            if path.exists() and name in ("model", "last", "best"):
                name = path.resolve().parent.name
        if not name or not source:
            raise ValueError(f"a model is given as FOLDER or NAME=FOLDER, not as {one!r}")
        if name in found:
            raise ValueError(f"two models are called {name}: give one of them another name, NAME={source}")
        found[name] = source
    if not found:
        raise ValueError("no model: give at least one folder")
    return found
