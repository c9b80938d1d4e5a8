"""A recipe: one YAML file that is the whole of a run. Unknown keys are errors that say what was perhaps meant."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, is_dataclass
from pathlib import Path
from typing import Any, Literal, get_type_hints

import yaml
from pydantic import ConfigDict, TypeAdapter, ValidationError

from clearhead.files import write_atomic
from clearhead.tasks import TASKS, unknown

Part = dict[str, str | list[str]]
"""Where the rows come from: `{source: a.en, target: a.de}`, or `{file: a.tsv, source: column, target: column}`.

Text that is only read may be several files or folders, `{text: [a.txt, b/]}`, or `{shards: FOLDER}`.
"""

MANY = ("text", "shards")  # what may be several files or folders
BESIDE = ("file", "group")  # what a part may name beside its columns: the table they are in, and who its rows are of


@dataclass(frozen=True, kw_only=True)
class Data:
    """The files of a run. A file is a path beside the recipe, or a file of a named data set: `multi30k:train.en.gz`."""

    train: Part
    valid: Part | None = None
    test: Part | None = None
    hold_out: int = 1000  # examples of `train` kept for validation where there is no `valid`
    max_len: int = 128  # tokens of a side, of a stretch of running text, of a window of a long one
    stretch: int | None = None  # tokens of running text read at once, where they are to be fewer than `max_len`
    rename: dict[str, str] = field(default_factory=dict[str, str])  # labels that are read as others: {B-OTH: O}
    balanced: bool = False  # rare labels weigh more, so that all count alike
    pairs: Literal["none", "next", "order"] = "none"  # of `masked`: what is asked of two stretches beside their words
    whole_words: bool = False  # of `masked`: all pieces of a word are hidden together
    language: str = "en"  # of `masked`: by whose rules sentences end

    def __post_init__(self) -> None:
        _at_least(self, hold_out=1, max_len=2, stretch=2)
        if self.stretch is not None and self.stretch > self.max_len:
            raise ValueError(f"stretch is {self.stretch}, and the model reads {self.max_len} (max_len): lower it")


@dataclass(frozen=True, kw_only=True)
class Vocabulary:
    """The tokenizer: one that is learnt from the training text, or the one in `folder`."""

    vocab_size: int = 8000
    kind: Literal["bpe", "unigram", "wordpiece"] | None = None  # None: what the model's family uses
    lowercase: bool = False
    folder: str | None = None

    def __post_init__(self) -> None:
        _at_least(self, vocab_size=2)


@dataclass(frozen=True, kw_only=True)
class Optimiser:
    """How weights change: AdamW (Loshchilov and Hutter 2019) or SGD with momentum."""

    kind: Literal["adamw", "sgd"] = "adamw"
    lr: float = 1e-3
    betas: tuple[float, float] = (0.9, 0.98)
    eps: float = 1e-9
    weight_decay: float = 0.0  # of matrices; norms and biases are left alone
    layer_decay: float = 1.0  # the learning rate of each layer, as a share of that of the one above
    momentum: float = 0.9  # of SGD
    clip: float | None = 1.0  # the largest norm of the gradients; null: any

    def __post_init__(self) -> None:
        _at_least(self, lr=0.0, eps=0.0, weight_decay=0.0, momentum=0.0)
        if not 0.0 < self.layer_decay <= 1.0:
            raise ValueError(f"layer_decay is {self.layer_decay}: above 0 and at most 1")
        if self.clip is not None and self.clip <= 0:
            raise ValueError(f"clip is {self.clip}: a number above 0, or null for none")


@dataclass(frozen=True, kw_only=True)
class Schedule:
    """The learning rate over time: it rises for `warmup` steps, then falls as `kind` says, to `final` of `lr`."""

    kind: Literal["noam", "cosine", "linear", "constant"] = "noam"
    warmup: int = 1000
    final: float = 0.0

    def __post_init__(self) -> None:
        _at_least(self, warmup=0, final=0.0)


@dataclass(frozen=True, kw_only=True)
class Training:
    """The loop: how much is read at once, for how long, and what is kept."""

    steps: int | None = None  # or `epochs`
    epochs: float | None = None  # times through the training examples, in place of `steps`
    batch_tokens: int = 4096  # of all processes and parts together
    batch_examples: int | None = None  # examples of a batch, in place of its tokens
    accumulate: int = 1  # parts in which a process reads its share of a batch: less memory, the same gradient
    optimiser: Optimiser = field(default_factory=Optimiser)
    schedule: Schedule = field(default_factory=Schedule)
    label_smoothing: float = 0.0
    dtype: Literal["auto", "float32", "bfloat16"] = "auto"
    recompute: bool = False  # compute a block's inside again in the backward pass: less memory, a third more time
    evaluate_every: int = 500
    metric: str = "loss"  # what decides which checkpoint is best, and when to stop
    patience: int | None = None  # stop after so many evaluations without a better one
    save_every: int = 500
    keep: int = 3  # checkpoints, beside the best
    average: int = 1  # the final model is the mean of the last so many checkpoints

    @property
    def last(self) -> int:
        """The number of the last step."""
        if self.steps is None:
            raise ValueError("epochs are counted in steps once the data is read")
        return self.steps

    def __post_init__(self) -> None:
        if (self.steps is None) == (self.epochs is None):
            raise ValueError("give train.steps or train.epochs, one of them")
        _at_least(
            self,
            steps=1,
            epochs=0.0,
            batch_tokens=1,
            batch_examples=1,
            accumulate=1,
            evaluate_every=1,
            save_every=1,
            keep=1,
            average=1,
        )
        if not 0.0 <= self.label_smoothing < 1.0:
            raise ValueError(f"label_smoothing is {self.label_smoothing}: from 0 up to, not including, 1")
        if self.patience is not None and self.patience < 1:
            raise ValueError(f"patience is {self.patience}: at least 1, or null to go on to the end")
        if self.average > self.keep:
            raise ValueError(f"average is {self.average}, but only {self.keep} checkpoints are kept: raise keep")


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """The whole of a run."""

    task: str
    data: Data
    train: Training
    model: dict[str, Any] = field(default_factory=dict[str, Any])
    tokenizer: Vocabulary = field(default_factory=Vocabulary)
    seed: int = 1

    def __post_init__(self) -> None:
        if self.task not in TASKS:
            raise ValueError(f"task is {self.task!r}: {unknown(self.task, TASKS)}")
        if not 0 <= self.seed < 2**63:
            raise ValueError(f"seed is {self.seed}: a whole number from 0 to 2**63 - 1")
        task = TASKS[self.task]
        if self.train.metric not in task.metrics:
            raise ValueError(f"train.metric is {self.train.metric!r}: {unknown(self.train.metric, task.metrics)}")
        for name in ("train", "valid", "test"):
            _check_part(f"data.{name}", getattr(self.data, name), task.forms)
        if "shards" in (self.data.test or ()):
            raise ValueError("data.test names shards: what is tested is text, so that its words can be read")


def read_recipe(path: str | Path, changes: Sequence[str] = ()) -> Recipe:
    """The recipe in a YAML file, with `changes` such as "train.steps=100" made to it."""
    path = Path(path)
    try:
        values = _yaml(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{path} is not YAML: {error}") from None
    if not isinstance(values, dict):
        raise ValueError(f"{path} holds no recipe: it must have `task`, `data` and `train`")
    for change in changes:
        _set(values, change)
    try:
        return make_recipe(values)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error


def make_recipe(values: Mapping[str, Any]) -> Recipe:
    """A recipe from plain values, every one of them checked."""
    _known(values, Recipe, "")
    try:
        return TypeAdapter(Recipe).validate_python(values)
    except ValidationError as error:
        told = {_place(e): _told(e) for e in reversed(error.errors())}  # of what may be two things, the first
        raise ValueError("; ".join(reversed(told.values()))) from None


def plain(recipe: Recipe) -> dict[str, Any]:
    """The recipe as plain values, for YAML and JSON."""
    return _plain(asdict(recipe))


def write_recipe(recipe: Recipe, path: Path) -> None:
    """The recipe with every setting it leaves to the defaults, as YAML."""
    write_atomic(path, yaml.safe_dump(plain(recipe), sort_keys=False, allow_unicode=True))


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _plain(v) for k, v in value.items()}
    return [_plain(v) for v in value] if isinstance(value, list | tuple) else value


def _set(values: dict[str, Any], change: str) -> None:
    """Make one change, "a.b=value", where the value is YAML."""
    path, equals, text = change.partition("=")
    if not equals:
        raise ValueError(f"{change!r} changes nothing: write it as name=value, for instance train.steps=100")
    *above, last = path.split(".")
    for name in above:
        inner = values.setdefault(name, {})
        if not isinstance(inner, dict):
            raise ValueError(f"{change!r}: {name} is {inner!r}, which has no parts")
        values = inner
    try:
        values[last] = _yaml(text)
    except ValueError as error:
        raise ValueError(f"{change!r}: the value is not YAML: {error}") from None


def _yaml(text: str) -> Any:
    try:
        return yaml.safe_load(text)
    except (yaml.YAMLError, RecursionError) as error:
        raise ValueError(" ".join(str(error).split())) from None  # in one line


def _known(values: Any, kind: type[Any], where: str) -> None:
    """Refuse keys that no dataclass has, with the one that was perhaps meant."""
    if not isinstance(values, Mapping):
        return
    names = {f.name for f in fields(kind)}
    types = get_type_hints(kind)
    for key, value in values.items():
        if key not in names:
            raise ValueError(f"{where}{key}: {unknown(str(key), sorted(names))}")
        if is_dataclass(types[key]):
            _known(value, types[key], f"{where}{key}.")  # type: ignore[arg-type]


def _place(error: Mapping[str, Any]) -> str:
    """Where it is in the recipe."""
    return ".".join(str(part) for part in error["loc"] if part not in ("str", "list[str]"))


def _told(error: Mapping[str, Any]) -> str:
    """One line of pydantic's in the words of this house."""
    where = _place(error)
    if error["type"] == "missing":
        return f"{where} is missing"
    reason = str(error["msg"]).removeprefix("Value error, ")
    return f"{where}: {reason}" if where else reason


def _check_part(where: str, part: Part | None, forms: tuple[tuple[str, ...], ...]) -> None:
    """A part names every column of one of its task's forms, and nothing else but the table they are in."""
    if part is None:
        return
    every = dict.fromkeys(name for form in forms for name in form)
    for key in part:
        if key not in (*every, *BESIDE):
            raise ValueError(f"{where}.{key}: {unknown(key, (*every, *BESIDE))}")
    for key, value in part.items():
        if isinstance(value, list) and key not in MANY:
            raise ValueError(f"{where}.{key} is a list: only {' and '.join(MANY)} may be several")
        if value == [] or value == "":
            raise ValueError(f"{where}.{key} is empty: name a file or a folder")
    if columns_of_part(part) in map(set, forms):
        return
    near = min(forms, key=lambda form: len(set(form) ^ columns_of_part(part)))
    if missing := [column for column in near if column not in part]:
        raise ValueError(f"{where}.{missing[0]} is missing: the file it is in, or its column in a table `file`")
    raise ValueError(f"{where} names {', '.join(part)}: it is due to name {' or '.join(', '.join(f) for f in forms)}")


def columns_of_part(part: Part) -> set[str]:
    """The columns that a part names."""
    return {name for name in part if name not in BESIDE}


def _at_least(settings: object, **least: float) -> None:
    for name, value in least.items():
        if getattr(settings, name) is not None and getattr(settings, name) < value:
            raise ValueError(f"{name} is {getattr(settings, name)}: it must be at least {value}")


for _kind in (Data, Vocabulary, Optimiser, Schedule, Training, Recipe):
    _kind.__pydantic_config__ = ConfigDict(extra="forbid", allow_inf_nan=False)  # type: ignore[attr-defined]
