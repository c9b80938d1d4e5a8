"""An open model folder: verified once, with its config, tokenizer and weight headers."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from clearhead.files import read_config, safe_join, verify_if_marked, weight_headers
from clearhead.files.tensors import TensorInfo
from clearhead.hub.families import FAMILIES, OWN, Family, family_key
from clearhead.hub.mapping import Raw
from clearhead.hub.resolve import resolve_model
from clearhead.text import Tokenizer


@dataclass(frozen=True, eq=False)
class ModelFolder:
    """Everything but the tensors. Each file is read at most once."""

    path: Path
    metadata: Mapping[str, Any]  # from the manifest; empty where the folder has none
    hf_config: dict[str, Any]  # config.json as it was read
    family: Family

    @staticmethod
    def open(source: str | Path, revision: str | None = None) -> ModelFolder:
        """Find the folder, verify it against its manifest and read its config."""
        path = resolve_model(source, revision)
        manifest = verify_if_marked(path)
        hf_config = read_config(path)
        family = family_of(hf_config, path)
        return ModelFolder(path, {} if manifest is None else manifest.metadata, hf_config, family)

    @cached_property
    def headers(self) -> dict[str, dict[str, TensorInfo]]:
        return weight_headers(self.path)

    @cached_property
    def tokenizer(self) -> Tokenizer | None:
        return tokenizer_of(self.path)


def family_of(raw: Raw, folder: Path) -> Family:
    """Returns the family of a config; ValueError lists the supported ones."""
    kind = family_key(raw)
    known = FAMILIES | OWN
    if kind in TOWERS:
        raise ValueError(f"{folder} has two models, for images and for texts: open it with clearhead.load_image_text")
    if kind not in known:
        raise ValueError(
            f"{folder} has model_type {kind!r}, which is not supported; supported are: "
            f"{', '.join(known)}. `clearhead.look` works on a live transformers model of nearly any type"
        )
    return known[kind]


# Folders with a model for images and one for texts: the section of config.json and the family of each.
TOWERS = {
    name: {"image": ("vision_config", f"{name}_vision_model"), "text": ("text_config", f"{name}_text_model")}
    for name in ("clip", "siglip")
}


def open_towers(source: str | Path, revision: str | None = None) -> tuple[ModelFolder, ModelFolder, Raw]:
    """Open both models of a folder, for images and for texts; also return its config."""
    path = resolve_model(source, revision)
    manifest = verify_if_marked(path)
    raw = read_config(path)
    if not isinstance(raw.get("model_type"), str) or raw["model_type"] not in TOWERS:
        raise ValueError(
            f"{path} has model_type {raw.get('model_type')!r}, which has not two models for images and texts: "
            f"supported are {', '.join(TOWERS)}; other models are opened with clearhead.load"
        )
    found: list[ModelFolder] = []
    for section, name in TOWERS[raw["model_type"]].values():
        own = {**raw.get(section, {}), "projection_dim": raw.get("projection_dim", 512)}
        family = FAMILIES[name]
        own["architectures"] = [sorted(family.heads, key=lambda a: a.endswith("WithProjection"))[-1]]
        found.append(ModelFolder(path, {} if manifest is None else manifest.metadata, own, family))
    return found[0], found[1], raw


# Tokenizer files. A folder with none of the first three has no readable tokenizer.
_TOKENIZER_FILES = ("tokenizer.json", "vocab.txt", "vocab.json")
_TOKENIZER_EXTRAS = ("merges.txt", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json")


def tokenizer_of(folder: Path) -> Tokenizer | None:
    if not any(os.path.lexists(folder / name) for name in _TOKENIZER_FILES):
        return None
    for name in (*_TOKENIZER_FILES, *_TOKENIZER_EXTRAS):
        if os.path.lexists(folder / name):
            safe_join(folder, name)
    return Tokenizer.load(folder)
