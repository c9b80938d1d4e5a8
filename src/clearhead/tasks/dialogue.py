"""Dialogue: predict the next turn, with a decoder over the dialogue or an encoder-decoder that reads the history."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, ClassVar, Self

from torch import Tensor, nn

from clearhead.data import Columns, InMemoryColumns, Integers, Ragged, Rows
from clearhead.decode.chat import turn_ids
from clearhead.hub.folder import LoadedModel
from clearhead.models import ModelConfig
from clearhead.tasks.language_model import LanguageModel
from clearhead.tasks.task import Batch, SaveFormat, Skipped, TaskConfig, TaskSpec, TextTask
from clearhead.tasks.translate import Translate
from clearhead.text import Tokenizer

CHUNK = 500  # dialogues tokenized at a time

# The chat template of such a decoder for `transformers`.
CHAT_TEMPLATE = "{% for message in messages %}{{ message['content'] + eos_token }}{% endfor %}"


@dataclass(frozen=True, eq=False)
class Dialogue(TextTask):
    """Models p(turn | previous turns), as a language model or as a translation from the history to the reply.

    The loss is its only metric: a dialogue has no single correct reply.
    """

    inner: LanguageModel | Translate

    spec: ClassVar[TaskSpec] = TaskSpec(
        name="dialogue", column_sets=(("turns",),), metrics=("loss", "perplexity"), template="gpt2"
    )

    @classmethod
    def collect_labels(cls, rows: Rows, columns: tuple[str, ...]) -> dict[str, Any]:
        """Return nothing: the tokenizer is enough."""
        return {}

    @classmethod
    def from_recipe(cls, tokenizer: Tokenizer, settings: TaskConfig, data_info: Mapping[str, Any]) -> Self:
        """Create the task with a recipe's limits, and with an encoder where it asks for one."""
        kind = Translate if settings.encoder else LanguageModel
        return cls(kind(tokenizer, settings.max_len, settings.label_smoothing))

    @property
    def tokenizer(self) -> Tokenizer:
        return self.inner.tokenizer

    def encode(self, rows: Rows) -> tuple[InMemoryColumns, list[Skipped]]:
        """Tokenize dialogues: as a whole, or each reply with its history."""
        texts: list[list[int]] = []
        sources: list[list[int]] = []
        stream = iter(rows)
        while chunk := list(islice(stream, CHUNK)):
            flat = iter(turn_ids(self.tokenizer, [turn for row in chunk for turn in row.values["turns"]]))
            for row in chunk:
                turns = [next(flat) for _ in row.values["turns"]]
                if isinstance(self.inner, LanguageModel):
                    texts += self._blocks(turns)
                else:
                    for history, reply in self._replies(turns):
                        sources.append(history)
                        texts.append(reply)
        if isinstance(self.inner, LanguageModel):
            return {"text": Ragged.from_lists(texts)}, []
        return {"source": Ragged.from_lists(sources), "target": Ragged.from_lists(texts)}, []

    def _blocks(self, turns: list[list[int]]) -> Iterator[list[int]]:
        """Split a dialogue that is longer than the model reads into blocks of complete turns.

        A block starts with the last turn of the previous block, so that every reply follows the turn it answers.
        """
        limit = self.inner.max_len + 1
        block: list[int] = []
        last: list[int] = []
        for turn in turns:
            turn = turn[:limit]
            if block and len(block) + len(turn) > limit:
                yield block
                block = list(last) if len(last) + len(turn) <= limit else []
            block += turn
            last = turn
        if len(block) > 1:
            yield block

    def _replies(self, turns: list[list[int]]) -> Iterator[tuple[list[int], list[int]]]:
        """Yield the end of the history and the turn after it, for each turn but the first."""
        limit = self.inner.max_len
        history: list[int] = []
        for turn in turns:
            if history:
                yield history[-limit:], turn[:limit]
            history += turn

    def lengths(self, columns: Columns, examples: Integers | None = None) -> Integers:
        return self.inner.lengths(columns, examples)

    def num_targets(self, columns: Columns, examples: Integers | None = None) -> Integers:
        return self.inner.num_targets(columns, examples)

    def collate(self, columns: Columns, examples: Integers, draw: int = 0) -> Batch:
        return self.inner.collate(columns, examples, draw)

    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        return self.inner.loss(model, batch)

    def config(self, settings: Mapping[str, Any]) -> ModelConfig:
        """Return a decoder configuration; with `encoder: true`, an encoder-decoder."""
        return self.inner.config({name: value for name, value in settings.items() if name != "encoder"})

    def save_format(self, config: ModelConfig) -> SaveFormat:
        return self.inner.save_format(config)

    def finalize(self, loaded: LoadedModel, rows: Rows) -> tuple[LoadedModel, dict[str, Any]]:
        """Add the chat template for `transformers` to the tokenizer."""
        if isinstance(self.inner, Translate):
            return loaded, {}
        tokenizer = loaded.require_tokenizer.with_config(chat_template=CHAT_TEMPLATE)
        return replace(loaded, tokenizer=tokenizer), {}
