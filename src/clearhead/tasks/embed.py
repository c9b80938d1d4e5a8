"""Sentence embedding: a bi-encoder, trained on pairs, triplets or scored pairs of texts."""

import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
import torch
from torch import Tensor, nn

from clearhead.data import InMemoryColumns, Ragged, Rows
from clearhead.hub.families import FAMILIES, OWN
from clearhead.hub.folder import LoadedModel
from clearhead.hub.sentence import read_sentence, sentence_files
from clearhead.layers import POOLINGS
from clearhead.layers.vector_losses import VECTOR_LOSSES, vector_loss
from clearhead.metrics import evaluation as metrics
from clearhead.metrics.retrieval import Retrieval, evaluate_retrieval
from clearhead.models import ModelConfig
from clearhead.models.heads import HeadKind
from clearhead.models.model import Model
from clearhead.models.recurrent import RecurrentConfig
from clearhead.tasks.embed_texts import embed_texts
from clearhead.tasks.labels import parse_number
from clearhead.tasks.probe import evaluate_probe
from clearhead.tasks.ranking_task import (
    DISTILLED,
    PAIRS,
    SCORED,
    TRIPLETS,
    RankingTask,
    example_columns,
    negatives,
    ranking_spec,
)
from clearhead.tasks.task import Batch, SaveFormat, TaskConfig, TaskSpec


@dataclass(frozen=True, eq=False)
class Embed(RankingTask):
    """Trains vectors of texts: texts that belong together get a high cosine."""

    suffix: ClassVar[str] = "Embedding"
    spec: ClassVar[TaskSpec] = ranking_spec("embed", (PAIRS, TRIPLETS, SCORED, DISTILLED))

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

    def number(self, value: Any) -> float:
        return parse_number(value)

    def sequences(self, values: Mapping[str, Any]) -> list[str]:
        """Return the texts of a row as the model reads them: anchor, positive, negatives."""
        config = self.settings.embedding
        if "text" in values:
            return [config.prompt() + str(values[name]) for name in ("text", "second")]
        documents = [values["positive"], *negatives(values.get("negative", []))]
        return [
            config.prompt("query") + str(values["anchor"]),
            *(config.prompt("document") + str(d) for d in documents),
        ]

    def tokenize(self, examples: Sequence[Sequence[str]]) -> InMemoryColumns:
        """Return the tokens of each text, and a number that is equal for equal texts."""
        texts = [text for example in examples for text in example]
        tokens = self.tokenizer(texts, max_len=self.settings.max_len, offsets=False)
        keys = Ragged.from_lists([zlib.crc32(text.encode()) for text in example] for example in examples)
        return {**example_columns(tokens, examples, False), "texts": keys}

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
        """Rank all positives of the rows for each anchor, correlate cosines with the scores of pairs, or predict labels
        from vectors.
        """
        examples = [row.values for row in rows]
        if examples and "label" in examples[0]:
            vectors = self.encode_texts(loaded, [str(e["text"]) for e in examples])
            return evaluate_probe(vectors.numpy(), [str(e["label"]) for e in examples])
        if examples and "text" in examples[0]:
            first, second = (self.encode_texts(loaded, [str(e[name]) for e in examples]) for name in ("text", "second"))
            target = np.asarray([parse_number(e["number"]) for e in examples])
            cosines = (first * second).sum(1).double().numpy()
            return metrics.evaluate_numbers(target, cosines, metrics.correlations)
        return evaluate_retrieval(self.retrieval(loaded, examples))

    def retrieval(self, loaded: LoadedModel, examples: Sequence[Mapping[str, Any]]) -> Retrieval:
        """Return the anchors of these rows and all their positive and negative texts, with their vectors."""
        unique = dict.fromkeys(
            str(text) for e in examples for text in (e["positive"], *negatives(e.get("negative", [])))
        )
        documents = {text: number for number, text in enumerate(unique)}
        relevant: dict[str, set[int]] = {}
        for e in examples:
            relevant.setdefault(str(e["anchor"]), set()).add(documents[str(e["positive"])])
        vectors = self.encode_texts(loaded, relevant, "query"), self.encode_texts(loaded, documents, "document")
        return Retrieval(*vectors, relevant, list(documents))

    def finalize(self, loaded: LoadedModel, rows: Rows) -> tuple[LoadedModel, dict[str, Any]]:
        """Add the files that sentence-transformers reads."""
        config = replace(self.settings.embedding, max_len=self.settings.max_len)
        files = {**loaded.extra_files, **sentence_files(config, loaded.config.output_width)}
        return replace(loaded, extra_files=files), {}
