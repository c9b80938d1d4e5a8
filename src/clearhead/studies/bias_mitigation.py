"""Does augmentation help? Bias and accuracy of a classifier with counterfactual copies, reweighing, and both.

A classifier of sentiment is trained on two kinds of rows of SST-2. `as they come` are drawn at random: few of them name
a person, and no bias is planted. `skewed` has a planted bias: half of the rows name one gender, most of those about
women are negative, and most of those about men are positive. The audit is that of `clearhead audit`: the same sentences
about a woman and about a man. The test rows are neither copied nor weighted nor skewed.
"""

from __future__ import annotations

import json
import shutil
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from pydantic import TypeAdapter

from clearhead.audit.counterfactual import PERSONS_PER_TEMPLATE, Counterfactual, template_examples
from clearhead.audit.counterfactual import measure as audit
from clearhead.data.reweighing import NO_GROUP, group_of
from clearhead.files import write_atomic
from clearhead.pipeline import load
from clearhead.studies.labels_needed import MINILM, sample_rows
from clearhead.studies.study_results import MeanInterval, mean_interval
from clearhead.studies.training import LabeledRow, OnProgress, finetuned_run, no_progress
from clearhead.viz.style import COLORS, MARKERS, new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NEGATIVE, POSITIVE = "0", "1"
SKEW = 0.9  # of the rows about women that are negative, and of those about men that are positive
TREATMENTS: dict[str, dict[str, Any]] = {
    "as is": {},
    "counterfactual copies": {"augment": "counterfactual"},
    "reweighing": {"balance_groups": "gender"},
    "both": {"augment": "counterfactual", "balance_groups": "gender"},
}


@dataclass(frozen=True)
class TreatedRun:
    """Accuracy of one trained classifier, and its audit with bootstrap intervals."""

    accuracy: float
    shift: float  # of the probability of "positive" in points: women minus men
    shift_interval: tuple[float, float]
    flips: float  # percent of the sentences whose label changes with the gender
    flips_interval: tuple[float, float]
    seconds: float  # of the training


@dataclass(frozen=True)
class Treatment:
    """The classifiers of all seeds that are trained on one kind of rows in one way."""

    rows: str
    training: str
    accuracy: MeanInterval
    cost: MeanInterval  # accuracy as is minus this one, paired by seed
    shift: MeanInterval
    flips: MeanInterval
    runs: tuple[TreatedRun, ...]


@dataclass(frozen=True)
class MitigationResult:
    """Results of the study."""

    data: str
    count: int  # training rows, without copies
    test: int  # rows
    steps: int
    seeds: int
    skew: float
    audited: int  # pairs of sentences
    treatments: tuple[Treatment, ...]
    seconds: float  # of all trainings


def skewed_rows(rows: Sequence[LabeledRow], count: int, seed: int) -> list[LabeledRow]:
    """Return `count` rows, a quarter about women, mostly negative, and a quarter about men, mostly positive."""
    cells: dict[tuple[str, str], list[LabeledRow]] = defaultdict(list)
    for i in np.random.default_rng([seed, count]).permutation(len(rows)):
        (text, *_), label = rows[i]
        group = group_of({"text": text}, "gender")
        cells[group, "" if group == NO_GROUP else label].append(rows[i])
    quarter = count // 4
    common = round(SKEW * quarter)
    wanted = {
        ("female", NEGATIVE): common, ("female", POSITIVE): quarter - common,
        ("male", POSITIVE): common, ("male", NEGATIVE): quarter - common,
        (NO_GROUP, ""): count - 2 * quarter,
    }  # fmt: skip
    for (group, label), number in wanted.items():
        if len(cells[group, label]) < number:
            raise ValueError(
                f"{count:,} skewed rows need {number:,} of {group} {label}".rstrip()
                + f", and the data has {len(cells[group, label]):,}: ask for fewer rows"
            )
    return [row for cell, number in wanted.items() for row in cells[cell][:number]]


def measure(
    folder: Path,
    rows: Sequence[LabeledRow],
    test: Sequence[LabeledRow],
    *,
    data: str,
    base_model: str = MINILM,
    count: int = 1600,
    steps: int = 100,
    seeds: int = 3,
    persons_per_template: int = PERSONS_PER_TEMPLATE,
    on_progress: OnProgress = no_progress,
) -> MitigationResult:
    """Train and audit a classifier on both kinds of rows in every way with every seed; each seed draws its own rows.

    Finished runs are not repeated.
    """
    drawn = {"as they come": sample_rows, "skewed": skewed_rows}
    examples = [
        example for example in template_examples(pairs=False, persons_per_template=persons_per_template, seed=0)
        if (example.first, example.second) == ("male", "female")
    ]  # fmt: skip
    treatments: list[Treatment] = []
    for kind, draw_rows in drawn.items():
        parts = [draw_rows(rows, count, seed) for seed in range(1, seeds + 1)]
        first: list[TreatedRun] = []
        for training, settings in TREATMENTS.items():
            runs: list[TreatedRun] = []
            for seed, part in enumerate(parts, 1):
                place = folder / f"{kind}-{training}".replace(" ", "-") / str(seed)
                name = f"{kind}, {training}, seed {seed}"
                options: dict[str, Any] = {"steps": steps, "seed": seed, "data": settings, "on_progress": on_progress}
                runs.append(_trained_and_audited(name, base_model, part, test, place, examples, options))
            first = first or runs
            treatments.append(_summary(kind, training, runs, first))
    seconds = round(sum(run.seconds for t in treatments for run in t.runs), 1)
    sizes = count, len(test), steps, seeds, SKEW, len(examples)
    return MitigationResult(data, *sizes, tuple(treatments), seconds)


def _trained_and_audited(
    name: str,
    base_model: str,
    rows: Sequence[LabeledRow],
    test: Sequence[LabeledRow],
    folder: Path,
    examples: Sequence[Counterfactual],
    options: Mapping[str, Any],
) -> TreatedRun:
    """Train and audit one classifier; what was measured is stored in `folder`, and the model is deleted."""
    file = folder / "measured.json"
    if not file.exists():
        progress = finetuned_run(name, base_model, rows, test, folder, **options)
        assert progress.best is not None
        pipeline = load(folder / "run" / "model")
        shift, flips = audit(examples, lambda texts: pipeline.classify(list(map(str, texts))), seed=0).estimates
        run = TreatedRun(
            round(progress.best, 2), round(shift.value, 3), (round(shift.low, 3), round(shift.high, 3)),
            round(flips.value, 3), (round(flips.low, 3), round(flips.high, 3)), round(progress.seconds, 1),
        )  # fmt: skip
        write_atomic(file, json.dumps(asdict(run)) + "\n")
        shutil.rmtree(folder / "run")
    options["on_progress"](name, options["steps"], options["steps"])
    return TypeAdapter(TreatedRun).validate_json(file.read_bytes())


def _summary(kind: str, training: str, runs: Sequence[TreatedRun], first: Sequence[TreatedRun]) -> Treatment:
    accuracy = mean_interval([run.accuracy for run in runs])
    cost = mean_interval([plain.accuracy - run.accuracy for plain, run in zip(first, runs, strict=True)])
    shift, flips = mean_interval([run.shift for run in runs]), mean_interval([run.flips for run in runs])
    return Treatment(kind, training, accuracy, cost, shift, flips, tuple(runs))


def made_up_rows(count: int = 120) -> list[LabeledRow]:
    """Return sentences for a test run: about a man, about a woman and about neither, of both labels."""
    people = ["he", "she", "it", "this"]
    return [
        ((f"{people[i // 2 % 4]} is {('bad', 'good')[i % 2]} , number {i}",), (NEGATIVE, POSITIVE)[i % 2])
        for i in range(count)
    ]


def draw(measured: MitigationResult) -> Figure:
    """Plot shift, flips and accuracy of each treatment, with the intervals over seeds."""
    names = list(dict.fromkeys(t.training for t in measured.treatments))
    kinds = list(dict.fromkeys(t.rows for t in measured.treatments))
    title = f"Bias of a classifier and its accuracy: {measured.data}"
    labels = {
        "shift": "shift of P(positive), points: women minus men",
        "flips": "labels that change with the gender, %",
        "accuracy": f"accuracy on {measured.test:,} test rows, %",
    }
    with new_figure(11.5, 0.55 * len(names) + 1.9, title) as figure:
        for axes, (name, label) in zip(figure.subplots(1, 3, sharey=True), labels.items(), strict=True):
            for number, kind in enumerate(kinds):
                values: list[MeanInterval] = [getattr(t, name) for t in measured.treatments if t.rows == kind]
                y = np.arange(len(names)) + 0.22 * (number - (len(kinds) - 1) / 2)
                axes.errorbar(
                    [value.mean for value in values], y, xerr=[value.half for value in values], fmt=MARKERS[number],
                    color=COLORS[number], capsize=3, markersize=6, label=f"rows {kind}",
                )  # fmt: skip
            axes.grid(axis="x")
            axes.set_axisbelow(True)
            axes.set_xlabel(label)
            if name == "shift":
                axes.axvline(0.0, color="#8a97a5", linewidth=0.8, linestyle=":")
                axes.set_yticks(range(len(names)), names)
                axes.invert_yaxis()
                axes.legend(frameon=False, fontsize=8)
    return figure
