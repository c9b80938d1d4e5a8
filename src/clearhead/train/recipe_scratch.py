"""A first recipe for your own files: sizes that fit the data, and a comment on every choice."""

import os
from itertools import islice
from pathlib import Path

from clearhead.data import columns_of
from clearhead.tasks import TASKS, did_you_mean
from clearhead.train.recipe import Part
from clearhead.train.recipe_captions import caption_recipe
from clearhead.train.recipe_finetune import SAMPLE_ROWS, TOKENS_PER_WORD, finetune_recipe, in_line
from clearhead.train.recipe_images import has_images, image_recipe
from clearhead.train.run_data import read_part

EPOCHS = 20
BATCH_TOKENS = 4096

TEXT = """\
# {title}
# Train:  clearhead train {name}
# Resumes from the last checkpoint, bit for bit; verify it:  clearhead prove {name}
task: {task}
seed: 1

data:
  train: {train}
  validation_rows: {validation_rows}          # rows held out for validation; or give `valid`
  max_len: {max_len}            # {max_len_note}
{model}
train:
  steps: {steps}             # about {epochs} epochs of {count:,} rows
  batch_tokens: {batch_tokens}      # tokens per batch, {batch_note}
  label_smoothing: {smoothing}
  dtype: auto             # bfloat16 if the processor supports it, else float32
  optimizer: {{kind: adamw, lr: {lr}}}
  schedule: {{kind: linear, warmup: {warmup}, final: 0.05}}   # or noam, cosine, constant
  evaluate_every: {every}
  save_every: {every}
  patience: null          # stop after this number of evaluations without improvement
  keep: 5                 # number of checkpoints, besides the best one
  average: 5              # the final model is the mean of the last 5 checkpoints
"""

FROM_SCRATCH = """{pairs}
tokenizer:
  vocab_size: {vocab_size}       # tokens, trained on the training text

model:
  {kind}
  size: {size}             # tiny, mini, small or base; or set width, num_layers, num_heads, ...
  dropout: {dropout}            # lower it with more data
"""
FROM_BASE_MODEL = """{pairs}
model:
  base_model: {base_model}           # training continues from its weights, with its tokenizer
"""
TITLES = {
    "translate": "Translation", "language_model": "Language modeling", "dialogue": "Dialogue",
    "masked_lm": "Encoder pretraining on plain text: masked language modeling",
    "replaced_tokens": "Encoder pretraining on plain text: replaced-token detection",
}  # fmt: skip
FAMILIES = {
    "masked_lm": "family: bert            # or roberta, albert",
    "replaced_tokens": "family: electra         # with a generator of a quarter of its width",
}
PAIRS = "  pairs: none             # nsp: next-sentence prediction; sop: sentence-order prediction\n"
TURN_COLUMNS = ("turns", "messages", "conversation", "conversations", "dialog", "dialogue", "utterances")


def scratch_recipe(task: str, files: list[Path], out: Path, base_model: str | None = None) -> str:
    """Return the text of a recipe for a task on these files, to be written to `out`."""
    if task not in TASKS:
        raise ValueError(f"task {task!r}: {did_you_mean(task, TASKS)}")
    if task == "classify" and len(files) == 1 and has_images(files[0]):
        return image_recipe(files[0], out, base_model)
    if task == "caption":
        return caption_recipe(files, out, base_model)
    if TASKS[task].spec.split_by is not None:
        return finetune_recipe(task, files, out, base_model)
    if base_model is not None and task not in ("masked_lm", "language_model", "dialogue"):
        raise ValueError(f"a new recipe for {task!r} trains from scratch: remove --base-model")
    return _pretraining_recipe(task, files, out, base_model)


def _pretraining_recipe(task: str, files: list[Path], out: Path, base_model: str | None) -> str:
    part = _dialogues(files) if task == "dialogue" else _part(TASKS[task].spec.column_sets[0], files)
    words = count = 0
    rows = read_part(part, Path())
    for row in islice(rows, SAMPLE_ROWS):
        words += sum(len(str(value).split()) for value in row.values.values())
        count += 1
    if count < 2:
        raise ValueError(
            f"{', '.join(map(str, files))}: at least two rows are required, one to train and one to validate"
        )
    per_row = words / count * TOKENS_PER_WORD + len(part)
    count += sum(1 for _ in islice(rows, SAMPLE_ROWS, None)) if count == SAMPLE_ROWS else 0
    size, vocab_size, dropout = _sizes(per_row * count)
    pairs = PAIRS if task == "masked_lm" else ""
    kind = FAMILIES.get(task, "kind: transformer       # or gru, lstm, rnn")
    model = FROM_SCRATCH.format(pairs=pairs, vocab_size=vocab_size, kind=kind, size=size, dropout=dropout)
    if base_model is not None:
        path = base_model if ":" in base_model else os.path.relpath(base_model, out.parent)
        model = FROM_BASE_MODEL.format(pairs=pairs, base_model=path)
    steps = max(100, round(per_row * count * EPOCHS / BATCH_TOKENS, -2))
    translates = task == "translate"
    return TEXT.format(
        title=TITLES[task],
        name=out,
        task=task,
        train=in_line(part, out),
        validation_rows=max(1, min(1000, count // 20)),
        max_len=128,
        max_len_note="pairs with a longer sentence are skipped and counted" if translates else "tokens per block",
        model=model,
        steps=int(steps),
        epochs=EPOCHS,
        count=count,
        batch_tokens=BATCH_TOKENS,
        batch_note="source and target together" if translates else "in blocks of max_len",
        smoothing=0.1 if translates else 0.0,
        lr="1.0e-3" if base_model is None else "1.0e-4",
        warmup=int(min(1000, steps // 5)),
        every=int(max(20, round(steps / EPOCHS))),
    )


def _dialogues(files: list[Path]) -> Part:
    """Return the part for a file of dialogues, with the column or the separator of its turns."""
    if len(files) != 1:
        raise ValueError(f"{len(files)} files given, one is required: .jsonl, or text with a separator between turns")
    (file,) = files
    if ".jsonl" in file.suffixes:
        names = columns_of(file)
        matches = [name for name in TURN_COLUMNS if name in names]
        if not matches:
            raise ValueError(
                f"{file} has the keys {', '.join(names)}: name the list of turns {' or '.join(TURN_COLUMNS[:2])}"
            )
        return {"file": str(file), "turns": matches[0]}
    return {"file": str(file), "turns": "__eou__"}


def _sizes(tokens: float) -> tuple[str, int, float]:
    """Return a model size, a vocabulary size and a dropout for a number of training tokens."""
    if tokens < 200_000:
        return "tiny", 4000, 0.3
    return ("small", 8000, 0.2) if tokens < 20_000_000 else ("base", 32_000, 0.1)


def _part(columns: tuple[str, ...], files: list[Path]) -> Part:
    """Return the part for files: one file per column, or a table that has the columns."""
    if len(files) == len(columns):
        table = len(files) == 1 and {".tsv", ".csv", ".jsonl", ".parquet"} & set(files[0].suffixes)
        if not table:
            return {column: str(file) for column, file in zip(columns, files, strict=True)}
    if len(files) != 1:
        raise ValueError(f"{len(files)} files given for {' and '.join(columns)}: give one file each, or one table")
    names = columns_of(files[0])
    chosen = names if len(names) == len(columns) else [c for c in columns if c in names]
    if len(chosen) != len(columns):
        raise ValueError(
            f"{files[0]} has the columns {', '.join(names)}: name the ones to train on {' and '.join(columns)}, "
            "or write the recipe's data section by hand"
        )
    return {"file": str(files[0]), **dict(zip(columns, chosen, strict=True))}
