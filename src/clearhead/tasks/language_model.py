"""Language modelling: predict the next token of a running text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import islice, pairwise
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from torch import Tensor, nn

from clearhead.data import Columns, Held, Integers, Ragged, Rows
from clearhead.data.readers import TABLES
from clearhead.decode import generation_config
from clearhead.models import ModelConfig
from clearhead.models.families import FAMILIES, OWN, Family
from clearhead.models.heads import Kind
from clearhead.models.recurrent import RecurrentConfig
from clearhead.models.store import Opened
from clearhead.tasks.build import decoder_only
from clearhead.tasks.task import Batch, LeftOut, Settings
from clearhead.tasks.words import layout_of, loss_of_words, tensor
from clearhead.text import Tokenizer

LINES = 1000  # rows given to the tokenizer at a time
NO_END = "this tokenizer has no end mark, without which no text ends: learn a new one"


@dataclass(frozen=True, eq=False)
class LanguageModel:
    """Learn p(next token | those before). Text runs on through all rows, and is read in stretches of `max_len` tokens
    or, where it is given, of `stretch`.

    A stretch's last token is the first of the next, so that every token but the very first is predicted once. A row
    ends with a line end; empty lines of a text file stay where they are. A block of shards is read by its documents.
    """

    tokenizer: Tokenizer
    max_len: int = 128
    label_smoothing: float = 0.0
    stretch: int | None = None

    name: ClassVar[str] = "language_model"
    forms: ClassVar[tuple[tuple[str, ...], ...]] = (("text",), ("shards",))
    drawn: ClassVar[Any] = None
    template: ClassVar[str] = "gpt2"
    metrics: ClassVar[tuple[str, ...]] = ("loss", "perplexity")

    @classmethod
    def learn(cls, rows: Rows, columns: tuple[str, ...]) -> dict[str, Any]:
        """Nothing beside the tokenizer."""
        return {}

    @classmethod
    def make(cls, tokenizer: Tokenizer, settings: Settings, facts: Mapping[str, Any]) -> LanguageModel:
        """With the limits of a recipe."""
        return cls(tokenizer, settings.max_len, settings.label_smoothing, settings.stretch)

    @property
    def head(self) -> tuple[Kind, tuple[str, ...]]:
        """Words."""
        return "vocabulary", ()

    def encode(self, rows: Rows) -> tuple[Held, list[LeftOut]]:
        """The rows as one stream, in stretches that overlap by one token."""
        stream, place = iter(rows), ("", 0)
        parts: list[Integers] = [np.zeros(0, dtype=np.int64)]
        while chunk := list(islice(stream, LINES)):
            text: list[str] = []
            for row in chunk:  # a reader leaves out empty lines, and says where a row stands
                runs_on = row.file == place[0] and not set(TABLES) & set(Path(row.file).suffixes)
                empty = row.line - place[1] - 1 if runs_on else 0
                text.append("\n" * empty + row.values["text"] + "\n")
                place = row.file, row.line
            parts.append(self.tokenizer("".join(text), special=False, offsets=False).ids.numpy())
        ids = np.concatenate(parts)
        size = self.stretch or self.max_len
        ends = [*range(size + 1, len(ids), size), len(ids)]
        starts = [0, *(end - 1 for end in ends[:-1])]
        pieces = [ids[a:b] for a, b in zip(starts, ends, strict=True) if b - a > 1]
        return {"text": Ragged.of(pieces)}, []

    def lengths(self, columns: Columns, examples: Integers | None = None) -> Integers:
        """The tokens that are read: all of a stretch but the last; of a block also the marks between its documents."""
        if "starts" in columns:
            return columns["ids"].lengths(examples) + columns["starts"].lengths(examples) - 1
        return columns["text"].lengths(examples) - 1

    def counts(self, columns: Columns, examples: Integers | None = None) -> Integers:
        """Every token that is read predicts another."""
        return self.lengths(columns, examples)

    def collate(self, columns: Columns, examples: Integers, draw: int = 0) -> Batch:
        """Stretches, and the same moved on by one."""
        if "starts" in columns:
            return self._blocks(columns, examples)
        ids, sizes = columns["text"].take(examples)
        ends = np.cumsum(sizes)
        return Batch(tensor(np.delete(ids, ends - 1)), layout_of(sizes - 1), tensor(np.delete(ids, ends - sizes)))

    def _blocks(self, columns: Columns, examples: Integers) -> Batch:
        """Documents of blocks, each a sequence behind the mark; all but the last of a block end with it too."""
        mark = self.tokenizer.eos_id
        if mark is None:
            raise ValueError(NO_END)
        (ids, sizes), (starts, counts) = columns["ids"].take(examples), columns["starts"].take(examples)
        read: list[Integers] = [np.zeros(0, dtype=np.int64)]
        due: list[Integers] = [np.zeros(0, dtype=np.int64)]
        lengths: list[int] = []
        firsts = np.split(starts, np.cumsum(counts)[:-1])
        for block, begins in zip(np.split(ids, np.cumsum(sizes)[:-1]), firsts, strict=True):
            for begin, end in pairwise([*begins.tolist(), len(block)]):
                text = np.concatenate([[mark], block[begin:end], np.full(int(end < len(block)), mark)])
                read.append(text[:-1])
                due.append(text[1:])
                whole, rest = divmod(len(text) - 1, self.max_len)
                lengths += [self.max_len] * whole + [rest] * (rest > 0)
        layout = layout_of(np.array(lengths, dtype=np.int64))
        return Batch(tensor(np.concatenate(read)), layout, tensor(np.concatenate(due)))

    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        """-log p of the next tokens, summed; smoothed while training."""
        return loss_of_words(model, batch, self.label_smoothing if model.training else 0.0)

    def config(self, settings: Mapping[str, Any]) -> ModelConfig:
        """A decoder of a recipe's settings."""
        return decoder_only(settings, self.tokenizer.vocab_size, self.max_len)

    def score(self, opened: Opened, rows: Rows, beam: int = 1) -> dict[str, float]:
        """Nothing beside the loss."""
        return {}

    def layout(self, config: ModelConfig) -> tuple[Family, str]:
        """GPT-2's, or Llama's where positions are rotary; a recurrent net has a layout of its own."""
        if isinstance(config.stack, RecurrentConfig):
            return OWN["clearhead-recurrent"], "RecurrentForCausalLM"
        if config.stack.positions == "rotary":
            return FAMILIES["llama"], "LlamaForCausalLM"
        return FAMILIES["gpt2"], "GPT2LMHeadModel"

    def generation(self) -> dict[str, Any]:
        """The mark that begins and ends a text."""
        mark = self.tokenizer.eos_id
        if mark is None:
            raise ValueError(NO_END)
        return generation_config("gpt2", eos=mark, pad=mark)

    def finished(self, opened: Opened, rows: Rows) -> tuple[Opened, dict[str, Any]]:
        """As it is."""
        return opened, {}
