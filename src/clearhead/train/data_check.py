"""Check the data of a recipe before training: labels, lengths, duplicates, leaks, and the training time."""

import hashlib
import tempfile
import time
from collections import Counter
from collections.abc import Hashable
from dataclasses import dataclass, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import numpy as np

from clearhead.data import Row, Rows
from clearhead.distributed import Distributed
from clearhead.tasks import TASKS
from clearhead.tasks.labels import COLUMNS, parse_labels
from clearhead.train.findings import MAX_PLACES, DataFinding
from clearhead.train.image_check import check_images
from clearhead.train.loop import make_batches, step
from clearhead.train.optimizer import make_optimizer
from clearhead.train.prefetch import StepParts, read_batches
from clearhead.train.recipe import Recipe
from clearhead.train.run import prepare
from clearhead.train.run_data import read_part, split_parts
from clearhead.train.signals import SignalGuard

TARGET_COLUMNS = (*COLUMNS, "tags", "answers", "answer")  # not inputs of the model
TIMED_STEPS = 20
WARMUP_STEPS = 2  # not timed
RARE = 10  # labels with fewer examples are reported


@dataclass(frozen=True)
class DataPart:
    """Statistics of one part of the data."""

    name: str
    rows: int
    labels: tuple[tuple[str, int], ...]
    tokens: tuple[int, int, int] | None  # per text: median, p95, max
    over: int  # number of texts longer than max_len


@dataclass(frozen=True)
class DataCheck:
    """The result of `clearhead check`."""

    parts: tuple[DataPart, ...]
    findings: tuple[DataFinding, ...]
    max_len: int | None  # None: images, which all have as many tokens
    steps: int
    seconds: float | None  # estimated training time without evaluation; None: not measured


def check_data(recipe: Recipe, base: Path, *, timed: bool = True) -> DataCheck:
    """Read all data of a recipe, and time a few training steps in a temporary folder."""
    train, valid = split_parts(recipe, base)
    parts: dict[str, Rows] = {"train": train, "valid": valid}
    if recipe.data.test is not None:
        parts["test"] = read_part(recipe.data.test, base, recipe.data.rename)
    findings: list[DataFinding] = []
    seen: dict[str, dict[Hashable, tuple[Hashable, str]]] = {}  # by part and input: the target, and the place
    counts: dict[str, tuple[int, Counter[str]]] = {}
    for name, rows in parts.items():
        seen[name], counts[name] = _check_part(name, rows, recipe, findings)
    findings += check_images(parts) if recipe.reads_images else _leaks(seen)
    with tempfile.TemporaryDirectory() as folder:
        run = prepare(recipe, base, Path(folder) / "run")
        statistics: list[DataPart] = []
        for name, columns in (("train", run.train), ("valid", run.valid)):
            lengths = run.task.lengths(columns)
            windows = columns["windows"].lengths() if "windows" in columns else np.ones(len(lengths))
            tokens = int(np.percentile(lengths, 50)), int(np.percentile(lengths, 95)), int(lengths.max())
            statistics.append(_statistics(name, *counts[name], tokens, int((windows > 1).sum())))
        if "test" in parts:
            statistics.append(_statistics("test", *counts["test"], None, 0))
        seconds = _training_seconds(run) if timed else None
    limit = getattr(getattr(run.task, "settings", None), "max_len", recipe.data.max_len)
    limit = None if recipe.reads_images else limit
    return DataCheck(tuple(statistics), tuple(findings), limit, run.settings.last, seconds)


def _statistics(name: str, rows: int, labels: Counter[str], tokens: tuple[int, int, int] | None, over: int) -> DataPart:
    return DataPart(name, rows, tuple(sorted(labels.items(), key=lambda item: -item[1])), tokens, over)


def _check_part(
    name: str, rows: Rows, recipe: Recipe, findings: list[DataFinding]
) -> tuple[dict[Hashable, tuple[Hashable, str]], tuple[int, Counter[str]]]:
    seen: dict[Hashable, tuple[Hashable, str]] = {}
    labels: Counter[str] = Counter()
    duplicates: list[str] = []
    contradictions: list[str] = []
    count = 0
    for row in rows:
        count += 1
        key, target = _input_hash(row), str([row.values.get(name) for name in TARGET_COLUMNS])
        labels.update(_labels(row))
        place = f"{Path(row.file).name} line {row.line:,}"
        if key not in seen:
            seen[key] = target, place
        elif seen[key][0] == target:
            duplicates.append(f"{place} is {seen[key][1]}")
        else:
            contradictions.append(f"{place} and {seen[key][1]}")
    if rows.num_skipped:
        places = tuple(f"{Path(bad.file).name} line {bad.line:,}: {bad.reason}" for bad in rows.skipped[:MAX_PLACES])
        findings.append(DataFinding(f"{name}: unreadable rows, skipped", rows.num_skipped, places))
    for what, pairs in (("duplicate rows", duplicates), ("same text with different labels", contradictions)):
        if pairs and not recipe.reads_images:  # of images, those that look alike are reported
            findings.append(DataFinding(f"{name}: {what}", len(pairs), tuple(pairs[:MAX_PLACES])))
    rare = [label for label, number in labels.items() if number < RARE]
    if name == "train" and rare and recipe.task in ("classify", "pair", "tag"):
        places = tuple(_describe_rare(label, labels) for label in rare[:MAX_PLACES])
        findings.append(DataFinding(f"labels with fewer than {RARE} examples", len(rare), places))
    return seen, (count, labels)


def _describe_rare(label: str, labels: Counter[str]) -> str:
    """Return a rare label, with the common label that it may be a misspelling of."""
    common = [name for name, number in labels.items() if number >= RARE and name != label]
    near = get_close_matches(label.casefold(), common, 1, 0.6)
    return f"{label!r}: did you mean {near[0]!r}? data.rename: {{{label}: {near[0]}}} fixes it" if near else repr(label)


def _leaks(seen: dict[str, dict[Hashable, tuple[Hashable, str]]]) -> list[DataFinding]:
    """Return the rows of one part that are also in another."""
    findings: list[DataFinding] = []
    for one, other in (("valid", "train"), ("test", "train"), ("test", "valid")):
        if one in seen and other in seen:
            both = [key for key in seen[one] if key in seen[other]]
            if both:
                places = tuple(f"{seen[one][key][1]} is {seen[other][key][1]}" for key in both[:MAX_PLACES])
                findings.append(DataFinding(f"rows of {one} that are also in {other}", len(both), places))
    return findings


def _input_hash(row: Row) -> bytes:
    """Return a hash of the inputs of a row; whitespace and case are ignored."""
    parts = (row.values[name] for name in sorted(row.values) if name not in (*TARGET_COLUMNS, "group"))
    words = [" ".join(part).split() if isinstance(part, list) else str(part).split() for part in parts]
    return hashlib.blake2b("\0".join(" ".join(part).casefold() for part in words).encode(), digest_size=16).digest()


def _labels(row: Row) -> list[str]:
    if "labels" in row.values:
        return parse_labels(row.values["labels"])
    if "tags" in row.values:
        return list(row.values["tags"])
    return [row.values["label"]] if "label" in row.values else []


def _training_seconds(run: Any) -> float:
    """Estimate the seconds of all steps from a few, without the slowest ones."""
    settings = run.settings
    job = run.job(Distributed(), shown=False)
    batches = make_batches(job.task, job.columns, settings, run.recipe.seed)
    optimizer = make_optimizer(job.model, replace(settings.optimizer, lr=0.0))
    times: list[float] = []
    with SignalGuard() as stop:
        for number in range(min(TIMED_STEPS + WARMUP_STEPS, settings.last)):
            examples = batches.batch(*batches.place(number))
            parts = StepParts.of(job.task, job.columns, examples, settings)
            inputs = read_batches(job.task, job.columns, parts, number)
            start = time.perf_counter()
            step(job, optimizer, inputs, number, Distributed(), stop)
            times.append(time.perf_counter() - start)
    return float(np.mean(sorted(times[WARMUP_STEPS:] or times)[: max(1, len(times) - 4)])) * settings.last


def supported(task: str) -> bool:
    return TASKS[task].spec.split_by is not None
