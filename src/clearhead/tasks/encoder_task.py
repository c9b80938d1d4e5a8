"""What tasks on an encoder share: model configuration, save format, and inference in batches."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from typing import ClassVar

import numpy as np
from torch import nn

from clearhead.data import Columns, Integers, Rows, TokenBudgetBatches
from clearhead.hub.families import FAMILIES, OWN
from clearhead.hub.folder import LoadedModel
from clearhead.hub.mapping import POOLED
from clearhead.metrics.evaluation import Evaluation
from clearhead.models import ModelConfig
from clearhead.models.heads import HeadKind
from clearhead.models.recurrent import RecurrentConfig
from clearhead.tasks.model_presets import encoder_only
from clearhead.tasks.task import Batch, SaveFormat, TaskConfig, TaskData
from clearhead.text import Tokenizer

BATCH_TOKENS = 8192  # tokens per inference batch


class EncoderTask(ABC):
    """A task whose head labels the output of a BERT or recurrent encoder."""

    tokenizer: Tokenizer
    settings: TaskConfig
    suffix: ClassVar[str]  # of its architecture names: SequenceClassification, ...

    @property
    @abstractmethod
    def head(self) -> tuple[HeadKind, tuple[str, ...]]:
        """The kind of head, and its labels."""

    @abstractmethod
    def evaluate(self, loaded: LoadedModel, rows: Rows) -> Evaluation:
        """Compare the answers to these rows with their labels."""

    def lengths(self, columns: Columns, examples: Integers | None = None) -> Integers:
        return columns["ids"].lengths(examples)

    def num_targets(self, columns: Columns, examples: Integers | None = None) -> Integers:
        return np.ones(len(columns["ids"] if examples is None else examples), dtype=np.int64)

    def config(self, settings: Mapping[str, object]) -> ModelConfig:
        return encoder_only(settings, self.tokenizer.vocab_size, self.settings.max_len, *self.head)

    def save_format(self, config: ModelConfig) -> SaveFormat:
        """Return BERT's format; recurrent networks have clearhead's own."""
        if isinstance(config.stack, RecurrentConfig):
            return SaveFormat(OWN["clearhead-recurrent"], f"RecurrentFor{self.suffix}")
        pooled = config.head is not None and config.head.kind == "sequence" and not config.head.pooler
        return SaveFormat(FAMILIES["bert"], POOLED if pooled else f"BertFor{self.suffix}")

    def score(self, loaded: LoadedModel, rows: Rows, beam: int = 1) -> dict[str, float]:
        return self.evaluate(loaded, rows).scores()


def head_labels(loaded: LoadedModel, kind: HeadKind, does: str, task: str) -> tuple[str, ...]:
    """Return the labels of a model's head; raises ValueError where it is of another kind."""
    head = loaded.config.head
    if head is None or head.kind != kind:
        raise ValueError(
            f"{loaded.architecture} does not {does}: `clearhead new {task} --data FILE` starts a model that does"
        )
    return head.labels


def batches_in_order(task: TaskData, model: nn.Module, columns: Columns) -> Iterator[tuple[Integers, Batch]]:
    """Yield all examples in batches of a token budget, in order, on the model's device."""
    lengths = task.lengths(columns)
    batches = TokenBudgetBatches(lengths, max(BATCH_TOKENS, int(lengths.max(initial=0))), shuffled=False)
    device = next(iter(model.parameters())).device
    for i in range(len(batches)):
        examples = batches.batch(0, i)
        yield examples, task.collate(columns, examples).to(device)
