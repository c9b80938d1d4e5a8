"""The task protocols: rows become batches, batches a loss, and a trained model answers inputs.

`TaskData` turns examples into batches, `Trainable` adds their loss, `TaskModel` describes the model, and `Answering`
runs a trained one. The training loop uses `Trainable`; a recipe trains a `Task`, which is the first three.
"""

import difflib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, ClassVar, Literal, Protocol, Self, TypeVar, runtime_checkable

import torch
from torch import Tensor, nn

from clearhead.attention import Layout
from clearhead.data import Columns, InMemoryColumns, Integers, Rows
from clearhead.hub.families import Family
from clearhead.hub.folder import LoadedModel
from clearhead.hub.image_features import ImageFeatures
from clearhead.hub.sentence import SentenceConfig
from clearhead.layers.vector_losses import LossConfig
from clearhead.metrics.evaluation import Evaluation
from clearhead.models import ModelConfig
from clearhead.models.heads import HeadKind
from clearhead.text import Tokenizer
from clearhead.vision import AugmentConfig, ImageProcessor, PatchConfig
from clearhead.vision.image_codec import ImageCodec


@dataclass(frozen=True, eq=False)
class Batch:
    """Token ids or images with their labels; an encoder-decoder also reads `target`."""

    ids: Tensor  # (N,), or images (B, 3, H, W)
    layout: Layout
    labels: Tensor  # one per token that the head reads, or one per example
    target: Tensor | None = None
    target_layout: Layout | None = None
    segments: Tensor | None = None  # (N,): which text of a pair a token belongs to
    example_ids: Tensor | None = None  # (B,): the example that each sequence is a window of
    sources: Tensor | None = None  # (T,): the source that each target belongs to, where several share one
    weights: Tensor | None = None  # (B,): of each example in the loss
    uniforms: Tensor | None = None  # in [0, 1): one number per label, used to sample replacement tokens

    @property
    def num_tokens(self) -> int:
        """Number of tokens read, source and target together."""
        return self.layout.num_tokens + (0 if self.target is None else len(self.target))

    def to(self, device: torch.device) -> Self:
        """Return the batch on a device; pinned tensors are copied while the device computes."""
        return self._each(lambda x: x.to(device, non_blocking=True), lambda layout: layout.to(device))

    def pin(self) -> Self:
        """Return the batch in page-locked memory."""
        return self._each(Tensor.pin_memory, Layout.pin)

    def _each(self, tensor: Callable[[Tensor], Tensor], layout: Callable[[Layout], Layout]) -> Self:
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        changed = {k: layout(x) if isinstance(x, Layout) else tensor(x) for k, x in values.items() if x is not None}
        return replace(self, **changed)


@dataclass(frozen=True)
class Skipped:
    """Examples that are not trained on, and the reason."""

    count: int
    total: int
    reason: str

    def __str__(self) -> str:
        return f"{self.count:,} of {self.total:,} examples were skipped: {self.reason}"


@dataclass(frozen=True, kw_only=True)
class TaskConfig:
    """The settings that a recipe passes to its task."""

    max_len: int = 128
    label_smoothing: float = 0.0
    doubly_stochastic: float = 0.0  # of captions: weight of the loss on unattended patches
    block_size: int | None = None  # tokens of running text per example; None: max_len
    columns: tuple[str, ...] = ()  # of the rows
    balance_classes: bool = False  # weight labels by inverse frequency
    segments: bool = False  # the model has segment embeddings for the two texts of a pair
    pairs: Literal["none", "nsp", "sop"] = "none"  # masked LM: next-sentence or sentence-order prediction
    whole_words: bool = False  # masked LM: mask all tokens of a word together
    language: str = "en"  # for sentence splitting
    family: str = "bert"  # of the pre-trained encoder
    encoder: bool = False  # dialogue: an encoder reads the history
    loss: LossConfig = field(default_factory=LossConfig)  # of embed and rerank
    embedding: SentenceConfig = field(default_factory=lambda: SentenceConfig(normalize=True))  # of embed
    image_processor: ImageProcessor | None = None
    image_features: ImageFeatures | None = None  # a frozen network that reads images before the model
    patches: PatchConfig | None = None  # how a new model divides images, or their features
    image_tokens: int = 0  # of an image, for the size of batches
    image_codec: ImageCodec | None = None  # of draw: images as codes
    augment: AugmentConfig = field(default_factory=AugmentConfig)  # of training images


SplitBy = tuple[str | tuple[str, ...], Callable[[Mapping[str, Any]], str]]


@dataclass(frozen=True, kw_only=True)
class TaskSpec:
    """The constants of a task."""

    name: str
    column_sets: tuple[tuple[str, ...], ...]  # a row of its data has one of these sets of columns
    metrics: tuple[str, ...]  # what `train.metric` may be
    template: str | None = "bert"  # of the tokenizer that is trained for it; None: it has none
    split_by: SplitBy | None = None
    """How validation rows are drawn: rows with the same value in the column (the first of several that the data has)
    stay together, and the split is stratified by the function of a row's values. None: the task learns from text alone,
    and takes the first rows."""


@dataclass(frozen=True)
class SaveFormat:
    """How a trained model is written to a folder."""

    family: Family
    architecture: str
    generation: Mapping[str, Any] = field(default_factory=dict[str, Any])  # generation_config.json; empty: no text
    files: Mapping[str, bytes] = field(default_factory=dict[str, bytes])  # other files of the folder


class TaskData(Protocol):
    """From examples to batches."""

    def lengths(self, columns: Columns, examples: Integers | None = None) -> Integers:
        """Return the number of tokens read for each example."""
        ...

    def num_targets(self, columns: Columns, examples: Integers | None = None) -> Integers:
        """Return the number of terms that each example adds to the loss."""
        ...

    def collate(self, columns: Columns, examples: Integers, draw: int = 0) -> Batch:
        """Return these examples as one ragged batch; randomness depends on `draw` and each example's number only."""
        ...


class Trainable(TaskData, Protocol):
    """What the training loop needs: examples and their loss."""

    spec: ClassVar[TaskSpec]

    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        """Return the loss summed over the targets of the batch."""
        ...


class TaskModel(Protocol):
    """The model of a task."""

    @property
    def head(self) -> tuple[HeadKind, tuple[str, ...]]:
        """The kind of head, and its labels."""
        ...

    def config(self, settings: Mapping[str, Any]) -> ModelConfig:
        """Return the configuration for the `model` section of a recipe."""
        ...

    def save_format(self, config: ModelConfig) -> SaveFormat:
        """Return the family and architecture that a trained model is saved as, and its generation config."""
        ...

    def finalize(self, loaded: LoadedModel, rows: Rows) -> tuple[LoadedModel, dict[str, Any]]:
        """Return the model to save and the `answers` section of its manifest, tuned on the validation rows."""
        ...


class Task(Trainable, TaskModel, Protocol):
    """What a recipe trains."""

    @property
    def tokenizer(self) -> Tokenizer | None:
        """None: the task reads images."""
        ...

    def encode(self, rows: Rows) -> tuple[InMemoryColumns, list[Skipped]]:
        """Tokenize rows: the columns of the examples, and the rows that were skipped."""
        ...

    @classmethod
    def collect_labels(cls, rows: Rows, columns: tuple[str, ...]) -> dict[str, Any]:
        """Return what must be known of the training rows before encoding them, such as labels, in plain values."""
        ...

    @classmethod
    def from_recipe(cls, tokenizer: Tokenizer, settings: TaskConfig, data_info: Mapping[str, Any]) -> Self:
        """Create the task from a recipe's settings and the result of `collect_labels`."""
        ...

    def score(self, loaded: LoadedModel, rows: Rows, beam: int = 1) -> dict[str, float]:
        """Return the metrics of the model's answers to these rows; empty where the loss is the only metric."""
        ...


class TextTask:
    """What tasks that learn from text alone share: no labels to collect, no metric but the loss, nothing to tune."""

    @classmethod
    def collect_labels(cls, rows: Rows, columns: tuple[str, ...]) -> dict[str, Any]:
        return {}

    @property
    def head(self) -> tuple[HeadKind, tuple[str, ...]]:
        return "lm", ()

    def score(self, loaded: LoadedModel, rows: Rows, beam: int = 1) -> dict[str, float]:
        return {}

    def finalize(self, loaded: LoadedModel, rows: Rows) -> tuple[LoadedModel, dict[str, Any]]:
        return loaded, {}


InputT = TypeVar("InputT")
ResultT = TypeVar("ResultT", covariant=True)


class Answering(Protocol[InputT, ResultT]):
    """A task whose trained model answers inputs: pipeline, server, command line and error analysis call `answer`."""

    spec: ClassVar[TaskSpec]

    @classmethod
    def from_model(cls, loaded: LoadedModel) -> Self:
        """Create the task that a model folder was trained for; raises ValueError where it has another head."""
        ...

    def input_from(self, values: Mapping[str, Any]) -> InputT:
        """Return the input in the columns of a row."""
        ...

    def answer(self, loaded: LoadedModel, inputs: Sequence[InputT]) -> Iterator[ResultT]:
        """Yield one result per input, in order."""
        ...

    def evaluate(self, loaded: LoadedModel, rows: Rows) -> Evaluation:
        """Compare the answers to these rows with their labels."""
        ...


@runtime_checkable
class MeasuresBatch(Protocol):
    """A task that computes metrics of a batch together with its loss."""

    def loss_and_metrics(self, model: nn.Module, batch: Batch) -> tuple[Tensor, dict[str, tuple[float, float]]]:
        """Return the loss, and for each metric a numerator and a denominator that are summed over batches."""
        ...


@runtime_checkable
class ReadsImages(Protocol):
    """A task that reads images instead of text."""

    @property
    def processor(self) -> ImageProcessor: ...

    @property
    def features(self) -> ImageFeatures | None:
        """The frozen network that reads images before the model; None: the model reads pixels."""
        ...


@runtime_checkable
class WholeBatchLoss(Protocol):
    """A task whose loss compares all texts of a batch, and needs nothing but a vector of each."""

    def vectors(self, model: nn.Module, batch: Batch) -> Tensor:
        """Return one vector for each text of the batch, (texts, D), float32."""
        ...

    def vectors_loss(self, vectors: Tensor, batch: Batch) -> Tensor:
        """Return the loss of a batch from the vectors of its texts, summed over the targets."""
        ...


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return the end of an error message about an unknown name, with the closest known one."""
    names = list(known)
    near = difflib.get_close_matches(name, names, n=1)
    return f"there is no such name; {f'did you mean {near[0]!r}?' if near else 'there are: ' + ', '.join(names)}"
