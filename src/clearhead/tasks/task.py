"""What a task is: examples become batches, batches a loss, and a model answers. The loop knows no more than this."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, Literal, Protocol, Self, runtime_checkable

import torch
from torch import Tensor, nn

from clearhead.attention import Layout
from clearhead.data import Columns, Held, Integers, Rows
from clearhead.models import ModelConfig
from clearhead.models.families import Family
from clearhead.models.heads import Kind
from clearhead.models.store import Opened
from clearhead.text import Tokenizer


@dataclass(frozen=True, eq=False)
class Batch:
    """Token ids with what is to be predicted; an encoder-decoder reads `target` as well."""

    ids: Tensor  # (N,)
    layout: Layout
    labels: Tensor  # of the tokens that the head reads, or of the examples
    target: Tensor | None = None
    target_layout: Layout | None = None
    segments: Tensor | None = None  # (N,): which text of a pair a token is of
    owners: Tensor | None = None  # (B,): the example that each sequence is a window of
    chances: Tensor | None = None  # from 0 to 1, what is drawn for each label is drawn by

    @property
    def num_tokens(self) -> int:
        """All tokens that are read, of source and target."""
        return len(self.ids) + (0 if self.target is None else len(self.target))

    def to(self, device: torch.device) -> Batch:
        """The same batch with its tensors on `device`."""
        held = {field.name: getattr(self, field.name) for field in fields(self)}
        return replace(self, **{name: part.to(device) for name, part in held.items() if part is not None})


@dataclass(frozen=True)
class LeftOut:
    """Examples that are not trained on, and why."""

    count: int
    total: int
    reason: str

    def __str__(self) -> str:
        return f"{self.count:,} of {self.total:,} examples were left out: {self.reason}"


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What a recipe tells its task."""

    max_len: int = 128
    label_smoothing: float = 0.0
    stretch: int | None = None  # tokens of running text read at once; None: max_len
    columns: tuple[str, ...] = ()  # of its rows
    balanced: bool = False  # rare labels weigh more, so that all count alike
    segments: bool = False  # the model tells the two texts of a pair apart
    pairs: Literal["none", "next", "order"] = "none"  # of masked words: what is asked of two stretches beside them
    whole_words: bool = False  # of masked words: all pieces of a word are hidden together
    language: str = "en"  # by whose rules sentences end
    family: str = "bert"  # of the encoder that learns words
    encoder: bool = False  # of conversations: an encoder reads what was said


@runtime_checkable
class Measured(Protocol):
    """A task that tells more of a batch than its loss, in one go."""

    def measured(self, model: nn.Module, batch: Batch) -> tuple[Tensor, dict[str, tuple[float, float]]]:
        """The loss; and for each metric a sum over the batch, and what the sum over all batches is divided by."""
        ...


class Task(Protocol):
    """One job that a model learns."""

    name: ClassVar[str]
    forms: ClassVar[tuple[tuple[str, ...], ...]]  # the columns that a row of its data has: one of these sets
    drawn: ClassVar[Any]  # rows kept aside: (column, label) draws them by a seed, all rows with the same in this column
    # together and evenly over what `label` makes of a row's values; None takes the first
    template: ClassVar[str]  # of a tokenizer that is learnt for it
    metrics: ClassVar[tuple[str, ...]]  # what it can be measured by

    @classmethod
    def learn(cls, rows: Rows, columns: tuple[str, ...]) -> dict[str, Any]:
        """What must be known of the training rows before they are read, such as their labels, in plain values."""
        ...

    @classmethod
    def make(cls, tokenizer: Tokenizer, settings: Settings, facts: Mapping[str, Any]) -> Self:
        """The task of a recipe, given what was learnt of its rows."""
        ...

    @property
    def tokenizer(self) -> Tokenizer: ...

    @property
    def head(self) -> tuple[Kind, tuple[str, ...]]:
        """The head that answers, and its labels."""
        ...

    def encode(self, rows: Rows) -> tuple[Held, list[LeftOut]]:
        """Rows of text as token ids."""
        ...

    def lengths(self, columns: Columns, examples: Integers | None = None) -> Integers:
        """The tokens that each example costs."""
        ...

    def counts(self, columns: Columns, examples: Integers | None = None) -> Integers:
        """The tokens of each example that its loss is a sum over."""
        ...

    def collate(self, columns: Columns, examples: Integers, draw: int = 0) -> Batch:
        """These examples as one ragged batch; what is random in it follows from `draw` and each example's number."""
        ...

    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        """The loss summed over the tokens of the batch."""
        ...

    def config(self, settings: Mapping[str, Any]) -> ModelConfig:
        """The model that a recipe's `model` section asks for."""
        ...

    def score(self, opened: Opened, rows: Rows, beam: int = 1) -> dict[str, float]:
        """What its answers to these rows are worth, beside the loss; nothing where the loss says it all."""
        ...

    def layout(self, config: ModelConfig) -> tuple[Family, str]:
        """The family and architecture that a trained model is saved as."""
        ...

    def generation(self) -> dict[str, Any]:
        """The special tokens of its answers, as `config.json` and `generation_config.json` name them; none where it
        writes no text.
        """
        ...

    def finished(self, opened: Opened, rows: Rows) -> tuple[Opened, dict[str, Any]]:
        """The model as it is to be saved, and what its manifest says of how to answer, settled on held-out rows."""
        ...
