"""The record of an audit: what ran on which model, as JSON."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from importlib import metadata
from pathlib import Path
from typing import Any

import torch

from clearhead.audit.estimates import AuditedExample, SuiteResult
from clearhead.audit.head_effects import HeadEffects
from clearhead.files import write_atomic
from clearhead.hub.folder import LoadedModel

FILE = "audit.json"
MAX_EXAMPLES = 50  # of a suite, with the largest effects


def audit_record(
    model: str,
    loaded: LoadedModel,
    results: Sequence[SuiteResult],
    *,
    command: str,
    seconds: float,
    judge: str | None = None,
    left_out: Sequence[str] = (),
    heads: HeadEffects | None = None,
) -> dict[str, Any]:
    """Return the results with the model, command, duration and versions that produced them.

    The texts of examples are kept where they are of the suite. A user's own texts are not in the record.
    """
    own_pairs = any(result.own_texts and result.suite == "crows_pairs" for result in results)
    return {
        "model": model,
        "architecture": loaded.architecture,
        "parameters": sum(p.numel() for p in loaded.model.parameters()),
        "judge": judge,
        "command": command,
        "seconds": round(seconds, 1),
        "threads": torch.get_num_threads(),
        "versions": {"clearhead": metadata.version("clearhead"), "torch": torch.__version__},
        "suites": [_suite(result) for result in results],
        "left_out": list(left_out),
        "heads": None if heads is None else {**asdict(heads), "pairs": _examples(heads.pairs, own_pairs)},
    }


def _suite(result: SuiteResult) -> dict[str, Any]:
    ranked = sorted(result.examples, key=lambda example: -abs(example.effect))[:MAX_EXAMPLES]
    examples = _examples(ranked, result.own_texts)
    return {**asdict(result), "examples": examples, "flagged": [e.name for e in result.flagged]}


def _examples(examples: Sequence[AuditedExample], own_texts: bool) -> list[dict[str, Any]]:
    return [{**asdict(example), "texts": None if own_texts else example.texts} for example in examples]


def write_record(record: dict[str, Any], folder: Path) -> Path:
    path = folder / FILE
    write_atomic(path, json.dumps(record, indent=1, ensure_ascii=False) + "\n")
    return path
