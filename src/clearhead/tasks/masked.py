"""Masked language modelling: guess the words that are hidden, from both sides (Devlin et al. 2019).

With `pairs` two stretches of a text are read at once, and the first token says whether the second follows: "next" puts
a stretch of another text in half of the time (BERT), "order" turns the two around (ALBERT).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from clearhead.data import Columns, Integers, Ragged, Row, Rows
from clearhead.data.readers import TABLES
from clearhead.data.shards import packed
from clearhead.layers import POOLINGS, word_loss
from clearhead.models import Model, ModelConfig
from clearhead.models.families import FAMILIES, Family
from clearhead.models.heads import Kind, Pretraining, Vocabulary
from clearhead.models.store import Opened
from clearhead.tasks.build import encoder_of_words
from clearhead.tasks.masking import Masks
from clearhead.tasks.task import Batch, LeftOut, Settings
from clearhead.tasks.words import layout_of, tensor
from clearhead.text import Tokenizer, sentences_of

Pairs = Literal["none", "next", "order"]
CHUNK = 200  # documents turned into tokens at once
FOLLOWS, OTHER = 0, 1


@dataclass(frozen=True, eq=False)
class Masked:
    """Learn p(hidden word | all others), and whether two stretches belong together."""

    tokenizer: Tokenizer
    max_len: int = 128
    pairs: Pairs = "none"
    whole: bool = False  # whole words are hidden
    language: str = "en"

    name: ClassVar[str] = "masked"
    forms: ClassVar[tuple[tuple[str, ...], ...]] = (("text",),)
    drawn: ClassVar[Any] = None
    template: ClassVar[str] = "bert"
    metrics: ClassVar[tuple[str, ...]] = ("loss", "perplexity")

    @classmethod
    def learn(cls, rows: Rows, columns: tuple[str, ...]) -> dict[str, Any]:
        """Nothing beside the tokenizer."""
        return {}

    @classmethod
    def make(cls, tokenizer: Tokenizer, settings: Settings, facts: Mapping[str, Any]) -> Masked:
        """With the limits of a recipe."""
        return cls(tokenizer, settings.max_len, settings.pairs, settings.whole_words, settings.language)

    @property
    def head(self) -> tuple[Kind, tuple[str, ...]]:
        """Words, and with pairs whether they belong together."""
        return ("vocabulary" if self.pairs == "none" else "pretraining"), ()

    @cached_property
    def masks(self) -> Masks:
        """How words are hidden."""
        words = self.tokenizer
        if words.mask_id is None or words.bos_id is None or words.eos_id is None:
            raise ValueError("this tokenizer has no mask, or no marks around a text: learn one with the BERT template")
        special = frozenset(i for i in (words.id(token) for token in words.specials.values()) if i is not None)
        goes_on = None
        if self.whole:
            pieces = words.tokens(list(range(words.vocab_size)))
            goes_on = np.array([piece.startswith("##") for piece in pieces], dtype=np.int64)
        return Masks(words.mask_id, words.vocab_size, special, goes_on)

    @property
    def marks(self) -> int:
        """Special tokens of an example."""
        return 2 if self.pairs == "none" else 3

    def encode(self, rows: Rows) -> tuple[Columns, list[LeftOut]]:
        """Stretches of whole sentences of one document each, and where the sentences end."""
        ids: list[Integers] = []
        ends: list[Integers] = []
        stream = documents_of(rows)
        while chunk := list(islice(stream, CHUNK)):
            sentences = [sentences_of(text, self.language) for text in chunk]
            flat = [sentence for many in sentences for sentence in many]
            if not flat:
                continue
            found = self.tokenizer(flat, special=False, offsets=False)
            each = iter(found.ids.split(list(found.layout.sizes)))
            for many in sentences:
                document = [next(each).tolist() for _ in many]
                for block in packed([document], self.max_len - self.marks):
                    ids.append(block.tokens)
                    ends.append(block.sentences)
        return {"ids": Ragged.of(ids), "ends": Ragged.of(ends)}, []

    def lengths(self, columns: Columns) -> Integers:
        """All tokens of an example; what another text brings is never longer than what it replaces."""
        return columns["ids"].lengths + self.marks

    def counts(self, columns: Columns) -> Integers:
        """The words that are guessed."""
        return np.array([self.masks.count(int(n)) for n in columns["ids"].lengths], dtype=np.int64)

    def collate(self, columns: Columns, examples: Integers, draw: int = 0) -> Batch:
        """Stretches with some words hidden; labels are (2, hidden): the token, and the word that was there."""
        parts: list[Integers] = []
        places: list[Integers] = []
        words: list[Integers] = []
        segments: list[Integers] = []
        follows: list[int] = []
        at = 0
        for example in examples.tolist():
            ids, segment, kind = self._framed(columns, example, draw)
            due = self.masks.count(int(columns["ids"].lengths[example]))
            hidden, chosen = self.masks.hide(ids, example, draw, due)
            parts.append(hidden)
            places.append(chosen + at)
            words.append(ids[chosen])
            segments.append(segment)
            follows.append(kind)
            at += len(ids)
        none = np.zeros(0, dtype=np.int64)
        layout = layout_of(np.array([len(part) for part in parts], dtype=np.int64))
        labels = tensor(np.stack([np.concatenate([none, *places]), np.concatenate([none, *words])]))
        batch = Batch(tensor(np.concatenate([none, *parts])), layout, labels)
        if self.pairs == "none":
            return batch
        return replace(
            batch, segments=tensor(np.concatenate([none, *segments])), owners=torch.tensor(follows, dtype=torch.int64)
        )

    def _framed(self, columns: Columns, example: int, draw: int) -> tuple[Integers, Integers, int]:
        """An example between its marks, the segment of each token, and whether its second part follows."""
        first, last = self.tokenizer.bos_id, self.tokenizer.eos_id
        ids = columns["ids"].take(np.array([example]))[0]
        if self.pairs == "none":
            return np.concatenate([[first], ids, [last]]), np.zeros(len(ids) + 2, dtype=np.int64), FOLLOWS
        source = np.random.Generator(np.random.Philox(np.random.SeedSequence([draw, example, 1])))
        ends = columns["ends"].take(np.array([example]))[0]
        cut = int(source.choice(ends[:-1])) if len(ends) > 1 else len(ids) // 2
        a, b, kind = ids[:cut], ids[cut:], FOLLOWS
        if source.random() < 0.5:
            kind = OTHER
            if self.pairs == "order":
                a, b = b, a
            else:
                b = self._another(columns, example, len(b), source)
        segment = np.repeat([0, 1], [len(a) + 2, len(b) + 1])
        return np.concatenate([[first], a, [last], b, [last]]), segment, kind

    def _another(self, columns: Columns, example: int, room: int, source: np.random.Generator) -> Integers:
        """A stretch of another example, of just as many tokens where it has them."""
        count = len(columns["ids"])
        other = int(source.integers(count - 1)) if count > 1 else example
        other += other >= example and count > 1
        ids = columns["ids"].take(np.array([other]))[0]
        start = int(source.integers(max(len(ids) - room, 0) + 1))
        return ids[start : start + room]

    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        """-log p of the hidden words, summed; with pairs, the mean of -log p of the answers times as many words."""
        assert isinstance(model, Model)
        x = model.states(batch.ids, batch.layout, segments=batch.segments)
        words = model.head if self.pairs == "none" else getattr(model.head, "words", None)
        assert isinstance(words, Vocabulary)
        chosen = words.before(x.index_select(0, batch.labels[0]))
        found = word_loss(chosen, words.output.weight, words.output.bias, batch.labels[1])
        if self.pairs == "none":
            return found
        assert isinstance(model.head, Pretraining) and batch.owners is not None
        pooled = torch.tanh(model.head.pooler(POOLINGS["first"](x, batch.layout)))
        said = model.head.follows(model.head.dropout(pooled)).float()
        share = batch.labels.shape[1] / max(len(batch.owners), 1)
        return found + F.cross_entropy(said, batch.owners, reduction="sum") * share

    def config(self, settings: Mapping[str, Any]) -> ModelConfig:
        """An encoder of a recipe's settings."""
        return encoder_of_words(settings, self.tokenizer.vocab_size, self.max_len, self.head[0])

    def score(self, opened: Opened, rows: Rows, beam: int = 1) -> dict[str, float]:
        """Nothing beside the loss."""
        return {}

    def layout(self, config: ModelConfig) -> tuple[Family, str]:
        """BERT's."""
        return FAMILIES["bert"], "BertForMaskedLM" if self.pairs == "none" else "BertForPreTraining"

    def generation(self) -> dict[str, Any]:
        """It writes no text."""
        return {}

    def finished(self, opened: Opened, rows: Rows) -> tuple[Opened, dict[str, Any]]:
        """As it is."""
        return opened, {}


def documents_of(rows: Rows) -> Iterator[str]:
    """Rows of a table are documents; lines of a text are, up to an empty one."""
    held: list[str] = []
    last: Row | None = None
    for row in rows:
        table = bool(set(TABLES) & set(Path(row.file).suffixes))
        runs_on = last is not None and not table and row.file == last.file and row.line == last.line + 1
        if held and not runs_on:
            yield "\n".join(held)
            held = []
        held.append(row.values["text"])
        last = row
    if held:
        yield "\n".join(held)
