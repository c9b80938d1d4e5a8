"""A first recipe for somebody's own files: sizes that fit the data, and every choice with a word on it."""

from __future__ import annotations

import os
from itertools import islice
from pathlib import Path

from clearhead.data import columns_of
from clearhead.tasks import TASKS, unknown
from clearhead.train.recipe import Part
from clearhead.train.run import rows_of
from clearhead.train.tuned import in_line, tuned

SAMPLE = 2000  # rows that are looked at to guess the number of tokens
PIECES = 1.35  # tokens that a word becomes, about
EPOCHS = 20

TEXT = """\
# {title}
# Train:  clearhead train {name}
# Prove that it resumes to the bit:  clearhead prove {name}
task: {task}
seed: 1

data:
  train: {train}
{valid}  max_len: {max_len}            # {longest}
{model}
train:
  steps: {steps}             # about {epochs} times through {count:,} rows
  batch_tokens: {batch_tokens}      # tokens of a batch, {side}
  label_smoothing: {smoothing}
  dtype: auto             # bfloat16 where the processor has it, else float32
  optimiser: {{kind: adamw, lr: {lr}}}
  schedule: {{kind: linear, warmup: {warmup}, final: 0.05}}   # or noam, cosine, constant
  evaluate_every: {every}
  save_every: {every}
  patience: null          # stop after so many evaluations without a better one
  keep: 5                 # checkpoints, beside the best
  average: 5              # the final model is the mean of the last 5
"""

FRESH = """{more}
tokenizer:
  vocab_size: {vocab_size}       # pieces, learnt from the training text

model:
  {kind}
  size: {size}             # tiny, mini, small or base; any setting can stand here too: width, num_layers, dropout, ...
  dropout: {dropout}            # less with more data
"""
STARTED = """{more}
model:
  start: {start}           # its tokenizer and its sizes; what it knows is where this begins
"""
TITLES = {
    "translate": "A translator", "language_model": "A language model", "converse": "A model that converses",
    "masked": "An encoder that learns from plain text: hidden words",
    "replaced": "An encoder that learns from plain text: which words were replaced?",
}  # fmt: skip
KINDS = {
    "masked": "family: bert            # or roberta, albert",
    "replaced": "family: electra         # and a generator of a quarter of its width",
}
PAIRS = "  pairs: none             # next: does the second stretch follow? order: which of the two is first?\n"
TURNS = ("turns", "messages", "conversation", "conversations", "dialog", "dialogue", "utterances")


def draft(task: str, files: list[Path], out: Path, start: str | None = None) -> str:
    """The text of a recipe for this task on these files, to be written to `out`; `start` is a model to begin with."""
    if task not in TASKS:
        raise ValueError(f"there is no task {task!r}: {unknown(task, TASKS)}")
    if TASKS[task].drawn is not None:
        return tuned(task, files, out, start)
    if start is not None and task not in ("masked", "language_model", "converse"):
        raise ValueError(f"{task} is drafted from nothing: take --start out")
    return _built(task, files, out, start)


def _built(task: str, files: list[Path], out: Path, start: str | None) -> str:
    part = _dialogues(files) if task == "converse" else _part(TASKS[task].forms[0], files)
    words = count = 0
    rows = rows_of(part, Path())
    for row in islice(rows, SAMPLE):
        words += sum(len(str(value).split()) for value in row.values.values())
        count += 1
    if count < 2:
        raise ValueError(f"{', '.join(map(str, files))}: two rows of text are due, one to train on and one to validate")
    per_row = words / count * PIECES + len(part)
    count += sum(1 for _ in islice(rows, SAMPLE, None)) if count == SAMPLE else 0
    size, vocab_size, dropout = _sizes(per_row * count)
    more = PAIRS if task == "masked" else ""
    kind = KINDS.get(task, "kind: transformer       # or gru, lstm, rnn")
    model = FRESH.format(more=more, vocab_size=vocab_size, kind=kind, size=size, dropout=dropout)
    if start is not None:
        model = STARTED.format(more=more, start=start if ":" in start else os.path.relpath(start, out.parent))
    batch_tokens = 4096
    steps = max(100, round(per_row * count * EPOCHS / batch_tokens, -2))
    pairs = task == "translate"
    return TEXT.format(
        title=TITLES[task],
        name=out,
        task=task,
        train=in_line(part, out),
        valid=f"  hold_out: {max(1, min(1000, count // 20))}          # rows kept for validation; or give `valid`\n",
        max_len=128,
        longest="pairs with a longer side are left out, and counted" if pairs else "tokens read at once",
        model=model,
        steps=int(steps),
        epochs=EPOCHS,
        count=count,
        batch_tokens=batch_tokens,
        side="source and target together" if pairs else "in stretches of max_len",
        smoothing=0.1 if pairs else 0.0,
        lr="1.0e-3" if start is None else "1.0e-4",
        warmup=int(min(1000, steps // 5)),
        every=int(max(20, round(steps / EPOCHS))),
    )


def _dialogues(files: list[Path]) -> Part:
    """A file of dialogues, and how its turns are told apart."""
    if len(files) != 1:
        raise ValueError(
            f"{len(files)} files, where one of dialogues is due: .jsonl, or a text with a mark between turns"
        )
    (file,) = files
    if ".jsonl" in file.suffixes:
        names = columns_of(file)
        found = [name for name in TURNS if name in names]
        if not found:
            raise ValueError(f"{file} has the keys {', '.join(names)}: call the list of turns {' or '.join(TURNS[:2])}")
        return {"file": str(file), "turns": found[0]}
    return {"file": str(file), "turns": "__eou__"}


def _sizes(tokens: float) -> tuple[str, int, float]:
    """A preset, a vocabulary and a dropout for so many tokens."""
    if tokens < 200_000:
        return "tiny", 4000, 0.3
    return ("small", 8000, 0.2) if tokens < 20_000_000 else ("base", 32_000, 0.1)


def _part(columns: tuple[str, ...], files: list[Path]) -> Part:
    """Files and columns as a recipe names them: a file a column, or a table with columns of these names."""
    if len(files) == len(columns):
        table = len(files) == 1 and {".tsv", ".csv", ".jsonl", ".parquet"} & set(files[0].suffixes)
        if not table:
            return {column: str(file) for column, file in zip(columns, files, strict=True)}
    if len(files) != 1:
        raise ValueError(f"{len(files)} files, where {' and '.join(columns)} are due: one file each, or one table")
    names = columns_of(files[0])
    chosen = names if len(names) == len(columns) else [c for c in columns if c in names]
    if len(chosen) != len(columns):
        raise ValueError(
            f"{files[0]} has the columns {', '.join(names)}: call those to train on {' and '.join(columns)}, "
            "or write the recipe's data section by hand"
        )
    return {"file": str(files[0]), **dict(zip(columns, chosen, strict=True))}
