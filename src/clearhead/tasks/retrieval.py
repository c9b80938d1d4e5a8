"""Retrieval metrics: how high the relevant documents of each query rank among all documents."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from clearhead.tasks.metrics import Evaluation, Numbers

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
    return evaluate_ranking(retrieval.top()[1].tolist(), list(retrieval.relevant.values()))


def evaluate_ranking(numbers: Sequence[Sequence[int]], relevant: Sequence[set[int]]) -> Evaluation:
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
    return Evaluation(len(relevant), lambda some: {name: float(v[some].mean()) for name, v in values.items()})
