"""Retrieval in two stages: an embedding model finds documents, and a reranker sorts the best of them."""

from clearhead.data import Rows
from clearhead.data.split import spread
from clearhead.hub.folder import LoadedModel
from clearhead.metrics.evaluation import Evaluation
from clearhead.metrics.retrieval import evaluate_ranking, nearest
from clearhead.tasks.embed import Embed
from clearhead.tasks.rerank import Rerank


def evaluate_two_stages(
    retriever: LoadedModel, reranker: LoadedModel, rows: Rows, depth: int, max_queries: int | None = None
) -> tuple[Evaluation, Evaluation]:
    """Return the metrics of the `depth` nearest documents of each query, before and after reranking.

    The documents are all positives and negatives of the rows; a relevant document that was not retrieved counts as
    missed. With `max_queries`, so many queries are ranked, spread evenly over the rows.
    """
    examples = [row.values for row in rows]
    if examples and not {"anchor", "positive"} <= set(examples[0]):
        raise ValueError(f"the rows have {', '.join(examples[0])}: retrieval needs the columns anchor and positive")
    found = Embed.from_model(retriever).retrieval(retriever, examples)
    queries = list(found.relevant)
    chosen = spread(range(len(queries)), max_queries)
    scores, numbers = nearest(found.queries[chosen], found.documents, depth)
    relevant = [found.relevant[queries[i]] for i in chosen]
    first = evaluate_ranking(numbers.tolist(), scores.tolist(), relevant)
    candidates: dict[str, list[str]] = {}
    places: list[set[int]] = []
    for i, retrieved, wanted in zip(chosen, numbers.tolist(), relevant, strict=True):
        candidates[queries[i]] = [found.texts[int(number)] for number in retrieved]
        at = {number: place for place, number in enumerate(retrieved)}
        places.append({at.get(number, -1 - number) for number in wanted})
    return first, Rerank.from_model(reranker).evaluate_candidates(reranker, candidates, places)
