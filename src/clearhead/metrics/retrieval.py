"""Retrieval metrics: how high the relevant documents of each query rank among all documents."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from clearhead.metrics.evaluation import Evaluation, Numbers, Ranking

DEPTH = 100  # documents ranked for each query
BLOCK = 1024  # queries ranked at a time


@dataclass(frozen=True, eq=False)
class Retrieval:
    """Queries and documents with their vectors, and the documents that are relevant to each query."""

    queries: Tensor  # (Q, D)
    documents: Tensor  # (M, D)
    relevant: Mapping[str, set[int]]  # of each query, in order
    texts: Sequence[str]  # (M,) of the documents

    def top(self, k: int = DEPTH) -> tuple[Tensor, Tensor]:
        """Return the scores and numbers of the k nearest documents of each query by dot product, (Q, k)."""
        return nearest(self.queries, self.documents, k)


def nearest(queries: Tensor, documents: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """Return the largest dot products of each query and their documents, (Q, k), exactly; ties by number."""
    k = min(k, len(documents))
    scores, numbers = [], []
    for block in queries.split(BLOCK):
        best = torch.sort(block @ documents.t(), dim=1, descending=True, stable=True)
        scores.append(best.values[:, :k])
        numbers.append(best.indices[:, :k])
    if not scores:
        return torch.zeros(0, k), torch.zeros(0, k, dtype=torch.int64)
    return torch.cat(scores), torch.cat(numbers)


def evaluate_retrieval(retrieval: Retrieval) -> Evaluation:
    """Return MRR@10, nDCG@10 and recall@1, 5 and 20 over the queries, in percent."""
    scores, numbers = retrieval.top()
    relevant = list(retrieval.relevant.values())
    found = evaluate_ranking(numbers.tolist(), scores.tolist(), relevant)
    assert found.ranking is not None
    pairs = [(q, d) for q, wanted in enumerate(relevant) for d in sorted(wanted)]
    first, second = (torch.tensor([pair[side] for pair in pairs]) for side in (0, 1))
    ranking = replace(
        found.ranking,
        relevant_scores=(retrieval.queries[first] * retrieval.documents[second]).sum(1).numpy(),  # of those missed too
        queries=list(retrieval.relevant),
        documents=retrieval.texts,
        query_vectors=retrieval.queries.numpy(),
        document_vectors=retrieval.documents.numpy(),
        pairs=pairs,
    )
    return replace(found, ranking=ranking)


def evaluate_ranking(
    numbers: Sequence[Sequence[int]], scores: Sequence[Sequence[float]], relevant: Sequence[set[int]]
) -> Evaluation:
    """Return the metrics of ranked documents of each query, computed by trec_eval through ir-measures."""
    import ir_measures
    from ir_measures import RR, R, nDCG

    names = {"mrr": RR @ 10, "ndcg": nDCG @ 10, "recall_1": R @ 1, "recall_5": R @ 5, "recall_20": R @ 20}
    qrels = {str(q): {str(d): 1 for d in documents} for q, documents in enumerate(relevant)}
    run = {
        str(q): {str(d): -float(rank) for rank, d in enumerate(ranked)}  # the order decides
        for q, ranked in enumerate(numbers)
    }
    values: dict[str, Numbers] = {name: np.zeros(len(relevant)) for name in names}
    by_measure = {measure: name for name, measure in names.items()}
    for metric in ir_measures.iter_calc(list(names.values()), qrels, run):
        values[by_measure[metric.measure]][int(metric.query_id)] = 100.0 * metric.value
    ranking = _ranking(numbers, scores, relevant)
    return Evaluation(
        len(relevant), lambda some: {name: float(v[some].mean()) for name, v in values.items()}, ranking=ranking
    )


def _ranking(
    numbers: Sequence[Sequence[int]], scores: Sequence[Sequence[float]], relevant: Sequence[set[int]]
) -> Ranking:
    depth = max((len(ranked) for ranked in numbers), default=0)
    recall, by_relevance = np.zeros(depth), {True: list[float](), False: list[float]()}
    for ranked, ranked_scores, wanted in zip(numbers, scores, relevant, strict=True):
        hits = np.array([d in wanted for d in ranked], dtype=bool)
        found = np.cumsum(hits) / max(len(wanted), 1)
        recall += np.pad(found, (0, depth - len(found)), mode="edge") if len(found) else 0.0
        for hit, score in zip(hits.tolist(), ranked_scores, strict=True):
            by_relevance[hit].append(score)
    good, bad = (np.array(by_relevance[side]) for side in (True, False))
    return Ranking(100.0 * recall / max(len(relevant), 1), good, bad, (), ())
