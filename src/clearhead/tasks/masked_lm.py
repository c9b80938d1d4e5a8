"""Masked language modelling: predict masked tokens from both sides (Devlin et al. 2019).

With `pairs` two segments of a text are read together, and the first token predicts whether the second follows: "nsp"
replaces it by a segment of another text half of the time (BERT), "sop" swaps the two (ALBERT).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from clearhead.attention import Layout
from clearhead.data import Columns, InMemoryColumns, Integers, Rows
from clearhead.hub.families import FAMILIES
from clearhead.layers import POOLINGS, linear_cross_entropy
from clearhead.models import Model, ModelConfig
from clearhead.models.heads import HeadKind, LMHead, PretrainingHead
from clearhead.tasks.masking import TokenMasker, token_masker
from clearhead.tasks.model_presets import encoder_of_words
from clearhead.tasks.pretraining_examples import PretrainingExamples
from clearhead.tasks.task import Batch, SaveFormat, Skipped, TaskConfig, TaskSpec, TextTask
from clearhead.text import Tokenizer


@dataclass(frozen=True, eq=False)
class MaskedLM(TextTask):
    """Models p(masked token | all others), and whether two segments belong together."""

    tokenizer: Tokenizer
    settings: TaskConfig = field(default_factory=TaskConfig)

    always: ClassVar[bool] = False  # replace every chosen token by the mask
    spec: ClassVar[TaskSpec] = TaskSpec(
        name="masked_lm",
        column_sets=(("text",), ("shards",)),
        metrics=("loss", "mlm_loss", "accuracy", "pair_accuracy"),
    )

    @classmethod
    def collect_labels(cls, rows: Rows, columns: tuple[str, ...]) -> dict[str, Any]:
        """Return nothing: the tokenizer is enough."""
        return {}

    @classmethod
    def from_recipe(cls, tokenizer: Tokenizer, settings: TaskConfig, data_info: Mapping[str, Any]) -> Self:
        """Create the task with a recipe's limits."""
        return cls(tokenizer, settings)

    @property
    def head(self) -> tuple[HeadKind, tuple[str, ...]]:
        """Scores over the vocabulary, and with pairs whether they belong together."""
        return ("lm" if self.settings.pairs == "none" else "pretraining"), ()

    @cached_property
    def passages(self) -> PretrainingExamples:
        s = self.settings
        return PretrainingExamples(self.tokenizer, s.max_len, s.pairs, s.language)

    @cached_property
    def masks(self) -> TokenMasker:
        options = {"masked": 1.0, "random": 0.0} if self.always else {}
        return token_masker(self.tokenizer, whole=self.settings.whole_words, **options)

    def encode(self, rows: Rows) -> tuple[InMemoryColumns, list[Skipped]]:
        return self.passages.encode(rows), []

    def lengths(self, columns: Columns, examples: Integers | None = None) -> Integers:
        return self.passages.lengths(columns, examples)

    def num_targets(self, columns: Columns, examples: Integers | None = None) -> Integers:
        return self.masks.counts(columns["ids"].lengths(examples))

    def collate(self, columns: Columns, examples: Integers, draw: int = 0) -> Batch:
        """Return passages with masked tokens; labels are (2, masked): the position, and the original token."""
        parts, places, words, segments = ([np.zeros(0, dtype=np.int64)] for _ in range(4))
        sizes: list[int] = []
        follows: list[int] = []
        at = 0
        counts = dict(zip(examples.tolist(), self.num_targets(columns, examples).tolist(), strict=True))
        for number, example in self.passages.each(columns, examples, draw):
            masked, chosen = self.masks.hide(example.ids, number, draw, counts[number])
            parts.append(masked)
            places.append(chosen + at)
            words.append(example.ids[chosen])
            segments.append(example.segments)
            sizes += example.sizes
            follows += example.follows
            at += len(example.ids)
        labels = torch.from_numpy(np.stack([np.concatenate(places), np.concatenate(words)]))
        batch = Batch(torch.from_numpy(np.concatenate(parts)), Layout.from_lengths(sizes), labels)
        if self.settings.pairs == "none":
            return batch
        segment_ids = torch.from_numpy(np.concatenate(segments))
        return replace(batch, segments=segment_ids, example_ids=torch.tensor(follows))

    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        """Return -log p of the masked tokens, summed; with pairs, plus their mean -log p times the masked tokens."""
        return self._losses(model, batch)[0]

    def loss_and_metrics(self, model: nn.Module, batch: Batch) -> tuple[Tensor, dict[str, tuple[float, float]]]:
        """Return the loss; with pairs, that of tokens alone; and the accuracy of tokens and pairs, in percent."""
        loss, token_loss, chosen, pair_scores = self._losses(model, batch)
        output = self._lm_head(model).output
        correct = sum(
            int((output(part).argmax(1) == label).sum())
            for part, label in zip(chosen.split(512), batch.labels[1].split(512), strict=True)
        )
        count = float(batch.labels.shape[1])
        measured = {"accuracy": (100.0 * correct, count)}
        if pair_scores is not None:
            assert batch.example_ids is not None
            measured["mlm_loss"] = float(token_loss), count
            correct = float((pair_scores.argmax(1) == batch.example_ids).sum())
            measured["pair_accuracy"] = 100.0 * correct, float(len(batch.example_ids))
        return loss, measured

    def _losses(self, model: nn.Module, batch: Batch) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
        """Return the loss, that of tokens alone, the vectors of the masked tokens, and the scores of pairs."""
        assert isinstance(model, Model)
        x = model.hidden_states(batch.ids, batch.layout, segments=batch.segments)
        head = self._lm_head(model)
        chosen = head.pre_logits(x.index_select(0, batch.labels[0]))
        token_loss = linear_cross_entropy(chosen, head.output.weight, head.output.bias, batch.labels[1])
        if self.settings.pairs == "none":
            return token_loss, token_loss, chosen, None
        assert isinstance(model.head, PretrainingHead) and batch.example_ids is not None
        pooled = torch.tanh(model.head.pooler(POOLINGS["first"](x, batch.layout)))
        pair_scores = model.head.nsp(model.head.dropout(pooled)).float()
        weight = batch.labels.shape[1] / max(len(batch.example_ids), 1)
        pair_loss = F.cross_entropy(pair_scores, batch.example_ids, reduction="sum") * weight
        return token_loss + pair_loss, token_loss, chosen, pair_scores

    def _lm_head(self, model: nn.Module) -> LMHead:
        assert isinstance(model, Model)
        head = model.head if self.settings.pairs == "none" else getattr(model.head, "words", None)
        assert isinstance(head, LMHead)
        return head

    def config(self, settings: Mapping[str, Any]) -> ModelConfig:
        return encoder_of_words(settings, self.tokenizer, self.settings.max_len, self.head[0])

    def save_format(self, config: ModelConfig) -> SaveFormat:
        family = FAMILIES[self.settings.family]
        return SaveFormat(family, family.architecture({}, self.head[0]))
