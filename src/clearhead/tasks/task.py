"""What a task is: examples become batches, batches a loss, and a model answers. The loop knows no more than this."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import torch
from torch import Tensor, nn

from clearhead.attention import Layout
from clearhead.data import Columns, Integers, Rows
from clearhead.models import ModelConfig
from clearhead.models.families import Family
from clearhead.models.store import Opened
from clearhead.text import Tokenizer


@dataclass(frozen=True, eq=False)
class Batch:
    """Token ids with the words that are to be predicted; an encoder-decoder reads `target` as well."""

    ids: Tensor  # (N,)
    layout: Layout
    labels: Tensor  # of the tokens that the head reads
    target: Tensor | None = None
    target_layout: Layout | None = None

    @property
    def num_tokens(self) -> int:
        """All tokens that are read, of source and target."""
        return len(self.ids) + (0 if self.target is None else len(self.target))

    def to(self, device: torch.device) -> Batch:
        """The same batch with its tensors on `device`."""
        return Batch(
            self.ids.to(device),
            self.layout.to(device),
            self.labels.to(device),
            None if self.target is None else self.target.to(device),
            None if self.target_layout is None else self.target_layout.to(device),
        )


@dataclass(frozen=True)
class LeftOut:
    """Examples that are not trained on, and why."""

    count: int
    total: int
    reason: str

    def __str__(self) -> str:
        return f"{self.count:,} of {self.total:,} examples were left out: {self.reason}"


class Task(Protocol):
    """One job that a model learns."""

    name: ClassVar[str]
    columns: ClassVar[tuple[str, ...]]  # what a row of its data has
    template: ClassVar[str]  # of a tokenizer that is learnt for it
    metrics: ClassVar[tuple[str, ...]]  # what it can be measured by

    @property
    def tokenizer(self) -> Tokenizer: ...

    def encode(self, rows: Rows) -> tuple[Columns, list[LeftOut]]:
        """Rows of text as token ids."""
        ...

    def lengths(self, columns: Columns) -> Integers:
        """The tokens that each example costs."""
        ...

    def counts(self, columns: Columns) -> Integers:
        """The tokens of each example that its loss is a sum over."""
        ...

    def collate(self, columns: Columns, examples: Integers) -> Batch:
        """These examples as one ragged batch."""
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
        """The special tokens of its answers, as `config.json` and `generation_config.json` name them."""
        ...
