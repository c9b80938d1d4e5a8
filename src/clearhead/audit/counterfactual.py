"""Counterfactual audit of classifiers: does the answer to a text change with the group of the person in it?

Each text is classified with a person of one group and with one of another (Kiritchenko and Mohammad 2018; Garg et al.
2019). The texts are templates with a slot for the person, or a user's own, in which terms of groups are exchanged.
"""

import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from clearhead.audit.crossed_bootstrap import crossed_mean
from clearhead.audit.estimates import AuditedExample, Estimate, SuiteResult, corrected
from clearhead.audit.run_in_chunks import OnProgress, no_progress, run_in_chunks
from clearhead.data.group_terms import SwappedText, categories, compared_groups, data_hash, fill, swap
from clearhead.metrics.bootstrap import Numbers
from clearhead.pipeline import Pipeline
from clearhead.tasks.classify import Classification, TextInput
from clearhead.tasks.registry import answer_task_name

VERSION = "1"
FILE = Path(__file__).with_name("counterfactual.toml")
PERSONS_PER_TEMPLATE = 6  # of each group; each person is in several templates
MAX_TEXTS = 2000  # of a user's own, drawn with the seed
MAX_EXAMPLES = 50
CHUNK = 256  # texts between two reports of progress
NUMBER = "number"  # the label of a regression

Classifier = Callable[[Sequence[TextInput]], Sequence[Classification]]


@dataclass(frozen=True, kw_only=True)
class Counterfactual:
    """A text about two groups: once with a person of the first, once with one of the second."""

    first: str
    second: str
    texts: tuple[TextInput, TextInput]
    directed: bool = True  # False: the text names both groups, so only a change of the label counts
    template: int
    person: int | None = None

    @property
    def name(self) -> str:
        return f"{self.second} against {self.first}"


def audit_classifier(
    pipeline: Pipeline,
    texts: Iterable[TextInput] | None = None,
    *,
    seed: int = 0,
    persons_per_template: int = PERSONS_PER_TEMPLATE,
    max_texts: int = MAX_TEXTS,
    on_progress: OnProgress = no_progress,
) -> SuiteResult:
    """Measure how the labels and scores of a classifier change with the group that a text names.

    `texts` are a user's own, or pairs of texts for a classifier of pairs; without them, templates are filled with
    persons of each group, `persons_per_template` of each.
    """
    notes: list[str] = []
    if texts is None:
        pairs = answer_task_name(pipeline.loaded) == "pair"
        examples = template_examples(pairs=pairs, persons_per_template=persons_per_template, seed=seed)
    else:
        chosen = _sample(list(texts), max_texts, seed)
        examples, notes = swapped_examples(chosen)

    def classify(inputs: Sequence[TextInput]) -> list[Classification]:
        return run_in_chunks(lambda some: _classify(pipeline, some), inputs, CHUNK, on_progress)

    result = measure(examples, classify, seed=seed)
    return replace(result, notes=(*notes, *result.notes))


def _classify(pipeline: Pipeline, inputs: Sequence[TextInput]) -> list[Classification]:
    singles = [text for text in inputs if isinstance(text, str)]
    if len(singles) == len(inputs):
        return pipeline.classify(singles)
    pairs = [text for text in inputs if not isinstance(text, str)]
    if singles:
        raise ValueError(f"{len(singles)} single texts among {len(pairs)} pairs: give texts or pairs, not both")
    return pipeline.classify([text for text, _ in pairs], [second for _, second in pairs])


def _sample(texts: list[TextInput], count: int, seed: int) -> list[TextInput]:
    if len(texts) <= count:
        return texts
    return [texts[i] for i in np.sort(np.random.default_rng(seed).permutation(len(texts))[:count])]


@cache
def _templates() -> Mapping[str, Any]:
    return tomllib.loads(FILE.read_text(encoding="utf-8"))


def template_examples(*, pairs: bool, persons_per_template: int, seed: int) -> list[Counterfactual]:
    """Return the templates filled with persons of each two groups that are compared; the seed draws the persons."""
    content = _templates()
    templates = [tuple(pair) for pair in content["pairs"]] if pairs else [
        (text,) for key in ("positive", "negative", "neutral") for text in content[key]
    ]  # fmt: skip
    draw = np.random.default_rng(seed)
    examples: list[Counterfactual] = []
    for category in categories().values():
        chosen = balanced_choice(len(category.people), len(templates), persons_per_template, draw)
        for first, second in ((category.groups[0], other) for other in category.groups[1:]):
            persons = list(zip(category.persons(first), category.persons(second), strict=True))
            for number, (template, rows) in enumerate(zip(templates, chosen, strict=True)):
                for row in rows:
                    texts = tuple(_filled(template, person) for person in persons[row])
                    example = Counterfactual(
                        first=first, second=second, texts=(texts[0], texts[1]), template=number, person=row
                    )
                    examples.append(example)
    return examples


def _filled(template: tuple[str, ...], person: str) -> TextInput:
    parts = [fill(text, person=person) for text in template]
    return parts[0] if len(parts) == 1 else (parts[0], parts[1])


def balanced_choice(count: int, rows: int, size: int, draw: np.random.Generator) -> list[list[int]]:
    """Return `size` different numbers below `count` for each row, all about equally often."""
    size = min(size, count)
    order = np.concatenate([draw.permutation(count) for _ in range(-(-rows * size // count) + rows)])
    chosen: list[list[int]] = []
    position = 0
    for _ in range(rows):
        row: list[int] = []
        while len(row) < size:
            if int(order[position]) not in row:
                row.append(int(order[position]))
            position += 1
        chosen.append(row)
    return chosen


def swapped_examples(texts: Sequence[TextInput]) -> tuple[list[Counterfactual], list[str]]:
    """Return each text with the terms of two groups exchanged, for all groups that it names, and notes on the rest."""
    examples: list[Counterfactual] = []
    unresolved = set[int]()
    used = set[int]()
    for first, second in compared_groups():
        for number, text in enumerate(texts):
            parts = [swap(part, first, second) for part in ([text] if isinstance(text, str) else text)]
            if any(part.unresolved for part in parts):
                unresolved.add(number)
            elif any(part.count for part in parts):
                used.add(number)
                examples.append(_swapped(first, second, text, parts, number))
    if not examples:
        raise ValueError(
            f"none of the {len(texts)} texts names a group in a way that can be exchanged: give texts about persons, "
            "or none to use the templates"
        )
    notes = [f"{len(used):,} of {len(texts):,} texts name a group whose terms were exchanged"]
    if unresolved:
        notes.append(f"{len(unresolved):,} texts were skipped for a group, as grammar does not decide a counterpart")
    return examples, notes


def _swapped(first: str, second: str, text: TextInput, parts: Sequence[SwappedText], number: int) -> Counterfactual:
    new: TextInput = parts[0].text if len(parts) == 1 else (parts[0].text, parts[1].text)
    directions = {part.direction for part in parts if part.count}
    texts = (new, text) if directions == {-1} else (text, new)
    directed = len(directions) == 1 and 0 not in directions
    return Counterfactual(first=first, second=second, texts=texts, directed=directed, template=number)


def measure(examples: Sequence[Counterfactual], classify: Classifier, *, seed: int) -> SuiteResult:
    """Classify the texts of all examples, each text once, and estimate the shifts and flips of each two groups."""
    inputs = list(dict.fromkeys(text for example in examples for text in example.texts))
    results = dict(zip(inputs, classify(inputs), strict=True))
    answers = [(results[a], results[b]) for a, b in (example.texts for example in examples)]
    is_number = isinstance(answers[0][0].answer, float)
    labels = (NUMBER,) if is_number else _labels(answers[0][0])
    scale = 1.0 if is_number else 100.0
    shifts = scale * np.array([[_score(b, label) - _score(a, label) for label in labels] for a, b in answers])
    flips = 100.0 * np.array([a.answer != b.answer for a, b in answers])
    estimates: list[Estimate] = []
    for name in dict.fromkeys(example.name for example in examples):
        rows = np.array([i for i, example in enumerate(examples) if example.name == name])
        estimates += _shift_estimates(name, labels, shifts, [i for i in rows if examples[i].directed], examples, seed)
        if not is_number:
            estimates.append(crossed_mean(f"{name}: flips", flips[rows], *_parts(examples, rows), seed=seed))
    what = "number" if is_number else "probability of a label in percentage points"
    return SuiteResult(
        suite="counterfactual", title="Classifier: answers to texts that differ in the group they name",
        method=f"Mean difference of the {what} between the same texts about two groups: above 0, it is higher for the "
        "group before 'against'; flips are the share of texts whose label changes.",
        unit="" if is_number else "points", estimates=corrected(estimates),
        examples=_largest(examples, labels, shifts), notes=(f"{len(inputs):,} texts were classified",),
        version=VERSION, sha256=data_hash(FILE), seed=seed,
    )  # fmt: skip


def _labels(answer: Classification) -> tuple[str, ...]:
    """Return the labels whose scores are compared: of two that exclude each other, the second says all."""
    labels = tuple(answer.scores)
    return labels[1:] if len(labels) == 2 and isinstance(answer.answer, str) else labels


def _score(answer: Classification, label: str) -> float:
    return answer.answer if isinstance(answer.answer, float) else answer.scores[label]


def _shift_estimates(
    name: str,
    labels: Sequence[str],
    shifts: Numbers,
    rows: Sequence[int],
    examples: Sequence[Counterfactual],
    seed: int,
) -> list[Estimate]:
    if not rows:
        return []
    parts = _parts(examples, rows)
    return [
        crossed_mean(f"{name}: {label}", shifts[rows, column], *parts, ideal=0.0, seed=seed)
        for column, label in enumerate(labels)
    ]


def _parts(examples: Sequence[Counterfactual], rows: Iterable[int]) -> tuple[Numbers, Numbers | None]:
    """Return the template and the person of each example; a user's own texts have a template each, and no person."""
    templates = np.array([examples[i].template for i in rows])
    persons = np.array([examples[i].person for i in rows if examples[i].person is not None])
    return templates, persons if len(persons) else None


def _largest(examples: Sequence[Counterfactual], labels: Sequence[str], shifts: Numbers) -> tuple[AuditedExample, ...]:
    """Return the examples with the largest shift of any label, the largest first."""
    column = np.abs(shifts).argmax(1)
    effects = shifts[np.arange(len(shifts)), column]
    order = [int(i) for i in np.argsort(-np.abs(effects), kind="stable") if examples[i].directed]
    return tuple(
        AuditedExample(
            texts=tuple(text if isinstance(text, str) else " / ".join(text) for text in examples[i].texts),
            effect=float(effects[i]),
            group=f"{examples[i].name}: {labels[column[i]]}",
        )
        for i in order[:MAX_EXAMPLES]
    )
