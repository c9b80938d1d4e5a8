"""The folder of a run: which recipe it belongs to, and what an interrupted process left in it."""

import shutil
from dataclasses import replace
from pathlib import Path

from clearhead.files import stale_temporaries
from clearhead.files.manifest import Folder
from clearhead.train.checkpoint import Checkpoints
from clearhead.train.recipe import Recipe, read_recipe, write_recipe


def claim_folder(recipe: Recipe, folder: Path, out: Folder) -> None:
    """Write the recipe into the folder; a folder that belongs to a different recipe is refused.

    Before the first checkpoint a recipe may still change; the tokenizer and data of the old one are then deleted.
    `out` has the checkpoints: the same folder, or that of the run in an object store.
    """
    path = folder / "recipe.yaml"
    has_weights = (folder / "model").exists() or Checkpoints(out / "checkpoints", 1).all()
    if path.is_file() and not has_weights:
        old = read_recipe(path)
        if any(getattr(old, part) != getattr(recipe, part) for part in ("task", "data", "tokenizer")):
            for name in ("tokenizer", "data"):
                shutil.rmtree(folder / name, ignore_errors=True)
            (folder / "labels.json").unlink(missing_ok=True)
    elif path.is_file():
        if (old := read_recipe(path)) == recipe:
            return
        if replace(old, train=recipe.train, parallel=recipe.parallel) != recipe:
            raise ValueError(f"{out} was created from a different recipe: choose a new --out or delete it")
        if old.train != recipe.train and (
            replace(old.train, steps=recipe.train.steps, epochs=recipe.train.epochs) != recipe.train
        ):
            raise ValueError(
                f"{out} was created with different training settings: only train.steps and train.epochs may change. "
                "Choose a new --out or delete it"
            )
    elif folder.exists() and set(folder.iterdir()) > set(stale_temporaries(folder)):
        raise ValueError(f"{folder} exists and is not the folder of a run: choose a new --out")
    folder.mkdir(parents=True, exist_ok=True)
    write_recipe(recipe, path)


def remove_stale(folder: Path) -> None:
    """Delete the unfinished files and folders of a process that was killed."""
    for path in stale_temporaries(folder):
        shutil.rmtree(path) if path.is_dir() else path.unlink()
