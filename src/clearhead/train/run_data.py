"""The data of a run: the parts of a recipe as rows, the labels, the tokenizer, and tokenized columns."""

import json
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any

from clearhead.data import Columns, HubDataset, Row, Rows, SkippedRow, open_columns, read_rows, save_columns
from clearhead.data.counterfactual_rows import CounterfactualRows
from clearhead.data.datasets import locate
from clearhead.data.reweighing import WeightedRows
from clearhead.data.shards import ShardRange, Shards
from clearhead.data.split import chain_rows, first_rows, rename_columns, stratified_split
from clearhead.files import new_folder, write_atomic
from clearhead.files.s3_folder import cached_copy
from clearhead.files.s3_path import S3Path, folder_at, is_s3
from clearhead.tasks import Task, Translate
from clearhead.tasks.labels import COLUMNS as LABELS
from clearhead.tasks.model_presets import TEMPLATE
from clearhead.tasks.ranking_task import negatives
from clearhead.tasks.task import ReadsImages
from clearhead.text import Tokenizer, train_tokenizer
from clearhead.train.init_model import Pretrained
from clearhead.train.recipe import HUB_KEYS, Part, Recipe, columns_of_part
from clearhead.train.run_folder import remove_stale
from clearhead.train.text_augmentation import TextAugmentConfig

PROGRESS_S = 20  # seconds between messages while rows are read

Log = Callable[[str], object]
Parts = Callable[[], tuple[Rows, Rows]]
"""Returns the training rows and the validation rows; called only when they are needed."""


def read_part(part: Part, base: Path, rename: Mapping[str, str] | None = None) -> Rows:
    if "file" in part:
        columns = {name: str(column) for name, column in part.items() if name not in ("file", *HUB_KEYS)}
        rows = read_rows(hub_dataset(part, base) or locate(str(part["file"]), base), columns or None)
        return rename_columns(rows, rename) if rename else rows
    ((first, value), *_) = part.items()
    if isinstance(value, list):
        return chain_rows([read_rows({first: locate(name, base)}) for name in value])
    return read_rows({name: locate(str(file), base) for name, file in part.items()})


def hub_dataset(part: Part, base: Path) -> HubDataset | None:
    """Return the data set of the hub that a part names; None if it names a file. A path is relative to `base`."""
    kind, _, name = str(part.get("file", "")).partition(":")
    if kind != "hub":
        return None
    name = str((base / name).absolute()) if name.startswith(".") else name
    return HubDataset(name=name, **{key: str(part[key]) for key in HUB_KEYS if key in part})


def split_parts(recipe: Recipe, base: Path) -> tuple[Rows, Rows]:
    data, task = recipe.data, recipe.task_class
    if "shards" in data.train:  # already tokenized: there are no rows
        text_valid = data.valid if data.valid is not None and "shards" not in data.valid else None
        return Rows(lambda: iter(())), Rows(lambda: iter(())) if text_valid is None else read_part(text_valid, base)
    rows = read_part(data.train, base, data.rename)
    if data.valid is not None:
        return rows, read_part(data.valid, base, data.rename)
    if task.spec.split_by is None:
        valid, rest = first_rows(rows, data.validation_rows)
    else:
        names, label_of = task.spec.split_by
        texts = (names,) if isinstance(names, str) else names
        by = next(name for name in ("group", *texts) if name in data.train)
        group, label = (lambda row: str(row.values[by])), (lambda row: label_of(row.values))
        valid, rest = stratified_split(rows, data.validation_rows, recipe.seed, group=group, label=label)
    return rest, valid


def training_parts(recipe: Recipe, base: Path) -> tuple[Rows, Rows]:
    """Return the rows that are trained on, with counterfactual copies and weights, and the validation rows."""
    rows, valid = split_parts(recipe, base)
    if isinstance(recipe.data.augment, TextAugmentConfig):
        rows = CounterfactualRows(rows, recipe.data.augment.counterfactual)
    if recipe.data.balance_groups is not None:
        rows = WeightedRows(rows, recipe.data.balance_groups)
    return rows, valid


def open_shards(part: Part, base: Path) -> Shards | None:
    """Open the shards that a part names, or return None. A damaged block is detected when it is read."""
    names = part.get("shards")
    if names is None:
        return None
    listed = [names] if isinstance(names, str) else names
    folders = [folder_at(name) if is_s3(name) else locate(name, base) for name in listed]
    return Shards(*folders, check=False)


def load_labels(recipe: Recipe, parts: Parts, folder: Path) -> dict[str, Any]:
    """Return the labels of the training rows, collected once and kept in `labels.json`; empty for text-only tasks."""
    path, task = folder / "labels.json", recipe.task_class
    if task.spec.split_by is None:
        return {}
    if not path.exists():
        labels = task.collect_labels(parts()[0], tuple(columns_of_part(recipe.data.train)))
        write_atomic(path, json.dumps(labels, ensure_ascii=False, indent=1) + "\n")
    return json.loads(path.read_text(encoding="utf-8"))


def load_tokenizer(
    recipe: Recipe, base: Path, folder: Path, base_model: Pretrained | None, log: Log
) -> Tokenizer | None:
    """Return the tokenizer of the base model, of the shards or of `tokenizer.folder`; else train one, once.

    A task that reads images and writes no text has none.
    """
    settings = recipe.tokenizer
    if (template := _template(recipe)) is None:
        return None
    if base_model is not None:
        return base_model.tokenizer
    if (shards := open_shards(recipe.data.train, base)) is not None:
        tokenizer = shards.folders[0] / "tokenizer"
        return Tokenizer.load(
            cached_copy(tokenizer, "tokenizer", lambda name: "/" not in name)
            if isinstance(tokenizer, S3Path)
            else tokenizer
        )
    if settings.folder is not None:
        return Tokenizer.load(locate(settings.folder, base))
    target = folder / "tokenizer"
    if not target.exists():
        remove_stale(folder)
        with NamedTemporaryFile("w", encoding="utf-8", suffix=".txt") as text:
            for row in read_part(recipe.data.train, base):
                text.writelines(f"{value}\n" for value in _texts(row))
            text.flush()
            size, kind, lowercase = settings.vocab_size, settings.kind, settings.lowercase
            tokenizer = train_tokenizer(text.name, template=template, vocab_size=size, kind=kind, lowercase=lowercase)
        with new_folder(target) as new:
            tokenizer.save(new)
        log(f"tokenizer: {tokenizer.vocab_size:,} tokens, trained on the training text")
    return Tokenizer.load(target)


def _template(recipe: Recipe) -> str | None:
    """Return the special-token template of a new tokenizer: that of the model family if named, else of the task.

    None: the task has no tokenizer.
    """
    if recipe.model.get("encoder"):
        return Translate.spec.template
    return TEMPLATE.get(str(recipe.model.get("family")), recipe.task_class.spec.template)


def _texts(row: Row) -> Iterator[str]:
    """Yield the text that a tokenizer is trained on: everything in a row except its labels."""
    for name, value in row.values.items():
        if name == "words":
            yield " ".join(value)
        elif name == "turns":
            yield from value
        elif name == "negative":
            yield from negatives(value)
        elif name not in ("image", "tags", "answers", "spans", *LABELS):
            yield value


def load_columns(
    recipe: Recipe, base: Path, task: Task, parts: Parts, folder: Path, log: Log
) -> tuple[Columns, Columns]:
    """Return the tokenized training and validation data; text is tokenized once and kept in `data/`."""
    names = ("train", "valid")
    (folder / "data").mkdir(exist_ok=True)
    columns = _shard_columns(recipe, base, task)
    sharded = set(columns)
    for i, name in enumerate(names):
        target = folder / "data" / name
        if name not in sharded and not target.exists():
            remove_stale(target.parent)
            _save_part(recipe, task, name, parts()[i], target, log)
    for name in names:
        if name not in sharded:
            columns[name], metadata = open_columns(folder / "data" / name)
            if metadata["tokenizer"] != _fingerprint(task):
                raise ValueError(
                    f"{folder / 'data'} was made with a different tokenizer than the current one: choose a new --out "
                    "or delete it"
                )
    return columns["train"], columns["valid"]


def _save_part(recipe: Recipe, task: Task, name: str, rows: Rows, target: Path, log: Log) -> None:
    """Tokenize one part, report what was skipped, and save it."""
    shown = Rows(lambda: _with_progress(rows, name, log))
    columns, skipped = task.encode(shown)
    for message in (shown.report(), *map(str, skipped), *rows.notes()):
        if message:
            log(f"{name}: {message}")
    count = len(next(iter(columns.values())))
    if not count:
        held = recipe.data.validation_rows if recipe.data.valid is None and name == "train" else 0
        reason = f" besides the {held:,} rows of data.validation_rows: lower it" if held else ""
        raise ValueError(f"data.{name} has no examples{reason}")
    save_columns(columns, target, {"tokenizer": _fingerprint(task)})
    log(f"{name}: {count:,} examples, {int(task.lengths(columns).sum()):,} tokens")


def _with_progress(rows: Rows, name: str, log: Log) -> Iterator[Row | SkippedRow]:
    """Yield all rows; from time to time, log how many were read, and how fast."""
    start = last = time.monotonic()
    for count, row in enumerate(rows.raw(), 1):
        yield row
        if (now := time.monotonic()) - last > PROGRESS_S:
            last = now
            log(f"{name}: {count:,} rows read, {count / (now - start):,.0f} rows/s")


def _fingerprint(task: Task) -> dict[str, Any]:
    """Return what encoded data depends on: the tokenizer, and how images are read."""
    tokenizer = {} if task.tokenizer is None else task.tokenizer.fingerprint()
    if not isinstance(task, ReadsImages):
        return tokenizer
    features = {} if task.features is None else {"image_features": task.features.source}
    return {**tokenizer, "image_processor": task.processor.to_config(), **features}


def _shard_columns(recipe: Recipe, base: Path, task: Task) -> dict[str, Columns]:
    """Return the parts stored in shards; without data.valid, the first blocks of the training part validate."""
    data, fingerprint = recipe.data, _fingerprint(task)
    parts = {
        "train": open_shards(data.train, base),
        "valid": None if data.valid is None else open_shards(data.valid, base),
    }
    for name, shards in parts.items():
        if shards is not None and shards.tokenizer != fingerprint:
            raise ValueError(
                f"data.{name} was prepared with a different tokenizer than the model's: run `clearhead prepare` again"
            )
    train, valid = parts["train"], parts["valid"]
    columns: dict[str, Columns] = {}
    held = 0
    if train is not None and data.valid is None:
        held = data.validation_rows
        if held >= len(train):
            raise ValueError(f"data.train has {len(train):,} blocks, and data.validation_rows is {held:,}: lower it")
        columns["valid"] = ShardRange(train, 0, held).columns()
    elif valid is not None:
        columns["valid"] = ShardRange(valid, 0, len(valid)).columns()
    if train is not None:
        columns["train"] = ShardRange(train, held, len(train) - held).columns()
    return columns
