"""What a card shows of a recipe: the sections that its task uses, without paths of the machine."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from clearhead.cards.public_names import file_label, without_paths

PARTS = ("train", "valid", "test")  # of the data of a recipe


def public_recipe(recipe: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a card shows of a recipe: the sections that its task uses, with files and folders by name only."""
    task, data, model = recipe.get("task"), recipe.get("data") or {}, recipe.get("model") or {}
    uses = {
        "tokenizer": "base_model" not in model, "loss": task in ("embed", "rerank"), "embedding": task == "embed",
        "image_codec": task == "draw",
    }  # fmt: skip
    names = ("task", "seed", "data", "model", "tokenizer", "loss", "embedding", "image_codec", "train")
    shown: dict[str, Any] = {name: recipe[name] for name in names if name in recipe and uses.get(name, True)}
    if data:
        images = "image" in (data.get("train") or {})
        shown["data"] = {
            key: _public_part(value) if key in PARTS and isinstance(value, Mapping) else value
            for key, value in data.items()
            if images or key not in ("augment", "image_size") or "counterfactual" in (value or {})
        }
    if str(model.get("base_model", "")).startswith((".", "~")):
        shown["model"] = {**model, "base_model": file_label(str(model["base_model"]))}
    if isinstance(folder := (shown.get("tokenizer") or {}).get("folder"), str):
        shown["tokenizer"] = {**shown["tokenizer"], "folder": file_label(folder)}
    return without_paths(_without_unset(shown))


def _without_unset(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings without those that are not set. Of an optimizer all are kept: null switches clipping off."""
    kept: dict[str, Any] = {}
    for name, value in values.items():
        if isinstance(value, Mapping) and name != "optimizer":
            value = _without_unset(cast(Mapping[str, Any], value))
        if value is not None and value != {} and value != []:
            kept[name] = value
    return kept


def _public_part(part: Mapping[str, Any]) -> dict[str, Any]:
    def label(value: Any) -> Any:
        return [file_label(str(one)) for one in value] if isinstance(value, list) else file_label(str(value))  # pyright: ignore[reportUnknownVariableType,reportUnknownArgumentType]

    return {name: label(value) if name == "file" or "file" not in part else value for name, value in part.items()}


def part_files(part: Mapping[str, Any]) -> list[str]:
    """Return the files that a part of a recipe names, as it names them."""
    if "file" in part:
        return [str(part["file"])]
    files = [one for name, value in part.items() if name != "group" for one in _as_list(value)]
    return list(dict.fromkeys(str(file) for file in files))


def _as_list(value: Any) -> list[Any]:
    return cast(list[Any], value) if isinstance(value, list) else [value]
