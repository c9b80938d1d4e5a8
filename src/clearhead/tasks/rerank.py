"""Reranking: a cross-encoder reads a query and a document together and scores how well they match."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any, ClassVar, Self

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from clearhead.data import Columns, InMemoryColumns, Integers, Ragged, Rows
from clearhead.hub.folder import LoadedModel
from clearhead.models.heads import HeadKind
from clearhead.models.model import Model
from clearhead.tasks import metrics
from clearhead.tasks.classify import Classification
from clearhead.tasks.embed import SCORED, TRIPLETS, negatives
from clearhead.tasks.encoder_task import EncoderTask, batches_in_order, head_labels
from clearhead.tasks.labels import parse_number
from clearhead.tasks.retrieval import evaluate_ranking
from clearhead.tasks.task import Batch, Skipped, TaskConfig, TaskSpec
from clearhead.tasks.windows import CHUNK, collate_windows, concat_columns, windows
from clearhead.text import Tokenizer

PairOfTexts = tuple[str, str]
"""A query and a document."""
LABELS = ("relevance",)


@dataclass(frozen=True)
class RankedDocument:
    """A document with its relevance to a query, from 0 to 1, and its place among the given documents."""

    index: int
    score: float
    text: str


@dataclass(frozen=True, eq=False)
class Rerank(EncoderTask):
    """Scores pairs of a query and a document. The query is kept whole, and the document is truncated."""

    tokenizer: Tokenizer
    settings: TaskConfig = field(default_factory=TaskConfig)

    suffix: ClassVar[str] = "SequenceClassification"
    spec: ClassVar[TaskSpec] = TaskSpec(
        name="rerank",
        column_sets=(TRIPLETS, SCORED),
        metrics=("loss", "mrr", "ndcg", "recall_1", "recall_5", "recall_20", "spearman", "pearson"),
        split_by=(("anchor", "text"), lambda values: ""),
    )

    def __post_init__(self) -> None:
        kind, columns = self.settings.loss.kind, self.settings.columns
        if kind not in ("auto", "binary", "listwise"):
            raise ValueError(f"loss.kind is {kind!r}: the task rerank has binary and listwise")
        if kind == "listwise" and "number" in columns:
            raise ValueError("loss.kind is 'listwise': it needs the columns anchor, positive and negative")

    @classmethod
    def collect_labels(cls, rows: Rows, columns: tuple[str, ...]) -> dict[str, Any]:
        return {}

    @classmethod
    def from_recipe(cls, tokenizer: Tokenizer, settings: TaskConfig, data_info: Mapping[str, Any]) -> Self:
        return cls(tokenizer, settings)

    @classmethod
    def from_model(cls, loaded: LoadedModel) -> Self:
        labels = head_labels(loaded, "sequence", "score pairs", "rerank")
        if len(labels) != 1:
            raise ValueError(f"{loaded.architecture} has {len(labels)} labels: a reranker has a single score")
        settings = TaskConfig(max_len=loaded.max_len or 512, segments=loaded.has_segments)
        return cls(loaded.require_tokenizer, settings)

    @property
    def head(self) -> tuple[HeadKind, tuple[str, ...]]:
        """One score for a pair."""
        return "sequence", LABELS

    def encode(self, rows: Rows) -> tuple[InMemoryColumns, list[Skipped]]:
        """Tokenize each query with its documents: the positive first, then the negatives."""
        parts: list[InMemoryColumns] = []
        labels: list[float] = []
        total, used, reason, stream = 0, 0, "", iter(rows)
        while chunk := list(islice(stream, CHUNK)):
            examples: list[list[PairOfTexts]] = []
            for row in chunk:
                values, total = row.values, total + 1
                if "text" not in values:
                    documents = [str(values["positive"]), *negatives(values["negative"])]
                    examples.append([(str(values["anchor"]), document) for document in documents])
                    continue
                try:
                    labels.append(_relevance(values["number"]))
                    examples.append([(str(values["text"]), str(values["second"]))])
                except ValueError as error:
                    reason = reason or f"{row.file} line {row.line:,}: {error}"
            if examples:
                parts.append(self._columns(examples))
                used += len(examples)
        columns = concat_columns(parts)
        if labels:
            columns["label"] = Ragged.from_numbers(labels)
        return columns, [Skipped(total - used, total, reason)] if total > used else []

    def _columns(self, examples: Sequence[Sequence[PairOfTexts]]) -> InMemoryColumns:
        queries, documents = (list(x) for x in zip(*(pair for example in examples for pair in example), strict=True))
        counts = [len(example) for example in examples]
        tokens = self.tokenizer(queries, documents, max_len=self.settings.max_len, shorten="second", offsets=False)
        tokens = replace(tokens, sources=torch.from_numpy(np.repeat(np.arange(len(examples)), counts)))
        return windows(tokens, len(examples), self.settings.segments)

    def collate(self, columns: Columns, examples: Integers, draw: int = 0) -> Batch:
        """Return the pairs of these examples, each a sequence; `example_ids` is the example of each pair."""
        labels = torch.from_numpy(columns["label"].take(examples)[0]) if "label" in columns else torch.zeros(0)
        return collate_windows(columns, examples, labels)

    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        """Return binary cross-entropy of each pair, or cross-entropy of the positive among the documents of its query.

        Summed over the examples; within an example, the binary loss is the mean over its documents.
        """
        assert batch.example_ids is not None
        scores, of = self.scores(model, batch), batch.example_ids
        if len(batch.labels):
            return F.binary_cross_entropy_with_logits(scores, batch.labels, reduction="sum")
        count = int(of[-1]) + 1 if len(of) else 0
        first = torch.searchsorted(of, torch.arange(count, device=of.device))
        if self.settings.loss.kind == "listwise":
            table = scores.new_full((count, int(torch.bincount(of).max()) if count else 0), float("-inf"))
            table[of, torch.arange(len(of), device=of.device) - first[of]] = scores
            return F.cross_entropy(table, torch.zeros_like(first), reduction="sum")
        target = torch.zeros_like(scores)
        target[first] = 1.0
        losses = F.binary_cross_entropy_with_logits(scores, target, reduction="none")
        return (losses / torch.bincount(of, minlength=count)[of]).sum()

    def scores(self, model: nn.Module, batch: Batch) -> Tensor:
        """Return the logit of each pair, (pairs,), float32."""
        assert isinstance(model, Model)
        return model(batch.ids, batch.layout, segments=batch.segments)[:, 0].float()

    def input_from(self, values: Mapping[str, Any]) -> PairOfTexts:
        return str(values["text"]), str(values["second"])

    @torch.inference_mode()
    def answer(self, loaded: LoadedModel, inputs: Sequence[PairOfTexts]) -> Iterator[Classification]:
        """Yield the relevance of each document to its query, a number from 0 to 1."""
        for lo in range(0, len(inputs), CHUNK):
            chunk = inputs[lo : lo + CHUNK]
            columns = self._columns([[pair] for pair in chunk])
            scores = torch.zeros(len(chunk))
            for examples, batch in batches_in_order(self, loaded.model, columns):
                scores[torch.from_numpy(examples)] = self.scores(loaded.model, batch).cpu()
            yield from map(Classification, torch.sigmoid(scores).tolist())

    def relevance(self, loaded: LoadedModel, pairs: Sequence[PairOfTexts]) -> list[float]:
        """Return the relevance of each document to its query, from 0 to 1."""
        return [float(found.answer) for found in self.answer(loaded, pairs) if isinstance(found.answer, float)]

    def evaluate(self, loaded: LoadedModel, rows: Rows) -> metrics.Evaluation:
        """Rank the documents of each query, or correlate the scores of pairs with those of the rows."""
        examples = [row.values for row in rows]
        if examples and "text" in examples[0]:
            target = np.asarray([_relevance(e["number"]) for e in examples])
            found = np.asarray(self.relevance(loaded, [self.input_from(e) for e in examples]))
            return metrics.Evaluation(len(target), lambda some: metrics.correlations(target[some], found[some]))
        candidates: dict[str, dict[str, bool]] = {}
        for e in examples:
            known = candidates.setdefault(str(e["anchor"]), {})
            known |= {text: known.get(text, False) for text in negatives(e["negative"])}
            known[str(e["positive"])] = True
        pairs = [(query, document) for query, documents in candidates.items() for document in documents]
        scores = iter(self.relevance(loaded, pairs))
        by_query = [[(next(scores), i) for i in range(len(documents))] for documents in candidates.values()]
        ranked = [sorted(found, key=lambda pair: -pair[0]) for found in by_query]
        relevant = [{i for i, ok in enumerate(d.values()) if ok} for d in candidates.values()]
        return evaluate_ranking([[i for _, i in found] for found in ranked], relevant)

    def finalize(self, loaded: LoadedModel, rows: Rows) -> tuple[LoadedModel, dict[str, Any]]:
        return loaded, {}


def _relevance(value: Any) -> float:
    number = parse_number(value)
    if not 0.0 <= number <= 1.0:
        raise ValueError(f"the relevance of a pair is {number:g}: it must be from 0 to 1")
    return number
