"""Masked language modelling: guess the words that are hidden, from both sides (Devlin et al. 2019).

With `pairs` two stretches of a text are read at once, and the first token says whether the second follows: "next" puts
a stretch of another text in half of the time (BERT), "order" turns the two around (ALBERT).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from clearhead.data import Columns, Held, Integers, Rows
from clearhead.layers import POOLINGS, word_loss
from clearhead.models import Model, ModelConfig
from clearhead.models.families import FAMILIES, Family
from clearhead.models.heads import Kind, Pretraining, Vocabulary
from clearhead.models.store import Opened
from clearhead.tasks.build import encoder_of_words
from clearhead.tasks.masking import Masks, masks_of
from clearhead.tasks.passages import Passages
from clearhead.tasks.task import Batch, LeftOut, Settings
from clearhead.tasks.words import layout_of, tensor
from clearhead.text import Tokenizer


@dataclass(frozen=True, eq=False)
class Masked:
    """Learn p(hidden word | all others), and whether two stretches belong together."""

    tokenizer: Tokenizer
    settings: Settings = field(default_factory=Settings)
    always: bool = False  # every hidden word is behind the mask

    name: ClassVar[str] = "masked"
    forms: ClassVar[tuple[tuple[str, ...], ...]] = (("text",), ("shards",))
    drawn: ClassVar[Any] = None
    template: ClassVar[str] = "bert"
    metrics: ClassVar[tuple[str, ...]] = ("loss", "words", "accuracy", "pairs")

    @classmethod
    def learn(cls, rows: Rows, columns: tuple[str, ...]) -> dict[str, Any]:
        """Nothing beside the tokenizer."""
        return {}

    @classmethod
    def make(cls, tokenizer: Tokenizer, settings: Settings, facts: Mapping[str, Any]) -> Masked:
        """With the limits of a recipe."""
        return cls(tokenizer, settings)

    @property
    def head(self) -> tuple[Kind, tuple[str, ...]]:
        """Words, and with pairs whether they belong together."""
        return ("vocabulary" if self.settings.pairs == "none" else "pretraining"), ()

    @cached_property
    def passages(self) -> Passages:
        """How documents are read."""
        s = self.settings
        return Passages(self.tokenizer, s.max_len, s.pairs, s.language)

    @cached_property
    def masks(self) -> Masks:
        """How words are hidden."""
        shares = {"masked": 1.0, "random": 0.0} if self.always else {}
        return masks_of(self.tokenizer, whole=self.settings.whole_words, **shares)

    def encode(self, rows: Rows) -> tuple[Held, list[LeftOut]]:
        """Passages of whole sentences of one document each, and where the sentences end."""
        return self.passages.encode(rows), []

    def lengths(self, columns: Columns, examples: Integers | None = None) -> Integers:
        """All tokens of an example."""
        return self.passages.lengths(columns, examples)

    def counts(self, columns: Columns, examples: Integers | None = None) -> Integers:
        """The words that are guessed."""
        return self.masks.counts(columns["ids"].lengths(examples))

    def collate(self, columns: Columns, examples: Integers, draw: int = 0) -> Batch:
        """Passages with some words hidden; labels are (2, hidden): the token, and the word that was there."""
        parts, places, words, segments = ([np.zeros(0, dtype=np.int64)] for _ in range(4))
        sizes: list[int] = []
        follows: list[int] = []
        at = 0
        due = dict(zip(examples.tolist(), self.counts(columns, examples).tolist(), strict=True))
        for number, one in self.passages.each(columns, examples, draw):
            hidden, chosen = self.masks.hide(one.ids, number, draw, due[number])
            parts.append(hidden)
            places.append(chosen + at)
            words.append(one.ids[chosen])
            segments.append(one.segments)
            sizes += one.sizes
            follows += one.follows
            at += len(one.ids)
        labels = tensor(np.stack([np.concatenate(places), np.concatenate(words)]))
        batch = Batch(tensor(np.concatenate(parts)), layout_of(np.array(sizes, dtype=np.int64)), labels)
        if self.settings.pairs == "none":
            return batch
        return replace(batch, segments=tensor(np.concatenate(segments)), owners=torch.tensor(follows))

    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        """-log p of the hidden words, summed; with pairs, the mean of -log p of the answers times as many words."""
        return self._read(model, batch)[0]

    def measured(self, model: nn.Module, batch: Batch) -> tuple[Tensor, dict[str, tuple[float, float]]]:
        """The loss; with pairs, that of words alone; and how many words and pairs are guessed right, in per cent."""
        loss, of_words, chosen, said = self._read(model, batch)
        words = self._words(model).output
        right = sum(
            int((words(part).argmax(1) == label).sum())
            for part, label in zip(chosen.split(512), batch.labels[1].split(512), strict=True)
        )
        count = float(batch.labels.shape[1])
        found = {"accuracy": (100.0 * right, count)}
        if said is not None:
            assert batch.owners is not None
            found["words"] = float(of_words), count
            found["pairs"] = 100.0 * float((said.argmax(1) == batch.owners).sum()), float(len(batch.owners))
        return loss, found

    def _read(self, model: nn.Module, batch: Batch) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
        """The loss, that of words alone, the vectors of the hidden words, and what is said of pairs."""
        assert isinstance(model, Model)
        x = model.states(batch.ids, batch.layout, segments=batch.segments)
        words = self._words(model)
        chosen = words.before(x.index_select(0, batch.labels[0]))
        found = word_loss(chosen, words.output.weight, words.output.bias, batch.labels[1])
        if self.settings.pairs == "none":
            return found, found, chosen, None
        assert isinstance(model.head, Pretraining) and batch.owners is not None
        pooled = torch.tanh(model.head.pooler(POOLINGS["first"](x, batch.layout)))
        said = model.head.follows(model.head.dropout(pooled)).float()
        share = batch.labels.shape[1] / max(len(batch.owners), 1)
        return found + F.cross_entropy(said, batch.owners, reduction="sum") * share, found, chosen, said

    def _words(self, model: nn.Module) -> Vocabulary:
        assert isinstance(model, Model)
        words = model.head if self.settings.pairs == "none" else getattr(model.head, "words", None)
        assert isinstance(words, Vocabulary)
        return words

    def config(self, settings: Mapping[str, Any]) -> ModelConfig:
        """An encoder of a recipe's settings."""
        return encoder_of_words(settings, self.tokenizer, self.settings.max_len, self.head[0])

    def score(self, opened: Opened, rows: Rows, beam: int = 1) -> dict[str, float]:
        """Nothing beside what is measured with the loss."""
        return {}

    def layout(self, config: ModelConfig) -> tuple[Family, str]:
        """That of the family the recipe names."""
        family = FAMILIES[self.settings.family]
        return family, family.architecture({}, self.head[0])

    def generation(self) -> dict[str, Any]:
        """It writes no text."""
        return {}

    def finished(self, opened: Opened, rows: Rows) -> tuple[Opened, dict[str, Any]]:
        """As it is."""
        return opened, {}
