"""The record of an audit: what ran on which model, as JSON."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from importlib import metadata
from pathlib import Path
from typing import Any

import torch

from clearhead.audit.estimates import SuiteResult
from clearhead.audit.head_effects import HeadEffects
from clearhead.files import write_atomic
from clearhead.hub.folder import LoadedModel

FILE = "audit.json"


def audit_record(
    model: str,
    loaded: LoadedModel,
    results: Sequence[SuiteResult],
    *,
    command: str,
    seconds: float,
    heads: HeadEffects | None = None,
) -> dict[str, Any]:
    """Return the results with the model, command, duration and versions that produced them."""
    suites = [asdict(result) | {"flagged": [e.name for e in result.flagged]} for result in results]
    return {
        "model": model,
        "architecture": loaded.architecture,
        "parameters": sum(p.numel() for p in loaded.model.parameters()),
        "command": command,
        "seconds": round(seconds, 1),
        "threads": torch.get_num_threads(),
        "versions": {"clearhead": metadata.version("clearhead"), "torch": torch.__version__},
        "suites": suites,
        "heads": None if heads is None else asdict(heads),
    }


def write_record(record: dict[str, Any], folder: Path) -> Path:
    path = folder / FILE
    write_atomic(path, json.dumps(record, indent=1, ensure_ascii=False) + "\n")
    return path
