"""Word alignments of translations: by IBM model 1 (Brown et al. 1993), or from the alignment of tokens."""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from clearhead.metrics.bootstrap import Numbers

ITERATIONS = 5


def learn_alignments(sources: Sequence[Sequence[str]], targets: Sequence[Sequence[str]]) -> list[Numbers]:
    """Return for each pair of sentences the probability of each source word for each target word, (T, S).

    IBM model 1 by expectation maximization; a row sums to at most 1, the rest belongs to the empty word.
    """
    source_ids, target_ids = _numbered(sources, first=1), _numbered(targets)
    rows = [np.tile(np.concatenate([[0], ids]), len(other)) for ids, other in zip(source_ids, target_ids, strict=True)]
    columns = [np.repeat(other, len(ids) + 1) for ids, other in zip(source_ids, target_ids, strict=True)]
    if not rows:
        return []
    source, target = np.concatenate(rows), np.concatenate(columns)
    width = int(target.max(initial=0)) + 1
    pairs, pair = np.unique(source.astype(np.int64) * width + target, return_inverse=True)
    # All pairs of one target word of one sentence follow one another.
    sizes = np.concatenate([np.full(len(b), len(a) + 1) for a, b in zip(source_ids, target_ids, strict=True)])
    word = np.repeat(np.arange(len(sizes)), sizes)
    chance = np.full(len(pairs), 1.0)
    share = np.zeros(len(pair))
    for _ in range(ITERATIONS):
        weight = chance[pair]
        share = weight / np.bincount(word, weight, len(sizes))[word]
        counts = np.bincount(pair, share, len(pairs))
        owner = pairs // width
        chance = counts / np.bincount(owner, counts)[owner]
    ends = np.cumsum([len(a) for a in rows])
    parts = np.split(share, ends[:-1])
    return [part.reshape(len(b), len(a) + 1)[:, 1:] for part, a, b in zip(parts, source_ids, target_ids, strict=True)]


def _numbered(sentences: Sequence[Sequence[str]], first: int = 0) -> list[Numbers]:
    vocabulary: dict[str, int] = {}
    return [
        np.array([vocabulary.setdefault(word.lower(), len(vocabulary) + first) for word in words], dtype=np.int64)
        for words in sentences
    ]


def merge_tokens(
    attention: Numbers, target: Sequence[tuple[int, int]], source: Sequence[tuple[int, int]],
    target_words: Sequence[tuple[int, int]], source_words: Sequence[tuple[int, int]],
) -> Numbers:  # fmt: skip
    """Return the alignment of words from that of tokens: the sum over a source word's, the mean over a target word's.

    All spans are positions of characters in the texts, (start, end). A token counts for the words that it overlaps.
    """
    rows, columns = _overlaps(target_words, target), _overlaps(source_words, source)
    counts = np.maximum(rows.sum(1, keepdims=True), 1)
    return (rows / counts) @ attention @ columns.T


def _overlaps(words: Sequence[tuple[int, int]], tokens: Sequence[tuple[int, int]]) -> Numbers:
    word, token = np.array(words).reshape(-1, 1, 2), np.array(tokens).reshape(1, -1, 2)
    return ((word[..., 0] < token[..., 1]) & (token[..., 0] < word[..., 1])).astype(float)


def spans(prefixes: Sequence[str]) -> list[tuple[int, int]]:
    """Return the characters that each token adds to a text, from the texts of growing prefixes."""
    return list(pairwise([0, *(len(prefix) for prefix in prefixes)]))
