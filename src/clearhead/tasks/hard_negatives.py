"""Hard negatives: documents that a model ranks high for a query although they are not its answer."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch

from clearhead.hub.folder import LoadedModel
from clearhead.tasks.embed import Embed


@dataclass(frozen=True, kw_only=True)
class MiningConfig:
    """Which of the nearest documents become negatives."""

    num_negatives: int = 3  # of each row
    depth: int = 50  # nearest documents that are considered
    sampling: Literal["top", "spread"] = "top"  # the nearest of these, or evenly spread over them
    margin: float = 0.95
    """A document whose cosine is above this share of the positive's is left out: it may be an answer itself
    (de Souza Pereira Moreira et al. 2024)."""

    def __post_init__(self) -> None:
        if self.sampling not in ("top", "spread"):
            raise ValueError(f"sampling is {self.sampling!r}: choose top or spread")
        if self.num_negatives < 1 or self.depth < self.num_negatives:
            raise ValueError(
                f"num_negatives is {self.num_negatives} and depth {self.depth}: "
                "give at least 1, and a depth of at least as many"
            )


def mine_negatives(
    loaded: LoadedModel, rows: Sequence[Mapping[str, Any]], config: MiningConfig
) -> Iterator[dict[str, Any]]:
    """Yield anchor, positive and negatives of each row, in order; a row without negatives is left out.

    The documents are all positives of the rows. No document that any row pairs with the same anchor is a negative.
    """
    found = Embed.from_model(loaded).retrieval(loaded, rows)
    queries = {anchor: i for i, anchor in enumerate(found.relevant)}
    documents = {text: i for i, text in enumerate(found.texts)}
    scores, numbers = found.top(config.depth)
    for row in rows:
        query, positive = queries[str(row["anchor"])], documents[str(row["positive"])]
        limit = config.margin * float(torch.dot(found.queries[query], found.documents[positive]))
        negatives = [
            found.texts[number]
            for number, score in zip(numbers[query].tolist(), scores[query].tolist(), strict=True)
            if number not in found.relevant[str(row["anchor"])] and score <= limit
        ]
        if negatives:
            count = min(config.num_negatives, len(negatives))
            step = len(negatives) // count if config.sampling == "spread" else 1
            chosen = negatives[: count * step : step]
            yield {"anchor": row["anchor"], "positive": row["positive"], "negative": chosen}
