"""The model card of a folder: `README.md` with the hub's metadata, made of what the folder knows about itself."""

import json
from collections.abc import Mapping
from typing import Any

from clearhead.hub.resolve import is_hub_name

PIPELINE_TAGS = {
    "classify": "text-classification", "pair": "text-classification", "tag": "token-classification",
    "qa": "question-answering", "translate": "translation", "language_model": "text-generation",
    "dialogue": "text-generation", "masked_lm": "fill-mask", "embed": "sentence-similarity", "rerank": "text-ranking",
    "answer": "question-answering",
}  # fmt: skip


def model_card(info: Mapping[str, Any], model_type: str) -> str:
    """Return the card of a folder: `info` is the metadata of its manifest, `model_type` that of its config."""
    task, recipe = info.get("task"), info.get("recipe") or {}
    base = recipe.get("model", {}).get("base_model")
    fields: dict[str, Any] = {"library_name": "clearhead"}
    if tag := PIPELINE_TAGS.get(str(task)):
        fields["pipeline_tag"] = tag
    fields["tags"] = ["clearhead", model_type] + (["sentence-transformers"] if task in ("embed", "rerank") else [])
    if isinstance(base, str) and is_hub_name(base):
        fields["base_model"] = base
    head = "\n".join(f"{name}: {json.dumps(value, ensure_ascii=False)}" for name, value in fields.items())
    return f"---\n{head}\n---\n\n" + "\n".join(_body(info, task, recipe)) + "\n"


def _body(info: Mapping[str, Any], task: str | None, recipe: Mapping[str, Any]) -> list[str]:
    lines = [f"# {info['architecture']}", ""]
    lines += [f"A model for the task `{task}`, trained with clearhead." if task else "Saved by clearhead.", ""]
    if labels := info.get("labels"):
        shown = ", ".join(f"`{label}`" for label in labels[:50])
        lines += [f"Labels: {shown}{' and more' if len(labels) > 50 else ''}.", ""]
    lines += ["```python", "import clearhead", "", 'model = clearhead.load("FOLDER-OR-NAME")', "```", ""]
    if recipe:
        names = ("seed", "data", "model", "loss", "embedding", "train")
        settings = {name: recipe[name] for name in names if name in recipe}
        lines += [f"Trained for {info.get('step', 0):,} steps by this recipe:", ""]
        lines += ["```json", json.dumps(settings, indent=1, ensure_ascii=False), "```", ""]
    return [*lines, "Intended use, limits and the people in the training data are not described yet."]
