"""Conversation: learn what is said next, from dialogues. A decoder reads on, or an encoder reads all that was said."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, ClassVar

from torch import Tensor, nn

from clearhead.data import Columns, Held, Integers, Ragged, Rows
from clearhead.decode.converse import turn_ids
from clearhead.models import ModelConfig
from clearhead.models.families import Family
from clearhead.models.heads import Kind
from clearhead.models.store import Opened
from clearhead.tasks.language_model import LanguageModel
from clearhead.tasks.task import Batch, LeftOut, Settings
from clearhead.tasks.translate import Translate
from clearhead.text import Tokenizer

CHUNK = 500  # dialogues given to the tokenizer at a time

# How `transformers` writes a dialogue for such a decoder.
CHAT_TEMPLATE = "{% for message in messages %}{{ message['content'] + eos_token }}{% endfor %}"


@dataclass(frozen=True, eq=False)
class Converse:
    """Learn p(turn | those before). The words are learnt as a language model's, or as a translator's."""

    inner: LanguageModel | Translate

    name: ClassVar[str] = "converse"
    forms: ClassVar[tuple[tuple[str, ...], ...]] = (("turns",),)
    drawn: ClassVar[Any] = None
    template: ClassVar[str] = "gpt2"
    metrics: ClassVar[tuple[str, ...]] = ("loss", "perplexity")

    @classmethod
    def learn(cls, rows: Rows, columns: tuple[str, ...]) -> dict[str, Any]:
        """Nothing beside the tokenizer."""
        return {}

    @classmethod
    def make(cls, tokenizer: Tokenizer, settings: Settings, facts: Mapping[str, Any]) -> Converse:
        """With the limits of a recipe, and the model that it names."""
        kind = Translate if settings.encoder else LanguageModel
        return cls(kind(tokenizer, settings.max_len, settings.label_smoothing))

    @property
    def tokenizer(self) -> Tokenizer:
        """What both sides are read with."""
        return self.inner.tokenizer

    @property
    def head(self) -> tuple[Kind, tuple[str, ...]]:
        """Words."""
        return self.inner.head

    def encode(self, rows: Rows) -> tuple[Held, list[LeftOut]]:
        """Dialogues in tokens: whole, or each answer with what was said before it."""
        texts: list[list[int]] = []
        sources: list[list[int]] = []
        stream = iter(rows)
        while chunk := list(islice(stream, CHUNK)):
            flat = iter(turn_ids(self.tokenizer, [turn for row in chunk for turn in row.values["turns"]]))
            for row in chunk:
                turns = [next(flat) for _ in row.values["turns"]]
                if isinstance(self.inner, LanguageModel):
                    texts += self._stretches(turns)
                else:
                    for said, answer in self._answers(turns):
                        sources.append(said)
                        texts.append(answer)
        if isinstance(self.inner, LanguageModel):
            return {"text": Ragged.of(texts)}, []
        return {"source": Ragged.of(sources), "target": Ragged.of(texts)}, []

    def _stretches(self, turns: list[list[int]]) -> Iterator[list[int]]:
        """A dialogue in parts of whole turns, where it is longer than the model reads; a part begins with a turn that
        ended the one before, so that every answer is learnt from what it answers.
        """
        most = self.inner.max_len + 1
        held: list[int] = []
        last: list[int] = []
        for turn in turns:
            turn = turn[:most]
            if held and len(held) + len(turn) > most:
                yield held
                held = list(last) if len(last) + len(turn) <= most else []
            held += turn
            last = turn
        if len(held) > 1:
            yield held

    def _answers(self, turns: list[list[int]]) -> Iterator[tuple[list[int], list[int]]]:
        """Each turn but the first, with the end of what was said before it."""
        most = self.inner.max_len
        said: list[int] = []
        for turn in turns:
            if said:
                yield said[-most:], turn[:most]
            said += turn

    def lengths(self, columns: Columns, examples: Integers | None = None) -> Integers:
        """The tokens that an example costs."""
        return self.inner.lengths(columns, examples)

    def counts(self, columns: Columns, examples: Integers | None = None) -> Integers:
        """The tokens that are predicted."""
        return self.inner.counts(columns, examples)

    def collate(self, columns: Columns, examples: Integers, draw: int = 0) -> Batch:
        """Dialogues, or answers and what was said before them."""
        return self.inner.collate(columns, examples, draw)

    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        """-log p of the words, summed."""
        return self.inner.loss(model, batch)

    def config(self, settings: Mapping[str, Any]) -> ModelConfig:
        """A decoder of a recipe's settings; with `encoder: true`, one that an encoder reads for."""
        return self.inner.config({name: value for name, value in settings.items() if name != "encoder"})

    def score(self, opened: Opened, rows: Rows, beam: int = 1) -> dict[str, float]:
        """Nothing beside the loss: of a conversation there is no one right answer."""
        return {}

    def layout(self, config: ModelConfig) -> tuple[Family, str]:
        """GPT-2's or Llama's, or Marian's."""
        return self.inner.layout(config)

    def generation(self) -> dict[str, Any]:
        """As its words are written."""
        return self.inner.generation()

    def finished(self, opened: Opened, rows: Rows) -> tuple[Opened, dict[str, Any]]:
        """With a tokenizer that tells `transformers` how a dialogue is written."""
        if isinstance(self.inner, Translate):
            return opened, {}
        words = opened.words.told(chat_template=CHAT_TEMPLATE)
        return replace(opened, tokenizer=words), {}
