"""Replaced-token detection (ELECTRA, Clark et al. 2020): a small generator fills in words, and the model finds which.

The generator learns to guess hidden words; what it guesses, drawn by its own odds, stands in their place, and the model
says of every token whether it was there before. Every token teaches, not the hidden ones alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from clearhead.data import Columns, Held, Integers, Rows
from clearhead.models import Model, ModelConfig
from clearhead.models.families import FAMILIES, Family
from clearhead.models.heads import Kind
from clearhead.models.store import Opened
from clearhead.tasks.build import encoder_of_words, generator_of
from clearhead.tasks.masked import Masked
from clearhead.tasks.task import Batch, LeftOut, Settings
from clearhead.text import Tokenizer

WEIGHT = 50.0  # of what the model says against the generator's words (Clark et al. 2020, section 3.2)


@dataclass(frozen=True, eq=False)
class Replaced:
    """Learn which words were replaced by those of a generator that learns beside it."""

    tokenizer: Tokenizer
    settings: Settings = field(default_factory=Settings)

    name: ClassVar[str] = "replaced"
    forms: ClassVar[tuple[tuple[str, ...], ...]] = Masked.forms
    drawn: ClassVar[Any] = None
    template: ClassVar[str] = "bert"
    metrics: ClassVar[tuple[str, ...]] = ("loss", "found", "precision", "recall", "words", "accuracy")

    @classmethod
    def learn(cls, rows: Rows, columns: tuple[str, ...]) -> dict[str, Any]:
        """Nothing beside the tokenizer."""
        return {}

    @classmethod
    def make(cls, tokenizer: Tokenizer, settings: Settings, facts: Mapping[str, Any]) -> Replaced:
        """With the limits of a recipe."""
        if settings.pairs != "none":
            raise ValueError(f"data.pairs is {settings.pairs!r}: replaced words are found in single texts: take it out")
        return cls(tokenizer, settings)

    @property
    def head(self) -> tuple[Kind, tuple[str, ...]]:
        """One score for each token."""
        return "discriminator", ()

    @cached_property
    def _masked(self) -> Masked:
        """What the generator learns: every hidden word is behind the mask."""
        return Masked(self.tokenizer, self.settings, always=True)

    def encode(self, rows: Rows) -> tuple[Held, list[LeftOut]]:
        """Passages of whole sentences of one document each."""
        return self._masked.encode(rows)

    def lengths(self, columns: Columns, examples: Integers | None = None) -> Integers:
        """All tokens of an example."""
        return self._masked.lengths(columns, examples)

    def counts(self, columns: Columns, examples: Integers | None = None) -> Integers:
        """The words that are hidden."""
        return self._masked.counts(columns, examples)

    def collate(self, columns: Columns, examples: Integers, draw: int = 0) -> Batch:
        """As for masked words, and a number between 0 and 1 that each word in their place is drawn by."""
        batch = self._masked.collate(columns, examples, draw)
        chances = [np.zeros(0, dtype=np.float32)]
        for number, count in zip(examples.tolist(), self.counts(columns, examples).tolist(), strict=True):
            source = np.random.Generator(np.random.Philox(np.random.SeedSequence([draw, number, 2])))
            chances.append(source.random(count, dtype=np.float32))
        return replace(batch, chances=torch.from_numpy(np.concatenate(chances)[: batch.labels.shape[1]]))

    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        """The generator's -log p of the hidden words, summed, and the model's mean over tokens times as many words."""
        words, own, *_ = self._read(model, batch)
        return words + WEIGHT * own * batch.labels.shape[1]

    def measured(self, model: nn.Module, batch: Batch) -> tuple[Tensor, dict[str, tuple[float, float]]]:
        """The loss, its two parts, and how well replaced words are found, in per cent."""
        words, own, said, replaced, right = self._read(model, batch)
        hidden, told = batch.labels.shape[1], said > 0
        both = 100.0 * float((told & replaced).sum())
        return words + WEIGHT * own * hidden, {
            "words": (float(words), hidden),
            "accuracy": (100.0 * float(right), hidden),
            "found": (float(own) * len(said), len(said)),
            "precision": (both, float(told.sum())),
            "recall": (both, float(replaced.sum())),
        }

    def _read(self, model: nn.Module, batch: Batch) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
        """The loss of the generator's words, the model's mean, its scores, what is replaced, words guessed right."""
        assert isinstance(model, Model) and model.generator is not None and batch.chances is not None
        guessed = model.generator(batch.ids, batch.layout, places=batch.labels[0])
        words = F.cross_entropy(guessed.float(), batch.labels[1], reduction="sum")
        with torch.no_grad():
            odds = torch.softmax(guessed.float(), 1).cumsum(1)
            drawn = torch.searchsorted(odds, batch.chances.unsqueeze(1) * odds[:, -1:]).squeeze(1)
            drawn = drawn.clamp(max=guessed.shape[1] - 1)
            replaced = torch.zeros(len(batch.ids), dtype=torch.bool, device=batch.ids.device)
            replaced[batch.labels[0]] = drawn != batch.labels[1]
            right = (guessed.argmax(1) == batch.labels[1]).sum()
        said = model(batch.ids.index_put((batch.labels[0],), drawn), batch.layout).squeeze(1).float()
        own = F.binary_cross_entropy_with_logits(said, replaced.float())
        return words, own if len(said) else said.sum(), said, replaced, right

    def config(self, settings: Mapping[str, Any]) -> ModelConfig:
        """An ELECTRA of a recipe's settings, with a generator of a quarter of its width."""
        told = {"family": "electra", **settings}
        if told["family"] != "electra":
            raise ValueError(f"model.family is {told['family']!r}: replaced words are found by an electra")
        made = encoder_of_words(told, self.tokenizer, self.settings.max_len, "discriminator")
        return replace(made, generator=generator_of(made))

    def score(self, opened: Opened, rows: Rows, beam: int = 1) -> dict[str, float]:
        """Nothing beside what is measured with the loss."""
        return {}

    def layout(self, config: ModelConfig) -> tuple[Family, str]:
        """ELECTRA's."""
        return FAMILIES["electra"], "ElectraForPreTraining"

    def generation(self) -> dict[str, Any]:
        """It writes no text."""
        return {}

    def finished(self, opened: Opened, rows: Rows) -> tuple[Opened, dict[str, Any]]:
        """The model, and beside it the generator, each as a folder of its own."""
        config, maker = opened.config, opened.model.generator
        assert maker is not None and config.generator is not None
        alone = copy(opened.model)  # the same weights; who holds the two together keeps them so
        alone._modules = {**alone._modules, "generator": None}
        words = opened.family.architecture({}, "vocabulary")
        raw = opened.family.write(config.generator, words)
        beside = replace(opened, model=maker, config=config.generator, architecture=words, raw=raw)
        return replace(opened, model=alone, config=replace(config, generator=None), beside={"generator": beside}), {}
