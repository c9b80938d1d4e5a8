"""Sentence embedding: a bi-encoder, trained on pairs, triplets or scored pairs of texts."""

import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any, ClassVar, Self

import numpy as np
import torch
from torch import Tensor, nn

from clearhead.data import Columns, InMemoryColumns, Integers, Ragged, Row, Rows
from clearhead.hub.families import FAMILIES, OWN
from clearhead.hub.folder import LoadedModel
from clearhead.hub.sentence import read_sentence, sentence_files
from clearhead.layers import POOLINGS
from clearhead.models import ModelConfig
from clearhead.models.heads import HeadKind
from clearhead.models.model import Model
from clearhead.models.recurrent import RecurrentConfig
from clearhead.tasks import metrics
from clearhead.tasks.embed_texts import embed_texts
from clearhead.tasks.encoder_task import EncoderTask
from clearhead.tasks.labels import parse_number
from clearhead.tasks.retrieval import Retrieval, evaluate_retrieval
from clearhead.tasks.task import Batch, SaveFormat, Skipped, TaskConfig, TaskSpec
from clearhead.tasks.vector_losses import VECTOR_LOSSES, vector_loss
from clearhead.tasks.windows import CHUNK, collate_windows, concat_columns, windows
from clearhead.text import Tokenizer

PAIRS = ("anchor", "positive")
TRIPLETS = (*PAIRS, "negative")
SCORED = ("text", "second", "number")
DISTILLED = (*TRIPLETS, "number")


@dataclass(frozen=True, eq=False)
class Embed(EncoderTask):
    """Trains vectors of texts: texts that belong together get a high cosine."""

    tokenizer: Tokenizer
    settings: TaskConfig = field(default_factory=TaskConfig)

    suffix: ClassVar[str] = "Embedding"
    spec: ClassVar[TaskSpec] = TaskSpec(
        name="embed",
        column_sets=(PAIRS, TRIPLETS, SCORED, DISTILLED),
        metrics=("loss", "mrr", "ndcg", "recall_1", "recall_5", "recall_20", "spearman", "pearson"),
        split_by=(("anchor", "text"), lambda values: ""),
    )

    def __post_init__(self) -> None:
        columns, kind = set(self.settings.columns), self.settings.loss.kind
        if not columns or kind == "auto":
            return
        if kind not in VECTOR_LOSSES:
            raise ValueError(f"loss.kind is {kind!r}: the task embed has {', '.join(VECTOR_LOSSES)}")
        needs = {"triplet": "negative", "margin_mse": "negative", "cosent": "number", "cosine": "number"}.get(kind)
        if (needs and needs not in columns) or (kind == "margin_mse" and "number" not in columns):
            wanted = " and ".join(DISTILLED[2:]) if kind == "margin_mse" else needs
            raise ValueError(f"loss.kind is {kind!r}: it needs the column {wanted}, which data.train does not name")
        if kind in ("cosent", "cosine") and "text" not in columns:
            raise ValueError(f"loss.kind is {kind!r}: its pairs are the columns text, second and number")

    @classmethod
    def collect_labels(cls, rows: Rows, columns: tuple[str, ...]) -> dict[str, Any]:
        return {}

    @classmethod
    def from_recipe(cls, tokenizer: Tokenizer, settings: TaskConfig, data_info: Mapping[str, Any]) -> Self:
        return cls(tokenizer, settings)

    @classmethod
    def from_model(cls, loaded: LoadedModel) -> Self:
        config = read_sentence(loaded.extra_files)
        limit = min((n for n in (config.max_len, loaded.max_len) if n is not None), default=512)
        return cls(loaded.require_tokenizer, TaskConfig(max_len=limit, embedding=replace(config, max_len=limit)))

    @property
    def head(self) -> tuple[HeadKind, tuple[str, ...]]:
        """The pooler, if the model has one: vectors are pooled from the hidden states."""
        return "pooler", ()

    def config(self, settings: Mapping[str, object]) -> ModelConfig:
        config = super().config(settings)
        if isinstance(config.stack, RecurrentConfig) or config.head is None:
            return replace(config, head=None)
        return replace(config, head=replace(config.head, pooler=True))

    def save_format(self, config: ModelConfig) -> SaveFormat:
        if isinstance(config.stack, RecurrentConfig):
            return SaveFormat(OWN["clearhead-recurrent"], "RecurrentEncoder")
        return SaveFormat(FAMILIES["bert"], "BertModel")

    @property
    def loss_kind(self) -> str:
        """The loss of the recipe, or the one that its columns suggest."""
        columns, kind = self.settings.columns, self.settings.loss.kind
        if kind != "auto":
            return kind
        if "number" in columns:
            return "margin_mse" if "negative" in columns else "cosent"
        return "multiple_negatives"

    def encode(self, rows: Rows) -> tuple[InMemoryColumns, list[Skipped]]:
        """Tokenize the texts of each example, truncated to `max_len` tokens."""
        parts: list[InMemoryColumns] = []
        labels: list[float] = []
        total, used, reason, stream = 0, 0, "", iter(rows)
        while chunk := list(islice(stream, CHUNK)):
            examples: list[list[str]] = []
            for row in chunk:
                total += 1
                try:
                    number = parse_number(row.values["number"]) if "number" in row.values else None
                    texts = self._texts(row)
                except ValueError as error:
                    reason = reason or f"{row.file} line {row.line:,}: {error}"
                    continue
                examples.append(texts)
                labels += [] if number is None else [number]
            if examples:
                parts.append(self._columns(examples))
                used += len(examples)
        columns = concat_columns(parts)
        if labels:
            columns["label"] = Ragged.from_numbers(labels)
        return columns, [Skipped(total - used, total, reason)] if total > used else []

    def _texts(self, row: Row) -> list[str]:
        """Return the texts of a row as the model reads them: anchor, positive, negatives."""
        config, values = self.settings.embedding, row.values
        if "text" in values:
            return [config.prompt() + str(values[name]) for name in ("text", "second")]
        documents = [values["positive"], *negatives(values.get("negative", []))]
        return [
            config.prompt("query") + str(values["anchor"]),
            *(config.prompt("document") + str(d) for d in documents),
        ]

    def _columns(self, examples: Sequence[Sequence[str]]) -> InMemoryColumns:
        texts = [text for example in examples for text in example]
        counts = np.asarray([len(example) for example in examples], dtype=np.int64)
        tokens = self.tokenizer(texts, max_len=self.settings.max_len, offsets=False)
        tokens = replace(tokens, sources=torch.from_numpy(np.repeat(np.arange(len(examples)), counts)))
        keys = Ragged.from_lists([zlib.crc32(text.encode()) for text in example] for example in examples)
        return {**windows(tokens, len(examples), False), "texts": keys}

    def collate(self, columns: Columns, examples: Integers, draw: int = 0) -> Batch:
        """Return the texts of these examples, each a sequence; `example_ids` is the example of each text."""
        labels = torch.from_numpy(columns["label"].take(examples)[0]) if "label" in columns else torch.zeros(0)
        return collate_windows(columns, examples, labels)

    def vectors(self, model: nn.Module, batch: Batch) -> Tensor:
        """Return one vector for each text of the batch, (texts, D), float32."""
        assert isinstance(model, Model)
        config = self.settings.embedding
        x = POOLINGS[config.pool](model.hidden_states(batch.ids, batch.layout), batch.layout).float()
        return nn.functional.normalize(x, dim=1) if config.normalize else x

    def vectors_loss(self, vectors: Tensor, batch: Batch) -> Tensor:
        """Return the loss of a batch from the vectors of its texts: the mean over examples, times their number."""
        assert batch.example_ids is not None
        count = int(batch.example_ids[-1]) + 1 if len(batch.example_ids) else 0
        return vector_loss(self.loss_kind, vectors, batch.example_ids, batch.labels, self.settings.loss) * count

    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        return self.vectors_loss(self.vectors(model, batch), batch)

    def encode_texts(self, loaded: LoadedModel, texts: Iterable[str], prompt: str | None = None) -> Tensor:
        """Return unit vectors of texts, (texts, D): their dot products are cosines."""
        config = replace(self.settings.embedding, normalize=True, max_len=self.settings.max_len)
        parts = embed_texts(loaded.model, self.tokenizer, texts, config, prompt=config.prompt(prompt))
        return torch.cat([part.vectors for part in parts])

    def input_from(self, values: Mapping[str, Any]) -> str:
        return str(values["text"])

    def answer(self, loaded: LoadedModel, inputs: Sequence[str]) -> Iterator[Tensor]:
        """Yield the vector of each text, (D,)."""
        config = replace(self.settings.embedding, max_len=self.settings.max_len)
        for part in embed_texts(loaded.model, self.tokenizer, inputs, config, prompt=config.prompt()):
            yield from part.vectors

    def evaluate(self, loaded: LoadedModel, rows: Rows) -> metrics.Evaluation:
        """Rank all positives of the rows for each anchor, or correlate cosines with the scores of pairs."""
        examples = [row.values for row in rows]
        if examples and "text" in examples[0]:
            first, second = (self.encode_texts(loaded, [str(e[name]) for e in examples]) for name in ("text", "second"))
            target = np.asarray([parse_number(e["number"]) for e in examples])
            cosines = (first * second).sum(1).double().numpy()
            return metrics.Evaluation(len(target), lambda some: metrics.correlations(target[some], cosines[some]))
        return evaluate_retrieval(self.retrieval(loaded, examples))

    def retrieval(self, loaded: LoadedModel, examples: Sequence[Mapping[str, Any]]) -> Retrieval:
        """Return the cosine of every anchor and every positive or negative text of these rows."""
        documents = {str(text): 0 for e in examples for text in (e["positive"], *negatives(e.get("negative", [])))}
        documents = {text: number for number, text in enumerate(documents)}
        relevant: dict[str, set[int]] = {}
        for e in examples:
            relevant.setdefault(str(e["anchor"]), set()).add(documents[str(e["positive"])])
        return Retrieval(
            self.encode_texts(loaded, relevant, "query"),
            self.encode_texts(loaded, documents, "document"),
            list(relevant.values()),
        )

    def finalize(self, loaded: LoadedModel, rows: Rows) -> tuple[LoadedModel, dict[str, Any]]:
        """Add the files that sentence-transformers reads."""
        config = replace(self.settings.embedding, max_len=self.settings.max_len)
        files = {**loaded.extra_files, **sentence_files(config, loaded.config.output_width)}
        return replace(loaded, extra_files=files), {}


def negatives(value: Any) -> list[str]:
    """Return the negatives in a cell: a text, or a list of texts."""
    return [str(text) for text in value] if isinstance(value, list) else [str(value)]
