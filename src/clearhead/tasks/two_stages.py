"""Retrieval in two stages: an embedding model finds documents, and a reranker sorts the best of them."""

from clearhead.data import Rows
from clearhead.hub.folder import LoadedModel
from clearhead.tasks.embed import Embed
from clearhead.tasks.metrics import Evaluation
from clearhead.tasks.rerank import Rerank


def evaluate_two_stages(retriever: LoadedModel, reranker: LoadedModel, rows: Rows, depth: int) -> Evaluation:
    """Return the metrics of the `depth` nearest documents of each query after reranking.

    The documents are all positives and negatives of the rows; a relevant document that was not retrieved counts as
    missed.
    """
    examples = [row.values for row in rows]
    if examples and not {"anchor", "positive"} <= set(examples[0]):
        raise ValueError(f"the rows have {', '.join(examples[0])}: retrieval needs the columns anchor and positive")
    found = Embed.from_model(retriever).retrieval(retriever, examples)
    candidates: dict[str, list[str]] = {}
    relevant: list[set[int]] = []
    for (query, wanted), numbers in zip(found.relevant.items(), found.top(depth)[1].tolist(), strict=True):
        candidates[query] = [found.texts[int(number)] for number in numbers]
        places = {number: place for place, number in enumerate(numbers)}
        relevant.append({places.get(number, -1 - number) for number in wanted})
    return Rerank.from_model(reranker).evaluate_candidates(reranker, candidates, relevant)
