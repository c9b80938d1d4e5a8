"""Measured facts of a model card: scores and time of the run, and the audit beside the model, without texts."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any, cast

from clearhead.cards.public_names import file_label, without_paths
from clearhead.cards.public_recipe import part_files
from clearhead.files.safe import parse_json

RESULTS = "results.json"  # beside the model folder of a run
AUDIT = "audit.json"
MAX_RECORD_BYTES = 64 << 20
SPEED_MEMORY = 0.95  # weight of the earlier steps in the running mean of the logged speed
NOT_SCORES = ("seconds", "steps", "parameters", "curve", "threads", "versions", "recipe")  # of results.json

_SCORE = re.compile(r"[a-z][a-z0-9_@.]*")


def run_facts(folder: Path, metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Return scores and training time of the run that a model folder lies in; empty where it lies in no such run."""
    record = _read(folder.parent / RESULTS)
    if record is None or not metadata.get("recipe") or record.get("recipe") != metadata["recipe"]:
        return {}
    training = {name: record[name] for name in ("seconds", "steps", "threads", "versions") if name in record}
    if (tokens := tokens_read(folder.parent / "log.jsonl")) is not None:
        training["tokens"] = tokens
    facts: dict[str, Any] = {"training": training}
    scores = scores_of(record)
    test = metadata["recipe"].get("data", {}).get("test")
    if scores and isinstance(test, Mapping):
        names = [file_label(name) for name in part_files(cast(Mapping[str, Any], test))]
        facts["tests"] = [{"name": " and ".join(names), "scores": scores}]
    return without_paths(facts)


def merge_tests(*sources: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return one entry for each test set; of the same name, later sources replace scores of earlier ones.

    Scores of a run, which have no interval, do not replace those of an evaluation, which have.
    """
    merged: dict[str, dict[str, Any]] = {}
    for test in (test for source in sources for test in source):
        old = merged.get(test["name"], {})
        if "intervals" in old and "intervals" not in test:
            continue
        merged[test["name"]] = {**old, **test, "scores": {**old.get("scores", {}), **test["scores"]}}
    return list(merged.values())


def scores_of(record: Mapping[str, Any]) -> dict[str, float]:
    """Return the numbers of a record that are metrics."""
    return {
        name: float(value)
        for name, value in record.items()
        if name not in NOT_SCORES and _SCORE.fullmatch(name) and _is_number(value)
    }


def tokens_read(log: Path) -> int | None:
    """Return an estimate of the tokens that training read, from the logged speed; None where there is no log.

    The logged speed is a running mean, from which the speed of each step follows. Where an evaluation or an
    interruption lies between two steps, the median time of a step counts.
    """
    if not log.is_file() or log.stat().st_size > MAX_RECORD_BYTES:
        return None
    steps: list[tuple[float, float | None]] = []  # tokens per second, and seconds
    before: float | None = 0.0
    mean: float | None = None
    for line in log.read_text(encoding="utf-8").splitlines():
        try:
            record: Any = json.loads(line)
            logged, seconds = float(record["tokens_per_second"]), float(record["seconds"])
        except (ValueError, KeyError, TypeError):  # an evaluation, which has no speed
            before = None
            continue
        speed = logged if mean is None else (logged - SPEED_MEMORY * mean) / (1 - SPEED_MEMORY)
        steps.append((speed if speed > 0 else logged, None if before is None else seconds - before))
        before, mean = seconds, logged
    known = [seconds for _, seconds in steps if seconds is not None and seconds > 0]
    if not known:
        return None
    usual = median(known)
    return round(sum(speed * (s if s is not None and 0 < s <= 10 * usual else usual) for speed, s in steps))


def audit_facts(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a card shows of an audit: its suites with their estimates, without any example."""
    suites: list[dict[str, Any]] = []
    for suite in record.get("suites", []):
        try:
            estimates = [_estimate(e) for e in suite["estimates"]]
            about = {name: suite[name] for name in ("suite", "title", "method", "unit", "version", "sha256", "seed")}
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(
                f"the audit record has a suite that is not complete ({error!r}): run the audit again"
            ) from None
        suites.append({**about, "notes": [str(note) for note in suite.get("notes", [])], "estimates": estimates})
    if not suites:
        raise ValueError("the audit record has no suites: run the audit again")
    return without_paths({"suites": suites})


def _estimate(values: Mapping[str, Any]) -> dict[str, Any]:
    numbers = {name: values[name] for name in ("value", "low", "high")}
    if not all(_is_number(number) for number in numbers.values()):
        raise ValueError(f"estimate {values['name']!r} has no interval")
    optional = {name: values.get(name) for name in ("ideal", "p_value")}
    return {"name": str(values["name"]), **numbers, **optional, "count": int(values["count"])}


def find_audit(folder: Path, source: str, given: Path | None = None) -> dict[str, Any] | None:
    """Return the facts of the audit beside a model folder, or of a given file; None where there is none.

    A record of another model is skipped beside the folder, and refused where it is given.
    """
    record = _read(folder.parent / AUDIT if given is None else given)
    if record is None:
        if given is not None:
            raise ValueError(f"there is no file {given}: check the path, or run the audit")
        return None
    model = str(record.get("model", ""))
    if not _is_of(model, folder, source):
        if given is not None:
            raise ValueError(f"{given} is the audit of {model!r:.200}, not of {source}: audit this model")
        return None
    return audit_facts(record)


def _is_of(model: str, folder: Path, source: str) -> bool:
    if not model:
        return False
    parts = [part for part in Path(model).parts if part != "."]
    here = folder.resolve()
    return model == source or Path(model).resolve() == here or list(here.parts[-len(parts) :]) == parts != []


def _read(path: Path) -> dict[str, Any] | None:
    if not path.is_file():
        return None
    if path.stat().st_size > MAX_RECORD_BYTES:
        raise ValueError(
            f"{path} has {path.stat().st_size:,} bytes, over {MAX_RECORD_BYTES:,}: it is no record of ours"
        )
    return parse_json(path.read_bytes(), str(path), max_values=MAX_RECORD_BYTES // 4)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
