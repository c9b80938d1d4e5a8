"""Shards: weights into safetensors files, one or several with an index."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from safetensors.torch import save_file
from torch import Tensor

SHARD = 4_000_000_000  # bytes in a file


def write_weights(
    tensors: Mapping[str, Tensor], folder: Path, max_shard: int | str = SHARD, notes: Mapping[str, str] | None = None
) -> None:
    """Write `model.safetensors`, or shards and their index; a note that names a tensor goes to that tensor's file."""
    from huggingface_hub import split_torch_state_dict_into_shards

    plan = split_torch_state_dict_into_shards(dict(tensors), max_shard_size=max_shard)
    for file, names in plan.filename_to_tensors.items():
        shard = {n: tensors[n] for n in names}
        told = {note: name for note, name in (notes or {}).items() if name in shard}
        save_file(shard, folder / file, metadata=told | {"format": "pt"})
    if plan.is_sharded:
        index = {"metadata": plan.metadata, "weight_map": plan.tensor_to_filename}
        (folder / "model.safetensors.index.json").write_text(json.dumps(index, indent=2) + "\n", encoding="utf-8")
