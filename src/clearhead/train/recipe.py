"""A recipe: one YAML file that defines a run. Unknown keys are errors that suggest the closest known key."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, is_dataclass
from pathlib import Path
from typing import Any, Literal, get_type_hints

import yaml
from pydantic import ConfigDict, TypeAdapter, ValidationError, with_config

from clearhead.distributed import ParallelConfig
from clearhead.files import write_atomic
from clearhead.layers.vector_losses import LossConfig
from clearhead.tasks import TASKS, Task, did_you_mean
from clearhead.tasks.registry import find_task
from clearhead.train.text_augmentation import (
    Augmentation,
    TextAugmentConfig,
    augment_kind,
    check_balanced_groups,
    check_counterfactuals,
)
from clearhead.vision import AugmentConfig

Part = dict[str, str | list[str]]
"""The source of the rows: `{source: a.en, target: a.de}`, or `{file: a.tsv, source: column, target: column}`.

A file `hub:OWNER/NAME` is a data set of the Hugging Face hub, with the keys `config`, `split` and `revision`.
Plain text may be several files or folders, `{text: [a.txt, b/]}`, or `{shards: FOLDER}`.
"""

LIST_KEYS = ("text", "shards")  # may be several files or folders
UNION_MEMBERS = ("str", "list[str]", "AugmentConfig", "TextAugmentConfig")  # in the path of an error, no keys
HUB_KEYS = ("config", "split", "revision")  # of a data set on the hub
EXTRA_KEYS = ("file", "group", *HUB_KEYS)  # no columns of the task; rows of one group stay in one split


@dataclass(frozen=True, kw_only=True)
class DataConfig:
    """The data of a run. A file is a path relative to the recipe, or in a named data set: `multi30k:train.en.gz`."""

    train: Part  # the source of the training rows, see below
    valid: Part | None = None  # validation data, in the same form
    test: Part | None = None  # test data, evaluated at the end of the run
    validation_rows: int = 1000  # rows of `train` that are held out if there is no `valid`
    max_len: int = 128  # maximum tokens per sentence of a pair, per block of running text, per window of a long text
    block_size: int | None = None  # tokens per block of running text, if fewer than `max_len`
    rename: dict[str, str] = field(default_factory=dict[str, str])  # labels to replace, `{B-OTH: O}`
    balance_classes: bool = False  # weights the loss by the inverse label frequency
    balance_groups: str | None = None  # a category of groups, `gender`, on which labels must not depend, see below
    pairs: Literal["none", "nsp", "sop"] = "none"  # of `masked_lm`: next-sentence or sentence-order prediction
    whole_words: bool = False  # of `masked_lm`: all tokens of a word are masked together
    language: str = "en"  # of `masked_lm`: the language whose rules split sentences
    image_size: int | None = None  # of images: their sides in pixels; None: the base model's, else 224
    augment: Augmentation = field(default_factory=AugmentConfig)  # random changes of images, or copies of texts

    def __post_init__(self) -> None:
        _at_least(self, validation_rows=1, max_len=2, block_size=2, image_size=1)
        if self.block_size is not None and self.block_size > self.max_len:
            raise ValueError(f"block_size is {self.block_size}, above max_len, which is {self.max_len}: lower it")


@dataclass(frozen=True, kw_only=True)
class TokenizerConfig:
    """The tokenizer: trained on the training text, or read from `folder`."""

    vocab_size: int = 8000  # number of tokens
    kind: Literal["bpe", "unigram", "wordpiece"] | None = None  # the algorithm; None: that of the model family
    lowercase: bool = False  # lowercases the text
    folder: str | None = None  # reads a tokenizer instead of training one

    def __post_init__(self) -> None:
        _at_least(self, vocab_size=2)


@dataclass(frozen=True, kw_only=True)
class OptimizerConfig:
    """The optimizer: AdamW (Loshchilov and Hutter 2019) or SGD with momentum."""

    kind: Literal["adamw", "sgd"] = "adamw"  # AdamW, or SGD with momentum
    lr: float = 1e-3  # peak learning rate
    betas: tuple[float, float] = (0.9, 0.98)  # of AdamW
    eps: float = 1e-9  # of AdamW
    weight_decay: float = 0.0  # of matrices; norms and biases are not decayed
    layer_decay: float = 1.0  # factor of the learning rate from one layer to the layer below
    momentum: float = 0.9  # of SGD
    clip: float | None = 1.0  # maximum norm of the gradient; null: no clipping

    def __post_init__(self) -> None:
        _at_least(self, lr=0.0, eps=0.0, weight_decay=0.0, momentum=0.0)
        if not 0.0 < self.layer_decay <= 1.0:
            raise ValueError(f"layer_decay is {self.layer_decay}: it must be above 0 and at most 1")
        if self.clip is not None and self.clip <= 0:
            raise ValueError(f"clip is {self.clip}: it must be above 0, or null for no clipping")


@dataclass(frozen=True, kw_only=True)
class ScheduleConfig:
    """The learning-rate schedule: linear warmup for `warmup` steps, then decay by `kind` to `final` times `lr`."""

    kind: Literal["noam", "cosine", "linear", "constant"] = "noam"  # the decay after the warmup
    warmup: int = 1000  # steps of linear warmup
    final: float = 0.0  # the last learning rate, as a fraction of `lr`

    def __post_init__(self) -> None:
        _at_least(self, warmup=0, final=0.0)


@dataclass(frozen=True, kw_only=True)
class TrainConfig:
    """The training loop: batch size, length, evaluation and checkpoints."""

    steps: int | None = None  # number of optimizer steps, or `epochs`
    epochs: float | None = None  # passes over the training examples, instead of `steps`
    batch_tokens: int = 4096  # tokens per step, over all processes and accumulated parts
    batch_examples: int | None = None  # examples per step, instead of `batch_tokens`
    gradient_accumulation: int = 1  # parts per batch and process: less memory, the same gradient
    dropout_parts: int | None = None  # parts of a batch over all processes, each with dropout of its own, instead
    optimizer: OptimizerConfig = field(default_factory=OptimizerConfig)  # the optimizer
    schedule: ScheduleConfig = field(default_factory=ScheduleConfig)  # the learning-rate schedule
    label_smoothing: float = 0.0  # share of the target that is spread over all labels or tokens
    doubly_stochastic: float = 0.0  # of `caption` with a recurrent decoder: weight of the loss on unattended patches
    dtype: Literal["auto", "float32", "bfloat16"] = "auto"  # bfloat16 where the processor supports it
    activation_checkpointing: bool = False  # recomputes blocks in the backward pass: less memory, a third more time
    evaluate_every: int = 500  # steps between evaluations
    metric: str = "loss"  # selects the best checkpoint, and when to stop early
    patience: int | None = None  # stops after this number of evaluations without improvement
    save_every: int = 500  # steps between checkpoints
    keep: int = 3  # number of checkpoints, besides the best one
    average: int = 1  # the final model is the mean of this number of last checkpoints

    @property
    def last(self) -> int:
        if self.steps is None:
            raise ValueError("train.epochs is set: the number of steps is known after the data is read")
        return self.steps

    def parts_per_rank(self, ranks: int) -> int:
        """Return how many parts of a batch each of so many processes computes, one after another."""
        if self.dropout_parts is None:
            return self.gradient_accumulation
        if ranks > self.dropout_parts:
            raise ValueError(
                f"train.dropout_parts is {self.dropout_parts}, but {ranks} processes share a batch: start at most "
                f"{self.dropout_parts}, or set it to {ranks} or more before the run starts"
            )
        return math.ceil(self.dropout_parts / ranks)

    def __post_init__(self) -> None:
        if (self.steps is None) == (self.epochs is None):
            raise ValueError("give exactly one of train.steps and train.epochs")
        _at_least(
            self,
            steps=1,
            epochs=0.0,
            batch_tokens=1,
            batch_examples=1,
            gradient_accumulation=1,
            dropout_parts=1,
            evaluate_every=1,
            save_every=1,
            keep=1,
            average=1,
            doubly_stochastic=0.0,
        )
        if self.dropout_parts is not None and self.gradient_accumulation > 1:
            raise ValueError(
                f"gradient_accumulation is {self.gradient_accumulation} and dropout_parts is {self.dropout_parts}: "
                "give one of them; dropout_parts are computed one after another too"
            )
        if not 0.0 <= self.label_smoothing < 1.0:
            raise ValueError(f"label_smoothing is {self.label_smoothing}: it must be at least 0 and below 1")
        if self.patience is not None and self.patience < 1:
            raise ValueError(f"patience is {self.patience}: it must be at least 1, or null to train to the end")
        if self.average > self.keep:
            raise ValueError(f"average is {self.average}, but only {self.keep} checkpoints are kept: raise keep")


@dataclass(frozen=True, kw_only=True)
class CodecConfig:
    """Of the task `draw`: the codec that turns images into codes, trained on the training images before the model."""

    num_codes: int = 512  # different codes
    width: int = 96  # of its layers, a multiple of 16
    epochs: float = 30  # passes over the training images
    batch_examples: int = 64  # images per step
    lr: float = 1e-3  # learning rate

    def __post_init__(self) -> None:
        _at_least(self, num_codes=2, width=16, epochs=0.0, batch_examples=1, lr=0.0)


@dataclass(frozen=True, kw_only=True)
class EmbeddingConfig:
    """Of the task `embed`: how a text becomes a vector. What is not given is the base model's, else the default."""

    pool: Literal["mean", "first", "last", "max"] | None = None  # how states of tokens become a vector; None: mean
    normalize: bool | None = None  # vectors of unit length; None: true
    query_prompt: str | None = None  # prepended to anchors, such as "query: "
    document_prompt: str | None = None  # prepended to positives and negatives, such as "passage: "


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """A complete run: task, data, model, tokenizer, training and seed."""

    task: str  # what is trained: one of the tasks below
    data: DataConfig  # the rows, how they are split and cut
    train: TrainConfig  # the training loop
    model: dict[str, Any] = field(default_factory=dict[str, Any])  # a base model, or the sizes of a new one
    tokenizer: TokenizerConfig = field(default_factory=TokenizerConfig)  # of a model trained from scratch
    loss: LossConfig = field(default_factory=LossConfig)  # of `embed` and `rerank`
    embedding: EmbeddingConfig = field(default_factory=EmbeddingConfig)  # of `embed`: how a text becomes a vector
    image_codec: CodecConfig = field(default_factory=CodecConfig)  # of `draw`
    parallel: ParallelConfig = field(default_factory=ParallelConfig)  # the mesh of processes
    seed: int = 1  # initialization, order of the data, dropout

    def __post_init__(self) -> None:
        if self.task not in TASKS:
            raise ValueError(f"task is {self.task!r}: {did_you_mean(self.task, TASKS)}")
        if not 0 <= self.seed < 2**63:
            raise ValueError(f"seed is {self.seed}: it must be an integer from 0 to 2**63 - 1")
        task = self.task_class
        if self.train.metric not in task.spec.metrics:
            metric = self.train.metric
            raise ValueError(f"train.metric is {metric!r}: {did_you_mean(metric, task.spec.metrics)}")
        if task.spec.name not in ("embed", "rerank") and self.loss != LossConfig():
            raise ValueError(f"loss is set, but it is of the tasks embed and rerank, not of {self.task}: remove it")
        if task.spec.name != "embed" and self.embedding != EmbeddingConfig():
            raise ValueError(f"embedding is set, but it is of the task embed, not of {self.task}: remove it")
        if task.spec.name != "draw" and self.image_codec != CodecConfig():
            raise ValueError(f"image_codec is set, but it is of the task draw, not of {self.task}: remove it")
        if self.train.doubly_stochastic and task.spec.name != "caption":
            raise ValueError(f"train.doubly_stochastic is set, but it is of the task caption, not of {self.task}")
        if isinstance(self.data.augment, TextAugmentConfig):
            check_counterfactuals(self.task, self.data.train)
        elif not self.reads_images and (self.data.image_size is not None or self.data.augment != AugmentConfig()):
            raise ValueError(
                "data.image_size and these keys of data.augment are of images, and data.train names none: remove them"
            )
        if self.data.balance_groups is not None:
            check_balanced_groups(self.data.balance_groups, self.task, self.data.train)
        for name in ("train", "valid", "test"):
            _check_part(f"data.{name}", getattr(self.data, name), task.spec.column_sets)
        if "shards" in (self.data.test or ()):
            raise ValueError("data.test names shards: the test set must be text, name its files")

    @property
    def reads_images(self) -> bool:
        return "image" in self.data.train

    @property
    def task_class(self) -> type[Task]:
        """The class of the task: some tasks have one for texts and one for images."""
        return find_task(self.task, self.data.train)


def read_recipe(path: str | Path, changes: Sequence[str] = ()) -> Recipe:
    """Read a recipe from a YAML file and apply `changes` such as "train.steps=100"."""
    path = Path(path)
    if not path.exists():
        raise ValueError(f"there is no recipe {path}: check the path, or write one with `clearhead new`")
    try:
        values = _yaml(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{path} is not YAML: {error}") from None
    if not isinstance(values, dict):
        raise ValueError(f"{path} is not a recipe: it must have `task`, `data` and `train`")
    for change in changes:
        _set(values, change)
    try:
        return make_recipe(values)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error


def make_recipe(values: Mapping[str, Any]) -> Recipe:
    """Build a recipe from plain values and validate it."""
    _check_keys(values, Recipe, "")
    try:
        return TypeAdapter(Recipe).validate_python(values)
    except ValidationError as error:
        messages = {_path(e): _message(e) for e in reversed(error.errors())}  # of the errors of a union, the first
        raise ValueError("; ".join(reversed(messages.values()))) from None


def to_plain(recipe: Recipe) -> dict[str, Any]:
    return _plain(asdict(recipe))


def write_recipe(recipe: Recipe, path: Path) -> None:
    """Write the recipe as YAML, including every default."""
    write_atomic(path, yaml.safe_dump(to_plain(recipe), sort_keys=False, allow_unicode=True))


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _plain(v) for k, v in value.items()}
    return [_plain(v) for v in value] if isinstance(value, list | tuple) else value


def _set(values: dict[str, Any], change: str) -> None:
    """Apply one change, "a.b=value", where the value is YAML."""
    path, equals, text = change.partition("=")
    if not equals:
        raise ValueError(f"{change!r} has no value: write name=value, for example train.steps=100")
    *above, last = path.split(".")
    for name in above:
        inner = values.setdefault(name, {})
        if not isinstance(inner, dict):
            raise ValueError(f"{change!r}: {name} is {inner!r}, which has no keys")
        values = inner
    try:
        values[last] = _yaml(text)
    except ValueError as error:
        raise ValueError(f"{change!r}: the value is not YAML: {error}") from None


def _yaml(text: str) -> Any:
    try:
        return yaml.safe_load(text)
    except (yaml.YAMLError, RecursionError) as error:
        raise ValueError(" ".join(str(error).split())) from None  # on one line


def _check_keys(values: Any, kind: type[Any], where: str) -> None:
    if not isinstance(values, Mapping):
        return
    names = {f.name for f in fields(kind)}
    types = get_type_hints(kind)
    for key, value in values.items():
        if key not in names:
            raise ValueError(f"{where}{key}: {did_you_mean(str(key), sorted(names))}")
        inner = augment_kind(value) if key == "augment" else types[key]
        if is_dataclass(inner):
            _check_keys(value, inner, f"{where}{key}.")


def _path(error: Mapping[str, Any]) -> str:
    return ".".join(str(part) for part in error["loc"] if part not in UNION_MEMBERS)


def _message(error: Mapping[str, Any]) -> str:
    where = _path(error)
    if error["type"] == "missing":
        return f"{where} is missing"
    reason = str(error["msg"]).removeprefix("Value error, ")
    return f"{where}: {reason}" if where else reason


def _check_part(where: str, part: Part | None, column_sets: tuple[tuple[str, ...], ...]) -> None:
    """Check that a part names exactly one of the column sets of its task, besides EXTRA_KEYS."""
    if part is None:
        return
    known = (*dict.fromkeys(name for columns in column_sets for name in columns), *EXTRA_KEYS)
    for key in part:
        if key not in known:
            raise ValueError(f"{where}.{key}: {did_you_mean(key, known)}")
    for key, value in part.items():
        if isinstance(value, list) and key not in LIST_KEYS:
            raise ValueError(f"{where}.{key} is a list: only {' and '.join(LIST_KEYS)} may be lists")
        if value == [] or value == "":
            raise ValueError(f"{where}.{key} is empty: name a file or a folder")
        if key in HUB_KEYS and not str(part.get("file", "")).startswith("hub:"):
            raise ValueError(f"{where}.{key} belongs to a data set of the hub: give file: hub:OWNER/NAME, or remove it")
    if columns_of_part(part) in map(set, column_sets):
        return
    nearest = min(column_sets, key=lambda columns: len(set(columns) ^ columns_of_part(part)))
    if missing := [column for column in nearest if column not in part]:
        raise ValueError(f"{where}.{missing[0]} is missing: give its file, or its column in the table `file`")
    choices = " or ".join(", ".join(columns) for columns in column_sets)
    raise ValueError(f"{where} names {', '.join(part)}: it must name {choices}")


def columns_of_part(part: Part) -> set[str]:
    return {name for name in part if name not in EXTRA_KEYS}


def _at_least(settings: object, **minimums: float) -> None:
    for name, minimum in minimums.items():
        value = getattr(settings, name)
        if value is not None and value < minimum:
            raise ValueError(f"{name} is {value}: it must be at least {minimum}")


_SECTIONS = (
    DataConfig, TokenizerConfig, OptimizerConfig, ScheduleConfig, TrainConfig, LossConfig, EmbeddingConfig,
    CodecConfig, AugmentConfig, TextAugmentConfig,
)  # fmt: skip
for _kind in (*_SECTIONS, Recipe):
    with_config(ConfigDict(extra="forbid", allow_inf_nan=False))(_kind)
