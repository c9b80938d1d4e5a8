"""A first recipe for images with labels: in folders, in a tar file, or named by a table."""

from collections.abc import Sequence
from itertools import islice
from math import ceil
from pathlib import Path
from statistics import median

from clearhead.data import columns_of
from clearhead.data.image_rows import FOLDER, is_image_source
from clearhead.train.recipe import Part
from clearhead.train.recipe_finetune import COLUMN_NAMES, in_line
from clearhead.train.run_data import read_part
from clearhead.vision import UnreadableImage, open_image

IMAGE_COLUMNS = ("image", "file", "path", "filename", "file_name", "image_path")
SAMPLE_IMAGES = 100  # opened to find their sizes
EPOCHS = 30
BATCH = 128
SIZES = {32: 2, 64: 3, 128: 4}  # sides of the images of a new model, and the convolutions that leave 8 x 8 tokens

TEXT = """\
# Image classification
# Check the data:  clearhead check {name}
# Train:  clearhead train {name}
task: classify
seed: 1

data:
  train: {train}
  validation_rows: {validation_rows}           # images held out for validation, stratified by label; or give `valid`
{size}  augment: {{flip: true, crop_padding: {padding}, color: 0.2}}   # no flip where left and right matter
  balance_classes: false  # true: rare labels have more weight in the loss

model:
{model}
train:
  epochs: {epochs}
  batch_examples: {batch}
  label_smoothing: 0.1
  dtype: auto             # bfloat16 if the processor supports it, else float32
  optimizer: {{kind: adamw, lr: {lr}, betas: [0.9, 0.999], eps: 1.0e-8, weight_decay: 0.05}}
  schedule: {{kind: cosine, warmup: {warmup}}}
  evaluate_every: {every}     # steps: once per epoch
  save_every: {every}
  metric: accuracy
  patience: 5             # stop after 5 evaluations without improvement
  keep: 1
"""
NEW_MODEL = """\
  stem_layers: {stem_layers}          # convolutions, each halves the sides: 8 x 8 tokens
  width: {width}
  num_layers: {num_layers}
  num_heads: {num_heads}
  ffn_dim: {ffn_dim}
"""


def has_images(file: Path) -> bool:
    """Return whether a folder, a tar file or a table holds images to classify."""
    if is_image_source(file):
        return True
    return file.is_file() and file.suffix.lower() in (".csv", ".tsv", ".jsonl") and _image_column(file) is not None


def image_recipe(file: Path, out: Path, base_model: str | None = None) -> str:
    """Return the text of a recipe for images: a new compact Transformer, or a base model that is fine-tuned."""
    part = _part(file)
    rows = read_part(part, Path())
    sample = list(islice(rows, SAMPLE_IMAGES))
    if len(sample) < 2:
        raise ValueError(
            f"{file}: at least two images are required, in a folder for each label. {rows.report()}".strip()
        )
    sides: list[int] = []
    for row in sample:
        try:
            image = row.values["image"]
            sides.append(min(open_image(image.content, name=image.name).size))
        except UnreadableImage:
            continue  # `clearhead check` names it
    if not sides:
        raise ValueError(f"{file}: none of the first {len(sample)} images can be read")
    count = sum(1 for _ in rows)
    size = next((side for side in SIZES if side >= 0.75 * median(sides)), max(SIZES))
    held = max(1, min(2000, count // 10))
    batch = min(BATCH, max(8, count // 20)) if base_model is None else 32
    epochs = EPOCHS if base_model is None else 4
    steps = ceil((count - held) / batch)
    width = 128 if count < 100_000 else 256
    new = NEW_MODEL.format(stem_layers=SIZES[size], width=width, num_layers=4, num_heads=width // 64, ffn_dim=2 * width)
    return TEXT.format(
        name=out,
        train=in_line(part, out),
        validation_rows=held,
        size="" if base_model else f"  image_size: {size}          # sides that images are resized to\n",
        padding=max(1, size // 8),
        model=new if base_model is None else f"  base_model: {base_model}   # a model folder\n",
        epochs=epochs,
        batch=batch,
        lr="1.0e-03" if base_model is None else "5.0e-05",
        warmup=max(1, steps * epochs // 10),
        every=max(1, steps),
    )


def _part(file: Path) -> Part:
    """Return the images of a folder with a folder for each label, or the columns of a table."""
    if is_image_source(file):
        train = "train" if (file / "train").is_dir() else "."
        return {"file": str(file), "image": train, "label": FOLDER}
    names = columns_of(file)
    image = _image_column(file)
    found = [name for name in COLUMN_NAMES["label"] if name in names]
    if image is None or not found:
        raise ValueError(
            f"{file} has the columns {', '.join(names)}: name those of the paths and the labels image and label"
        )
    return {"file": str(file), "image": image, "label": found[0]}


def _image_column(file: Path) -> str | None:
    return None if "text" in columns_of(file) else find_column(IMAGE_COLUMNS, file)


def find_column(known: Sequence[str], file: Path) -> str | None:
    """Return the first of these names that is a column of a table."""
    names = columns_of(file)
    return next((name for name in known if name in names), None)
