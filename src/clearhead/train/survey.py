"""Survey: what is in the data of a recipe before it is trained on, and how long that will take."""

from __future__ import annotations

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
from clearhead.tasks import TASKS
from clearhead.tasks.labels import COLUMNS, names_of
from clearhead.train.batches import batches_of
from clearhead.train.loop import step
from clearhead.train.optimise import make_optimiser
from clearhead.train.ranks import Ranks
from clearhead.train.recipe import Recipe
from clearhead.train.run import parts_of, prepare, rows_of
from clearhead.train.stop import Stop

SHOWN = 5  # places of a finding that are named
ANSWERS = (*COLUMNS, "tags", "answers", "answer")  # columns that are not read but to be told
STEPS = 20  # measured, after two that are not


@dataclass(frozen=True)
class Finding:
    """Something to know of the data: how many rows it concerns, and where the first of them stand. No row's text."""

    what: str
    count: int
    places: tuple[str, ...] = ()


@dataclass(frozen=True)
class Part:
    """One part of the data."""

    name: str
    rows: int
    labels: tuple[tuple[str, int], ...]
    tokens: tuple[int, int, int] | None  # of a text: half have fewer, 95 of 100 have fewer, the longest
    over: int  # texts longer than a window


@dataclass(frozen=True)
class Survey:
    """What `clearhead check` tells."""

    parts: tuple[Part, ...]
    findings: tuple[Finding, ...]
    max_len: int
    steps: int
    seconds: float | None  # that training will take, without evaluation; None: not measured


def survey(recipe: Recipe, base: Path, *, timed: bool = True) -> Survey:
    """Read all of a recipe's data, and train a few steps of it in a folder that is thrown away."""
    train, valid = parts_of(recipe, base)
    parts: dict[str, Rows] = {"train": train, "valid": valid}
    if recipe.data.test is not None:
        parts["test"] = rows_of(recipe.data.test, base, recipe.data.rename)
    findings: list[Finding] = []
    told: dict[str, dict[Hashable, tuple[Hashable, str]]] = {}  # what is read to what it is called, and where
    counts: dict[str, tuple[int, Counter[str]]] = {}
    for name, rows in parts.items():
        told[name], counts[name] = _read(name, rows, recipe, findings)
    findings += _leaks(told)
    with tempfile.TemporaryDirectory() as folder:
        run = prepare(recipe, base, Path(folder) / "run")
        made: list[Part] = []
        for name, columns in (("train", run.train), ("valid", run.valid)):
            lengths = run.task.lengths(columns)
            windows = columns["windows"].lengths() if "windows" in columns else np.ones(len(lengths))
            tokens = tuple(int(x) for x in (*np.percentile(lengths, [50, 95]), lengths.max()))
            made.append(_part(name, *counts[name], tokens, int((windows > 1).sum())))  # type: ignore[arg-type]
        if "test" in parts:
            made.append(_part("test", *counts["test"], None, 0))
        seconds = _timed(run) if timed else None
    limit = getattr(getattr(run.task, "settings", None), "max_len", recipe.data.max_len)
    return Survey(tuple(made), tuple(findings), limit, run.settings.last, seconds)


def _part(name: str, rows: int, labels: Counter[str], tokens: tuple[int, int, int] | None, over: int) -> Part:
    return Part(name, rows, tuple(sorted(labels.items(), key=lambda item: -item[1])), tokens, over)


def _read(
    name: str, rows: Rows, recipe: Recipe, findings: list[Finding]
) -> tuple[dict[Hashable, tuple[Hashable, str]], tuple[int, Counter[str]]]:
    """Count the labels of a part; note what was left out, what comes twice and what contradicts itself."""
    seen: dict[Hashable, tuple[Hashable, str]] = {}
    labels: Counter[str] = Counter()
    twice: list[str] = []
    against: list[str] = []
    count = 0
    for row in rows:
        count += 1
        given, called = _key(row), _called(row)
        labels.update(_names(row))
        place = f"{Path(row.file).name} line {row.line:,}"
        if given not in seen:
            seen[given] = called, place
        elif seen[given][0] == called:
            twice.append(f"{place} is {seen[given][1]}")
        else:
            against.append(f"{place} and {seen[given][1]}")
    if rows.num_bad:
        places = tuple(f"{Path(bad.file).name} line {bad.line:,}: {bad.reason}" for bad in rows.bad[:SHOWN])
        findings.append(Finding(f"{name}: rows that cannot be read and are left out", rows.num_bad, places))
    for what, found in (("the same row twice", twice), ("the same text with another label", against)):
        if found:
            findings.append(Finding(f"{name}: {what}", len(found), tuple(found[:SHOWN])))
    rare = [label for label, number in labels.items() if number < 10]
    if name == "train" and rare and recipe.task in ("classify", "pair", "tag"):
        told = tuple(_rare(label, labels) for label in rare[:SHOWN])
        findings.append(Finding("labels with fewer than 10 examples", len(rare), told))
    return seen, (count, labels)


def _rare(label: str, labels: Counter[str]) -> str:
    """A rare label, and the common one that it may be meant for."""
    common = [name for name, number in labels.items() if number >= 10 and name != label]
    near = get_close_matches(label.casefold(), common, 1, 0.6)
    return f"{label!r}: a slip of {near[0]!r}? data.rename: {{{label}: {near[0]}}} mends it" if near else repr(label)


def _leaks(told: dict[str, dict[Hashable, tuple[Hashable, str]]]) -> list[Finding]:
    """Rows of one part that stand in another too."""
    found: list[Finding] = []
    for one, other in (("valid", "train"), ("test", "train"), ("test", "valid")):
        if one in told and other in told:
            both = [key for key in told[one] if key in told[other]]
            if both:
                places = tuple(f"{told[one][key][1]} is {told[other][key][1]}" for key in both[:SHOWN])
                found.append(Finding(f"rows of {one} that are in {other} too", len(both), places))
    return found


def _key(row: Row) -> bytes:
    """What a model reads of a row, in brief: space and case do not make a row another."""
    parts = (row.values[name] for name in sorted(row.values) if name not in (*ANSWERS, "group"))
    words = [" ".join(part).split() if isinstance(part, list) else str(part).split() for part in parts]
    return hashlib.blake2b("\0".join(" ".join(part).casefold() for part in words).encode(), digest_size=16).digest()


def _called(row: Row) -> Hashable:
    return str([row.values.get(name) for name in ANSWERS])


def _names(row: Row) -> list[str]:
    if "labels" in row.values:
        return names_of(row.values["labels"])
    if "tags" in row.values:
        return list(row.values["tags"])
    return [row.values["label"]] if "label" in row.values else []


def _timed(run: Any) -> float:
    """Seconds of all steps, by the median of a few."""
    settings = run.settings
    job = run.job(Ranks(), shown=False)
    batches = batches_of(job.task, job.columns, settings, run.recipe.seed)
    optimiser = make_optimiser(job.model, replace(settings.optimiser, lr=0.0))
    times: list[float] = []
    with Stop() as stop:
        for number in range(min(STEPS + 2, settings.last)):
            begin = time.perf_counter()
            step(job, optimiser, batches.batch(*batches.place(number)), number, Ranks(), stop)
            times.append(time.perf_counter() - begin)
    return float(np.mean(sorted(times[2:] or times)[: max(1, len(times) - 4)])) * settings.last


def supported(task: str) -> bool:
    """Can this task's data be surveyed?"""
    return TASKS[task].drawn is not None
