"""Translation: a source text in, a target text out, word by word."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any, ClassVar

import numpy as np
from torch import Tensor, nn

from clearhead.data import Columns, Held, Integers, Ragged, Rows
from clearhead.decode import Beam, Writer, generation_config, translate
from clearhead.models import ModelConfig
from clearhead.models.families import FAMILIES, OWN, Family
from clearhead.models.heads import Kind
from clearhead.models.recurrent import RecurrentConfig
from clearhead.models.store import Opened
from clearhead.tasks.bleu import scores
from clearhead.tasks.build import encoder_decoder
from clearhead.tasks.task import Batch, LeftOut, Settings
from clearhead.tasks.words import layout_of, loss_of_words, tensor
from clearhead.text import Tokenizer

CHUNK = 1000  # texts given to the tokenizer at a time


@dataclass(frozen=True, eq=False)
class Translate:
    """Learn p(target | source). Both texts end with the end mark; the decoder begins with padding's id, as Marian's."""

    tokenizer: Tokenizer
    max_len: int = 128
    label_smoothing: float = 0.0

    name: ClassVar[str] = "translate"
    forms: ClassVar[tuple[tuple[str, ...], ...]] = (("source", "target"),)
    drawn: ClassVar[Any] = None
    template: ClassVar[str] = "marian"
    metrics: ClassVar[tuple[str, ...]] = ("loss", "perplexity", "bleu", "chrf")

    @property
    def start(self) -> int:
        """What the decoder reads first."""
        if self.tokenizer.pad_id is None:
            raise ValueError("this tokenizer has no padding token, with which a decoder begins: learn a new one")
        return self.tokenizer.pad_id

    @classmethod
    def learn(cls, rows: Rows, columns: tuple[str, ...]) -> dict[str, Any]:
        """Nothing beside the tokenizer."""
        return {}

    @classmethod
    def make(cls, tokenizer: Tokenizer, settings: Settings, facts: Mapping[str, Any]) -> Translate:
        """With the limits of a recipe."""
        return cls(tokenizer, settings.max_len, settings.label_smoothing)

    @property
    def head(self) -> tuple[Kind, tuple[str, ...]]:
        """Words."""
        return "vocabulary", ()

    def encode(self, rows: Rows) -> tuple[Held, list[LeftOut]]:
        """Pairs as ids; those with a side longer than `max_len` are left out, and told."""
        sources: list[list[int]] = []
        targets: list[list[int]] = []
        seen, stream = 0, iter(rows)
        while chunk := list(islice(stream, CHUNK)):
            seen += len(chunk)
            sides = [self._ids([row.values[c] for row in chunk]) for c in self.forms[0]]
            for source, target in zip(*sides, strict=True):
                if max(len(source), len(target)) <= self.max_len:
                    sources.append(source)
                    targets.append(target)
        left = LeftOut(seen - len(sources), seen, f"a side has more than {self.max_len} tokens (data.max_len)")
        return {"source": Ragged.of(sources), "target": Ragged.of(targets)}, [left] if left.count else []

    def _ids(self, texts: list[str]) -> list[list[int]]:
        tokens = self.tokenizer(texts, offsets=False)
        return [part.tolist() for part in tokens.layout.split(tokens.ids)]

    def lengths(self, columns: Columns, examples: Integers | None = None) -> Integers:
        """Tokens of source and target."""
        return columns["source"].lengths(examples) + columns["target"].lengths(examples)

    def counts(self, columns: Columns, examples: Integers | None = None) -> Integers:
        """Tokens of the target."""
        return columns["target"].lengths(examples)

    def collate(self, columns: Columns, examples: Integers, draw: int = 0) -> Batch:
        """Sources, and targets moved on by one: what the decoder reads is what it has said before."""
        ids, sizes = columns["source"].take(examples)
        labels, lengths = columns["target"].take(examples)
        target = np.empty_like(labels)
        target[1:] = labels[:-1]
        target[np.cumsum(lengths) - lengths] = self.start
        return Batch(tensor(ids), layout_of(sizes), tensor(labels), tensor(target), layout_of(lengths))

    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        """-log p of the target's words, summed; smoothed while training."""
        return loss_of_words(model, batch, self.label_smoothing if model.training else 0.0)

    def config(self, settings: Mapping[str, Any]) -> ModelConfig:
        """An encoder-decoder of a recipe's settings."""
        return encoder_decoder(settings, self.tokenizer.vocab_size, self.max_len)

    def score(self, opened: Opened, rows: Rows, beam: int = 1) -> dict[str, float]:
        """BLEU and chrF of the translations of these rows."""
        pairs = [(row.values["source"], row.values["target"]) for row in rows]
        said = [""] * len(pairs)
        for done, _ in translate(Writer.of(opened), [source for source, _ in pairs], Beam(size=beam)):
            for number, translation in done:
                said[number] = translation.text
        return scores(said, [target for _, target in pairs])

    def layout(self, config: ModelConfig) -> tuple[Family, str]:
        """Marian's; a recurrent net has a layout of its own."""
        if isinstance(config.stack, RecurrentConfig):
            return OWN["clearhead-recurrent"], "RecurrentForConditionalGeneration"
        return FAMILIES["marian"], "MarianMTModel"

    def generation(self) -> dict[str, Any]:
        """The decoder begins with padding, which it may never say."""
        eos = self.tokenizer.eos_id
        if eos is None:
            raise ValueError("this tokenizer has no end mark, without which no translation ends: learn a new one")
        return generation_config("marian", eos=eos, pad=self.start, max_len=self.max_len, beam=5)

    def finished(self, opened: Opened, rows: Rows) -> tuple[Opened, dict[str, Any]]:
        """As it is."""
        return opened, {}
