"""What tasks share that label what an encoder has read: the model they are built as, and answers batch by batch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from torch import nn

from clearhead.data import Batches, Columns, Integers
from clearhead.models import ModelConfig
from clearhead.models.families import FAMILIES, OWN, Family
from clearhead.models.families.table import POOLED
from clearhead.models.heads import Kind
from clearhead.models.recurrent import RecurrentConfig
from clearhead.models.store import Opened
from clearhead.tasks import metrics
from clearhead.tasks.build import encoder_only
from clearhead.tasks.task import Batch, Settings, Task

BUDGET = 8192  # tokens answered at once


class Labelling:
    """A task on BERT's layout, or on that of recurrent nets, which writes no text."""

    settings: Settings
    suffix: ClassVar[str]  # of its architectures' names: SequenceClassification, ...

    def config(self: Any, settings: Mapping[str, Any]) -> ModelConfig:
        """An encoder of a recipe's settings with fresh weights."""
        return encoder_only(settings, self.tokenizer.vocab_size, self.settings.max_len, *self.head)

    def layout(self, config: ModelConfig) -> tuple[Family, str]:
        """BERT's; a recurrent net has a layout of its own."""
        if isinstance(config.stack, RecurrentConfig):
            return OWN["clearhead-recurrent"], f"RecurrentFor{self.suffix}"
        pooled = config.head is not None and config.head.kind == "sequence" and not config.head.pooler
        return FAMILIES["bert"], POOLED if pooled else f"BertFor{self.suffix}"

    def generation(self) -> dict[str, Any]:
        """It writes no text."""
        return {}

    def score(self: Any, opened: Opened, rows: Any, beam: int = 1) -> dict[str, float]:
        """The metrics on these rows."""
        judged: metrics.Judged = self.judged(opened, rows)
        return judged.scores()


def labels_of(opened: Opened, kind: Kind, does: str, task: str) -> tuple[str, ...]:
    """The labels of a folder's head; a ValueError where it is not of the kind that does this."""
    head = opened.config.head
    if head is None or head.kind != kind:
        raise ValueError(
            f"{opened.architecture} does not {does}: `clearhead new {task} --data FILE` trains one that does"
        )
    return head.labels


def in_order(task: Task, model: nn.Module, columns: Columns) -> Iterator[tuple[Integers, Batch]]:
    """All examples in batches of a token budget, in order, where the model is."""
    lengths = task.lengths(columns)
    batches = Batches(lengths, max(BUDGET, int(lengths.max(initial=0))), shuffled=False)
    device = next(iter(model.parameters())).device
    for i in range(len(batches)):
        examples = batches.batch(0, i)
        yield examples, task.collate(columns, examples).to(device)
