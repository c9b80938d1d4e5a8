"""What embedding and reranking share: rows of texts that belong together, several sequences to an example."""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any, Self

import numpy as np
import torch

from clearhead.data import Columns, InMemoryColumns, Integers, Ragged, Rows
from clearhead.tasks.encoder_task import EncoderTask
from clearhead.tasks.task import Batch, Skipped, TaskConfig, TaskSpec
from clearhead.tasks.windows import CHUNK, collate_windows, concat_columns, windows
from clearhead.text import TokenBatch, Tokenizer

PAIRS = ("anchor", "positive")
TRIPLETS = (*PAIRS, "negative")
SCORED = ("text", "second", "number")
DISTILLED = (*TRIPLETS, "number")


@dataclass(frozen=True, eq=False)
class RankingTask(EncoderTask):
    """A task on pairs, triplets or scored pairs of texts; an example has a sequence for each of its texts or pairs."""

    tokenizer: Tokenizer
    settings: TaskConfig = field(default_factory=TaskConfig)

    @classmethod
    def collect_labels(cls, rows: Rows, columns: tuple[str, ...]) -> dict[str, Any]:
        return {}

    @classmethod
    def from_recipe(cls, tokenizer: Tokenizer, settings: TaskConfig, data_info: Mapping[str, Any]) -> Self:
        return cls(tokenizer, settings)

    @abstractmethod
    def sequences(self, values: Mapping[str, Any]) -> Sequence[Any]:
        """Return what the model reads of a row, one item for each sequence."""

    @abstractmethod
    def number(self, value: Any) -> float:
        """Return the score of a row; raises ValueError for one that cannot be used."""

    @abstractmethod
    def tokenize(self, examples: Sequence[Sequence[Any]]) -> InMemoryColumns:
        """Return examples as columns."""

    def encode(self, rows: Rows) -> tuple[InMemoryColumns, list[Skipped]]:
        """Tokenize the sequences of each example, truncated to `max_len` tokens."""
        parts: list[InMemoryColumns] = []
        labels: list[float] = []
        total, used, reason, stream = 0, 0, "", iter(rows)
        while chunk := list(islice(stream, CHUNK)):
            examples: list[Sequence[Any]] = []
            for row in chunk:
                total += 1
                try:
                    labels += [self.number(row.values["number"])] if "number" in row.values else []
                except ValueError as error:
                    reason = reason or f"{row.file} line {row.line:,}: {error}"
                    continue
                examples.append(self.sequences(row.values))
            if examples:
                parts.append(self.tokenize(examples))
                used += len(examples)
        columns = concat_columns(parts)
        if labels:
            columns["label"] = Ragged.from_numbers(labels)
        return columns, [Skipped(total - used, total, reason)] if total > used else []

    def collate(self, columns: Columns, examples: Integers, draw: int = 0) -> Batch:
        """Return the sequences of these examples; `example_ids` is the example of each."""
        labels = torch.from_numpy(columns["label"].take(examples)[0]) if "label" in columns else torch.zeros(0)
        return collate_windows(columns, examples, labels)


def ranking_spec(name: str, column_sets: tuple[tuple[str, ...], ...]) -> TaskSpec:
    metrics = ("loss", "mrr", "ndcg", "recall_1", "recall_5", "recall_20", "spearman", "pearson")
    return TaskSpec(
        name=name, column_sets=column_sets, metrics=metrics, split_by=(("anchor", "text"), lambda values: "")
    )


def example_columns(tokens: TokenBatch, examples: Sequence[Sequence[Any]], segments: bool) -> InMemoryColumns:
    """Return tokenized sequences as columns with a row for each example."""
    sources = np.repeat(np.arange(len(examples)), [len(example) for example in examples])
    return windows(replace(tokens, sources=torch.from_numpy(sources)), len(examples), segments)


def negatives(value: Any) -> list[str]:
    """Return the negatives in a cell: a text, or a list of texts."""
    return [str(text) for text in value] if isinstance(value, list) else [str(value)]
