"""Where the training data of a recipe comes from: the files it names, with data set, license and SHA-256."""

from collections.abc import Mapping
from typing import Any

from clearhead.cards.public_names import file_label
from clearhead.cards.public_recipe import PARTS, part_files
from clearhead.data.catalog import DATASETS


def data_sources(recipe: Mapping[str, Any], train_sha256: str | None = None) -> list[dict[str, Any]]:
    """Return the files that a recipe names: part, name, and what the catalog knows about their data set.

    `train_sha256` is the hash of the training table that the model folder records. Other files are named only.
    """
    parts: Mapping[str, Any] = recipe.get("data", {})
    sources: list[dict[str, Any]] = []
    for part in PARTS:
        section: Mapping[str, Any] = parts.get(part) or {}
        for reference in part_files(section):
            hub = reference.startswith("hub:")
            source = {"part": part, **(_hub_source(section) if hub else file_source(reference))}
            if part == "train" and "file" in section and train_sha256 is not None:
                source["sha256"] = train_sha256
            sources.append(source)
    return sources


def file_source(reference: str) -> dict[str, Any]:
    """Return the name of a data file; for a file of the catalog also its data set, license, source and SHA-256."""
    label = file_label(reference)
    name, colon, file = label.partition(":")
    if not colon or name not in DATASETS:
        return {"name": label}
    dataset = DATASETS[name]
    source = {"name": label, "title": dataset.title, "license": dataset.license, "source": dataset.source}
    if dataset.hub_id is not None:
        source["hub_id"] = dataset.hub_id
    whole = {remote.name: remote.sha256 for remote in dataset.files}
    digest = whole.get(file) or whole.get(file.partition("/")[0])  # of the archive, for a file in it
    return source if digest is None else {**source, "sha256": digest}


def _hub_source(section: Mapping[str, Any]) -> dict[str, Any]:
    """Return the name of a data set on the hub and its commit; of a local folder only the last name."""
    label = file_label(str(section["file"])).removeprefix("hub:")
    parts = [label, *(str(section[key]) for key in ("config", "split") if key in section)]
    source = {"name": "/".join(parts)}
    if "revision" not in section:
        return source
    return {**source, "hub_id": label, "source": f"the Hugging Face hub, commit {section['revision']}"}
