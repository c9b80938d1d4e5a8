"""Translation: an encoder-decoder that predicts the target text from the source text."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, ClassVar, Self

import numpy as np
import torch
from torch import Tensor, nn

from clearhead.attention import Layout
from clearhead.data import Columns, InMemoryColumns, Integers, Ragged, Rows
from clearhead.decode import BeamConfig, TextGenerator, Translation, generation_config, translate_in_order
from clearhead.hub.families import FAMILIES, OWN
from clearhead.hub.folder import LoadedModel
from clearhead.metrics.evaluation import bleu_scores
from clearhead.models import ModelConfig
from clearhead.models.recurrent import RecurrentConfig
from clearhead.tasks.language_model import lm_loss
from clearhead.tasks.model_presets import encoder_decoder
from clearhead.tasks.task import Batch, SaveFormat, Skipped, TaskConfig, TaskSpec, TextTask
from clearhead.text import Tokenizer

CHUNK = 1000  # texts tokenized at a time


@dataclass(frozen=True, eq=False)
class Translate(TextTask):
    """Models p(target | source). Both texts end with the end token; the decoder starts with padding, as in Marian."""

    tokenizer: Tokenizer
    max_len: int = 128
    label_smoothing: float = 0.0

    spec: ClassVar[TaskSpec] = TaskSpec(
        name="translate",
        column_sets=(("source", "target"),),
        metrics=("loss", "perplexity", "bleu", "chrf"),
        template="marian",
    )

    @property
    def start(self) -> int:
        if self.tokenizer.pad_id is None:
            raise ValueError("this tokenizer has no padding token, which starts the decoder: train a new one")
        return self.tokenizer.pad_id

    @classmethod
    def collect_labels(cls, rows: Rows, columns: tuple[str, ...]) -> dict[str, Any]:
        """Return nothing: the tokenizer is enough."""
        return {}

    @classmethod
    def from_recipe(cls, tokenizer: Tokenizer, settings: TaskConfig, data_info: Mapping[str, Any]) -> Self:
        """Create the task with a recipe's limits."""
        return cls(tokenizer, settings.max_len, settings.label_smoothing)

    def encode(self, rows: Rows) -> tuple[InMemoryColumns, list[Skipped]]:
        """Tokenize pairs; those with a side longer than `max_len` are skipped and reported."""
        sources: list[list[int]] = []
        targets: list[list[int]] = []
        total, stream = 0, iter(rows)
        while chunk := list(islice(stream, CHUNK)):
            total += len(chunk)
            sides = [self._ids([row.values[c] for row in chunk]) for c in self.spec.column_sets[0]]
            for source, target in zip(*sides, strict=True):
                if max(len(source), len(target)) <= self.max_len:
                    sources.append(source)
                    targets.append(target)
        skipped = Skipped(total - len(sources), total, f"a side has more than {self.max_len} tokens (data.max_len)")
        columns = {"source": Ragged.from_lists(sources), "target": Ragged.from_lists(targets)}
        return columns, [skipped] if skipped.count else []

    def _ids(self, texts: list[str]) -> list[list[int]]:
        tokens = self.tokenizer(texts, offsets=False)
        return [part.tolist() for part in tokens.layout.split(tokens.ids)]

    def lengths(self, columns: Columns, examples: Integers | None = None) -> Integers:
        return columns["source"].lengths(examples) + columns["target"].lengths(examples)

    def num_targets(self, columns: Columns, examples: Integers | None = None) -> Integers:
        return columns["target"].lengths(examples)

    def collate(self, columns: Columns, examples: Integers, draw: int = 0) -> Batch:
        """Return sources, and targets shifted right by one as the decoder's input."""
        ids, sizes = columns["source"].take(examples)
        labels, lengths = columns["target"].take(examples)
        target, target_layout = shifted(labels, lengths, self.start)
        layout = Layout.from_lengths(sizes.tolist())
        return Batch(torch.from_numpy(ids), layout, torch.from_numpy(labels), target, target_layout)

    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        """Return -log p of the target tokens, summed; with label smoothing in training."""
        return lm_loss(model, batch, self.label_smoothing if model.training else 0.0)

    def config(self, settings: Mapping[str, Any]) -> ModelConfig:
        return encoder_decoder(settings, self.tokenizer.vocab_size, self.max_len)

    def answer(
        self, loaded: LoadedModel, inputs: Sequence[str], beam: BeamConfig | None = None, *,
        max_new_tokens: int | None = None, align: bool = False,
    ) -> Iterator[Translation]:  # fmt: skip
        """Yield the translation of each text, in order; greedy without a beam."""
        generator, beam = TextGenerator.from_model(loaded), beam or BeamConfig(size=1)
        return translate_in_order(generator, inputs, beam, max_new_tokens=max_new_tokens, align=align)

    def score(self, loaded: LoadedModel, rows: Rows, beam: int = 1) -> dict[str, float]:
        pairs = [(row.values["source"], row.values["target"]) for row in rows]
        results = self.answer(loaded, [source for source, _ in pairs], BeamConfig(size=beam))
        return bleu_scores([result.text for result in results], [target for _, target in pairs])

    def save_format(self, config: ModelConfig) -> SaveFormat:
        """Return Marian's format; recurrent networks have clearhead's own. Padding starts the decoder only."""
        eos = self.tokenizer.require_eos_id
        generation = generation_config("marian", eos=eos, pad=self.start, max_len=self.max_len, beam=5)
        if isinstance(config.stack, RecurrentConfig):
            return SaveFormat(OWN["clearhead-recurrent"], "RecurrentForConditionalGeneration", generation)
        return SaveFormat(FAMILIES["marian"], "MarianMTModel", generation)


def shifted(labels: Integers, lengths: Integers, start: int) -> tuple[Tensor, Layout]:
    """Return what a decoder reads to predict these texts: each shifted right by one, after the start token."""
    target = np.empty_like(labels)
    target[1:] = labels[:-1]
    target[np.cumsum(lengths) - lengths] = start
    return torch.from_numpy(target), Layout.from_lengths(lengths.tolist())
