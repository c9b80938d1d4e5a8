"""Trained: a recipe becomes a model in a folder; where that has been done before, nothing is done again."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from clearhead.train import Progress, Recipe, Run, prepare, train

Heard = Callable[[str, int, int], object]
"""Told how far a model has come: `heard(its name, step, of how many)`."""


def unheard(name: str, step: int, steps: int) -> None:
    """For those who do not want to know."""


def trained(name: str, recipe: Recipe, base: Path, folder: Path, heard: Heard = unheard) -> tuple[Run, Progress]:
    """Train to the end; `base` is where the recipe's paths begin. The model is in `folder`/model."""
    run = prepare(recipe, base, folder)
    steps = run.settings.last
    heard(name, 0, steps)
    progress = train(run, trackers=[lambda step, numbers: heard(name, step, steps)], shown=False)
    heard(name, steps, steps)
    return run, progress
