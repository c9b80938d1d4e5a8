"""Language modelling: predict the next token of running text."""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import islice, pairwise
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import torch
from torch import Tensor, nn

from clearhead.attention import Layout
from clearhead.data import Columns, InMemoryColumns, Integers, Ragged, Rows
from clearhead.data.readers import TABLES
from clearhead.decode import generation_config
from clearhead.hub.families import FAMILIES, OWN
from clearhead.layers import linear_cross_entropy
from clearhead.models import Model, ModelConfig
from clearhead.models.heads import LMHead
from clearhead.models.recurrent import RecurrentConfig
from clearhead.tasks.model_presets import decoder_only
from clearhead.tasks.task import Batch, SaveFormat, Skipped, TaskConfig, TaskSpec, TextTask
from clearhead.text import Tokenizer

CHUNK = 1000  # rows tokenized at a time


@dataclass(frozen=True, eq=False)
class LanguageModel(TextTask):
    """Models p(next token | previous tokens). All rows form one stream, which is cut into blocks of `block_size`
    tokens, or `max_len` where it is None.

    The last token of a block is the first of the next, so that every token but the very first is predicted once. A row
    ends with a newline; empty lines of a text file are kept. A block of shards is split into its documents.
    """

    tokenizer: Tokenizer
    max_len: int = 128
    label_smoothing: float = 0.0
    block_size: int | None = None

    spec: ClassVar[TaskSpec] = TaskSpec(
        name="language_model", column_sets=(("text",), ("shards",)), metrics=("loss", "perplexity"), template="gpt2"
    )

    @classmethod
    def collect_labels(cls, rows: Rows, columns: tuple[str, ...]) -> dict[str, Any]:
        """Return nothing: the tokenizer is enough."""
        return {}

    @classmethod
    def from_recipe(cls, tokenizer: Tokenizer, settings: TaskConfig, data_info: Mapping[str, Any]) -> Self:
        """Create the task with a recipe's limits."""
        return cls(tokenizer, settings.max_len, settings.label_smoothing, settings.block_size)

    def encode(self, rows: Rows) -> tuple[InMemoryColumns, list[Skipped]]:
        """Tokenize the rows as one stream, in blocks that overlap by one token."""
        stream, previous = iter(rows), ("", 0)
        parts: list[Integers] = [np.zeros(0, dtype=np.int64)]
        while chunk := list(islice(stream, CHUNK)):
            text: list[str] = []
            for row in chunk:  # readers skip empty lines, and give the line of each row
                continues = row.file == previous[0] and not set(TABLES) & set(Path(row.file).suffixes)
                empty = row.line - previous[1] - 1 if continues else 0
                text.append("\n" * empty + row.values["text"] + "\n")
                previous = row.file, row.line
            parts.append(self.tokenizer("".join(text), special=False, offsets=False).ids.numpy())
        ids = np.concatenate(parts)
        size = self.block_size or self.max_len
        ends = [*range(size + 1, len(ids), size), len(ids)]
        starts = [0, *(end - 1 for end in ends[:-1])]
        blocks = [ids[a:b] for a, b in zip(starts, ends, strict=True) if b - a > 1]
        return {"text": Ragged.from_lists(blocks)}, []

    def lengths(self, columns: Columns, examples: Integers | None = None) -> Integers:
        """Return the tokens read: all of a block but the last, and for shards the end tokens between documents."""
        if "starts" in columns:
            return columns["ids"].lengths(examples) + columns["starts"].lengths(examples) - 1
        return columns["text"].lengths(examples) - 1

    def num_targets(self, columns: Columns, examples: Integers | None = None) -> Integers:
        return self.lengths(columns, examples)

    def collate(self, columns: Columns, examples: Integers, draw: int = 0) -> Batch:
        """Return blocks, with the same blocks shifted left by one as labels."""
        if "starts" in columns:
            return self._blocks(columns, examples)
        ids, sizes = columns["text"].take(examples)
        ends = np.cumsum(sizes)
        layout = Layout.from_lengths((sizes - 1).tolist())
        read, labels = (torch.from_numpy(np.delete(ids, at)) for at in (ends - 1, ends - sizes))
        return Batch(read, layout, labels)

    def _blocks(self, columns: Columns, examples: Integers) -> Batch:
        """Return documents of shard blocks, each after an end token; all but a block's last also end with one."""
        eos = self.tokenizer.require_eos_id
        (ids, sizes), (starts, counts) = columns["ids"].take(examples), columns["starts"].take(examples)
        read: list[Integers] = [np.zeros(0, dtype=np.int64)]
        target: list[Integers] = [np.zeros(0, dtype=np.int64)]
        lengths: list[int] = []
        firsts = np.split(starts, np.cumsum(counts)[:-1])
        for block, begins in zip(np.split(ids, np.cumsum(sizes)[:-1]), firsts, strict=True):
            for begin, end in pairwise([*begins.tolist(), len(block)]):
                text = np.concatenate([[eos], block[begin:end], np.full(int(end < len(block)), eos)])
                read.append(text[:-1])
                target.append(text[1:])
                full, rest = divmod(len(text) - 1, self.max_len)
                lengths += [self.max_len] * full + [rest] * (rest > 0)
        ids, labels = (torch.from_numpy(np.concatenate(parts)) for parts in (read, target))
        return Batch(ids, Layout.from_lengths(lengths), labels)

    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        """Return -log p of the next tokens, summed; with label smoothing in training."""
        return lm_loss(model, batch, self.label_smoothing if model.training else 0.0)

    def config(self, settings: Mapping[str, Any]) -> ModelConfig:
        return decoder_only(settings, self.tokenizer.vocab_size, self.max_len)

    def save_format(self, config: ModelConfig) -> SaveFormat:
        """Return GPT-2's format, or Llama's with rotary positions; recurrent networks have clearhead's own."""
        eos = self.tokenizer.require_eos_id
        generation = generation_config("gpt2", eos=eos, pad=eos)
        if isinstance(config.stack, RecurrentConfig):
            return SaveFormat(OWN["clearhead-recurrent"], "RecurrentForCausalLM", generation)
        if config.stack.positions == "rotary":
            return SaveFormat(FAMILIES["llama"], "LlamaForCausalLM", generation)
        return SaveFormat(FAMILIES["gpt2"], "GPT2LMHeadModel", generation)


def lm_loss(model: nn.Module, batch: Batch, smoothing: float = 0.0) -> Tensor:
    """Return -log p of every label, summed."""
    assert isinstance(model, Model) and isinstance(model.head, LMHead)
    sources = None if batch.sources is None else batch.sources.tolist()
    x = model.hidden_states(batch.ids, batch.layout, batch.target, batch.target_layout, sources=sources)
    output = model.head.output
    return linear_cross_entropy(model.head.pre_logits(x), output.weight, output.bias, batch.labels, smoothing)
