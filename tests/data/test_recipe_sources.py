"""Where the data of the shipped recipes comes from: licenses as in the catalog, and sources on the hub that fit."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from clearhead.data import DATASETS
from clearhead.train import make_recipe

RECIPES = sorted((Path(__file__).parents[2] / "recipes").glob("*.yaml"))


def header(recipe: Path) -> list[str]:
    """Return the lines of comment at the start of a recipe."""
    lines = recipe.read_text(encoding="utf-8").split("\n")
    return lines[: next(i for i, line in enumerate(lines) if not line.startswith("#"))]


def hub_part(recipe: Path) -> str | None:
    """Return the `data` of a recipe from the hub, which stands indented in its header."""
    lines = header(recipe)
    first = next((i for i, line in enumerate(lines) if "from the hub" in line), None)
    if first is None:
        return None
    rest = lines[first + 1 :]
    count = next((i for i, line in enumerate(rest) if not line.startswith("#   ")), len(rest))
    return "\n".join(line.removeprefix("# ") for line in rest[:count])


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda path: path.stem)
def test_a_recipe_says_where_its_data_comes_from(recipe):
    text = "\n".join(header(recipe))
    named = {name for name in re.findall(r"'(\w+):", recipe.read_text(encoding="utf-8")) if name in DATASETS}
    for name in named:
        assert f"clearhead data {name} " in text, f"its header does not say how to get {name}"
        assert f"{name}: {DATASETS[name].license}" in text, f"its header does not state the license of {name}"
        assert "--fetch" not in text or all(file.url for file in DATASETS[name].files) or "--from" in text
    assert named or "python benchmarks/" in text or "clearhead " in text


@pytest.mark.parametrize("recipe", [r for r in RECIPES if hub_part(r)], ids=lambda path: path.stem)
def test_a_source_on_the_hub_fits_its_recipe(recipe):
    settings = yaml.safe_load(recipe.read_text(encoding="utf-8"))
    kept = {name: value for name, value in settings["data"].items() if name not in ("train", "valid", "test")}
    settings["data"] = kept | yaml.safe_load(str(hub_part(recipe)))
    assert {"train", "valid"} & settings["data"].keys()
    data = make_recipe(settings).data
    for part in (data.train, data.valid, data.test):
        assert part is None or (str(part["file"]).startswith("hub:") and len(str(part["revision"])) == 40)


def test_enough_recipes_have_a_source_on_the_hub():
    assert {"sst2", "squad", "bert-mini", "cifar10"} <= {recipe.stem for recipe in RECIPES if hub_part(recipe)}
