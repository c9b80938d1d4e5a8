"""Why a passage was found: what words of the query add to its BM25 score, and pairs of tokens to its cosine."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from clearhead.search.index import Index, SearchResult

DEPTH = 500  # passages of each word that are considered
PAIRS = 3


@dataclass(frozen=True)
class PassageReasons:
    """What speaks for a passage, most important first."""

    words: tuple[tuple[str, float], ...]  # of the query, and what each adds to the BM25 score
    tokens: tuple[tuple[str, str, float], ...]  # of the query and of the passage, and what each pair adds to the cosine


def explain_passages(index: Index, query: str, passages: Sequence[SearchResult]) -> list[PassageReasons]:
    """Return why each passage was found.

    BM25 is a sum over words, so each word is searched alone; one that is in too many passages to be among the best
    counts as 0, and so do stop words.
    """
    words = dict.fromkeys(re.findall(r"\w+", query))
    scores = {word: index.word_scores(word, DEPTH) for word in words}
    found: list[PassageReasons] = []
    for passage in passages:
        at = passage.source, passage.start
        added = [(word, by_place[at]) for word, by_place in scores.items() if at in by_place]
        pairs = index.similar_tokens(query, passage.text, PAIRS)
        found.append(PassageReasons(tuple(sorted(added, key=lambda one: -one[1])), tuple(pairs)))
    return found
