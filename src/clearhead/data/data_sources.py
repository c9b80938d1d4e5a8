"""Where the training data of a recipe comes from: the files it names, with data set, license and SHA-256."""

from collections.abc import Mapping
from typing import Any

from clearhead.cards.public_names import file_label
from clearhead.cards.public_recipe import PARTS, part_files
from clearhead.data.catalog import DATASETS

# Names of the same corpora on the hub. Files may differ from ours in format and rows, as `about` in the catalog says.
HUB_IDS = {
    "multi30k": "bentrevett/multi30k", "squad": "rajpurkar/squad", "glue": "nyu-mll/glue", "xquad": "google/xquad",
    "wikitext2": "Salesforce/wikitext", "crows_pairs": "nyu-mll/crows_pairs", "cifar10_jpg": "uoft-cs/cifar10",
}  # fmt: skip


def data_sources(recipe: Mapping[str, Any], train_sha256: str | None = None) -> list[dict[str, Any]]:
    """Return the files that a recipe names: part, name, and what the catalog knows about their data set.

    `train_sha256` is the hash of the training table that the model folder records. Other files are named only.
    """
    parts: Mapping[str, Any] = recipe.get("data", {})
    sources: list[dict[str, Any]] = []
    for part in PARTS:
        section: Mapping[str, Any] = parts.get(part) or {}
        for reference in part_files(section):
            source = {"part": part, **file_source(reference)}
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
    if name in HUB_IDS:
        source["hub_id"] = HUB_IDS[name]
    whole = {remote.name: remote.sha256 for remote in dataset.files}
    digest = whole.get(file) or whole.get(file.partition("/")[0])  # of the archive, for a file in it
    return source if digest is None else {**source, "sha256": digest}
