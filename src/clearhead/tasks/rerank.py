"""Reranking: a cross-encoder reads a query and a document together and scores how well they match."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from clearhead.data import InMemoryColumns, Rows
from clearhead.hub.folder import LoadedModel
from clearhead.metrics import evaluation as metrics
from clearhead.metrics.retrieval import evaluate_ranking
from clearhead.models.heads import HeadKind
from clearhead.models.model import Model
from clearhead.tasks.classify import Classification
from clearhead.tasks.encoder_task import batches_in_order, head_labels
from clearhead.tasks.labels import parse_number
from clearhead.tasks.ranking_task import SCORED, TRIPLETS, RankingTask, example_columns, negatives, ranking_spec
from clearhead.tasks.task import Batch, TaskConfig, TaskSpec
from clearhead.tasks.windows import CHUNK

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
class Rerank(RankingTask):
    """Scores pairs of a query and a document. The query is kept whole, and the document is truncated."""

    suffix: ClassVar[str] = "SequenceClassification"
    spec: ClassVar[TaskSpec] = ranking_spec("rerank", (TRIPLETS, SCORED))

    def __post_init__(self) -> None:
        kind, columns = self.settings.loss.kind, self.settings.columns
        if kind not in ("auto", "binary", "listwise"):
            raise ValueError(f"loss.kind is {kind!r}: the task rerank has binary and listwise")
        if kind == "listwise" and "number" in columns:
            raise ValueError("loss.kind is 'listwise': it needs the columns anchor, positive and negative")

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

    def number(self, value: Any) -> float:
        number = parse_number(value)
        if not 0.0 <= number <= 1.0:
            raise ValueError(f"the relevance of a pair is {number:g}: it must be from 0 to 1")
        return number

    def sequences(self, values: Mapping[str, Any]) -> list[PairOfTexts]:
        """Return the query with each of its documents: the positive first, then the negatives."""
        if "text" in values:
            return [self.input_from(values)]
        documents = [str(values["positive"]), *negatives(values["negative"])]
        return [(str(values["anchor"]), document) for document in documents]

    def tokenize(self, examples: Sequence[Sequence[PairOfTexts]]) -> InMemoryColumns:
        queries, documents = (list(x) for x in zip(*(pair for example in examples for pair in example), strict=True))
        tokens = self.tokenizer(queries, documents, max_len=self.settings.max_len, shorten="second", offsets=False)
        return example_columns(tokens, examples, self.settings.segments)

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
            columns = self.tokenize([[pair] for pair in chunk])
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
            target = np.asarray([self.number(e["number"]) for e in examples])
            found = np.asarray(self.relevance(loaded, [self.input_from(e) for e in examples]))
            return metrics.evaluate_numbers(target, found, metrics.correlations)
        candidates: dict[str, dict[str, bool]] = {}
        for e in examples:
            known = candidates.setdefault(str(e["anchor"]), {})
            known |= {text: known.get(text, False) for text in negatives(e["negative"])}
            known[str(e["positive"])] = True
        relevant = [{i for i, ok in enumerate(documents.values()) if ok} for documents in candidates.values()]
        return self.evaluate_candidates(loaded, {query: list(d) for query, d in candidates.items()}, relevant)

    def evaluate_candidates(
        self, loaded: LoadedModel, candidates: Mapping[str, Sequence[str]], relevant: Sequence[set[int]]
    ) -> metrics.Evaluation:
        """Rank the candidates of each query; `relevant` are the numbers of the right ones, which may be missing."""
        pairs = [(query, document) for query, documents in candidates.items() for document in documents]
        scores = iter(self.relevance(loaded, pairs))
        by_query = [[(next(scores), i) for i in range(len(documents))] for documents in candidates.values()]
        ranked = [sorted(found, key=lambda pair: -pair[0]) for found in by_query]
        return evaluate_ranking(
            [[i for _, i in found] for found in ranked], [[score for score, _ in found] for found in ranked], relevant
        )

    def finalize(self, loaded: LoadedModel, rows: Rows) -> tuple[LoadedModel, dict[str, Any]]:
        return loaded, {}
