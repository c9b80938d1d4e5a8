"""Records: what a study measured, with how it was made, as JSON."""

from __future__ import annotations

import json
from dataclasses import asdict
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from clearhead.files import write_atomic

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


def record(measured: DataclassInstance, *, command: str, seed: int, seconds: float) -> dict[str, Any]:
    """What was measured, the command that did it, the time it took, and on what."""
    return {
        "command": command,
        "seed": seed,
        "seconds": round(seconds, 1),
        "threads": torch.get_num_threads(),
        "versions": {"clearhead": metadata.version("clearhead"), "torch": torch.__version__},
        "measured": asdict(measured),
    }


def write_record(facts: dict[str, Any], path: Path) -> None:
    """The record as a file."""
    write_atomic(path, json.dumps(facts, indent=1, ensure_ascii=False) + "\n")
