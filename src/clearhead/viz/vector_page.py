"""Pages of sentence vectors: a map of queries and documents, and the tokens that make two texts similar."""

import base64
from typing import Any

import numpy as np
import torch

from clearhead.metrics.evaluation import Ranking
from clearhead.tasks.explain import Explanation
from clearhead.viz.page import embedded_page

MAX_POINTS = 4000  # of each kind on a map: more would only cover each other
MAX_CHARACTERS = 300  # of a text on a map


def map_page(ranking: Ranking, title: str) -> str:
    """Return a page with the vectors projected on their two main directions, and the text of each point."""
    if ranking.document_vectors is None or ranking.query_vectors is None:
        raise ValueError("this evaluation has no vectors: a map is drawn of an embedding model")
    documents, queries = (_first(n) for n in (len(ranking.documents), len(ranking.queries)))
    where = project(np.concatenate([ranking.document_vectors[documents], ranking.query_vectors[queries]]))
    kept = {int(number): place for place, number in enumerate(documents)}
    points = {int(number): place for place, number in enumerate(queries)}
    pairs = [(points[q], kept[d]) for q, d in ranking.pairs if q in points and d in kept]
    data = {
        "kind": "map",
        "title": title,
        "documents": [_short(ranking.documents[int(i)]) for i in documents],
        "queries": [_short(ranking.queries[int(i)]) for i in queries],
        "places": base64.b64encode(where.astype("<f4").tobytes()).decode(),
        "pairs": pairs,
    }
    return embedded_page("vectors", title, data)


def explanation_page(explanation: Explanation) -> str:
    """Return a page with the tokens of both texts, shaded by what they add to the score."""
    title = "Similarity" if explanation.pairs is not None else "Relevance"
    return embedded_page("vectors", title, {"kind": "explanation", "title": title, **explanation_data(explanation)})


def explanation_data(explanation: Explanation) -> dict[str, Any]:
    """Return an explanation as JSON values."""
    return {
        "score": explanation.score,
        "baseline": explanation.baseline,
        "first": list(explanation.first),
        "second": list(explanation.second),
        "first_values": explanation.first_values.tolist(),
        "second_values": explanation.second_values.tolist(),
        "pairs": None if explanation.pairs is None else explanation.pairs.tolist(),
    }


def project(vectors: np.ndarray) -> np.ndarray:
    """Return the first two principal components of vectors, (n, 2), the same at every call."""
    x = torch.from_numpy(np.ascontiguousarray(vectors)).double()
    x = x - x.mean(0)
    if len(x) < 2:
        return np.zeros((len(x), 2))
    _, directions = torch.linalg.eigh(x.t() @ x)
    main = directions[:, -2:].flip(1)
    main = main * torch.sign(main[main.abs().argmax(0), torch.arange(2)])
    return (x @ main).numpy()


def _first(count: int) -> np.ndarray:
    """Return which of so many points are drawn: all, or evenly spaced ones."""
    return np.arange(count) if count <= MAX_POINTS else np.linspace(0, count - 1, MAX_POINTS).astype(int)


def _short(text: str) -> str:
    return text if len(text) <= MAX_CHARACTERS else text[: MAX_CHARACTERS - 1] + "…"
