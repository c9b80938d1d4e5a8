"""Metrics of captions against several references each: BLEU-4, CIDEr and chrF.

As is usual for captions, letters are lowercased and punctuation is left out before anything is counted.
"""

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from clearhead.metrics.evaluation import Evaluation, Numbers

MAX_N = 4  # n-grams of 1 to 4 words
SIGMA = 6.0  # of the penalty on a difference in length
WORD = re.compile(r"'?\w+")  # man's: man and 's

Grams = Mapping[tuple[str, ...], int]


def caption_words(text: str) -> list[str]:
    """Return the words of a caption, lowercased and without punctuation."""
    return WORD.findall(text.lower())


def evaluate_captions(captions: Sequence[str], references: Sequence[Sequence[str]]) -> Evaluation:
    """Compare each caption with the references of its image.

    A resampled set of images keeps the n-gram frequencies of all images, and so the CIDEr of each image.
    """
    from sacrebleu.metrics.bleu import BLEU
    from sacrebleu.metrics.chrf import CHRF

    words = [caption_words(text) for text in captions]
    wanted = [[caption_words(text) for text in texts] for texts in references]
    cider = np.array(cider_scores(words, wanted))
    lines = [" ".join(one) for one in words]
    targets = [[" ".join(one) for one in texts] for texts in wanted]
    corpus = {
        "bleu": CorpusMetric(BLEU(tokenize="none", force=True), lines, targets),
        "chrf": CorpusMetric(CHRF(), lines, targets),
    }

    def measure(some: Numbers) -> dict[str, float]:
        mean = float(cider[some].mean()) if len(some) else 0.0
        return {"bleu": corpus["bleu"].score(some), "cider": mean, "chrf": corpus["chrf"].score(some)}

    return Evaluation(len(captions), measure)


class CorpusMetric:
    """A metric of sacreBLEU on subsets of the same lines: the counts of each line are made once.

    sacreBLEU computes its own confidence intervals by these two methods, which are not public.
    """

    def __init__(self, metric: Any, lines: Sequence[str], references: Sequence[Sequence[str]]) -> None:
        self._metric = metric
        depth = max(map(len, references), default=0)
        columns = [[texts[i] if i < len(texts) else None for texts in references] for i in range(depth)]
        self._counts = np.array(metric._extract_corpus_statistics(lines, columns)) if lines else np.zeros((0, 1))

    def score(self, some: Numbers) -> float:
        """Return the score of the lines with these numbers."""
        return float(self._metric._aggregate_and_compute(self._counts[some]).score) if len(some) else 0.0


def cider_scores(captions: Sequence[Sequence[str]], references: Sequence[Sequence[Sequence[str]]]) -> list[float]:
    """Return CIDEr-D of each image, from 0 to 10 (Vedantam et al. 2015, section 4 and 5).

    An n-gram weighs more the fewer images have it in their references. Counts of a caption above those of a reference
    do not help it, and a difference in length is punished.
    """
    reference_grams = [[_grams(words) for words in texts] for texts in references]
    images = Counter(gram for texts in reference_grams for gram in {gram for grams in texts for gram in grams})
    total = math.log(max(len(references), 1))

    def weights(grams: Grams) -> tuple[dict[tuple[str, ...], float], list[float], int]:
        """Return the weight of each n-gram, the norms by n, and the number of pairs of words."""
        values = {gram: count * (total - math.log(max(1, images[gram]))) for gram, count in grams.items()}
        squares = [0.0] * MAX_N
        for gram, value in values.items():
            squares[len(gram) - 1] += value**2
        return values, [math.sqrt(s) for s in squares], sum(n for gram, n in grams.items() if len(gram) == 2)

    out: list[float] = []
    for words, texts in zip(captions, reference_grams, strict=True):
        own, own_norms, own_length = weights(_grams(words))
        sums = 0.0
        for grams in texts:
            other, other_norms, length = weights(grams)
            products = [0.0] * MAX_N
            for gram, value in own.items():
                if gram in other:
                    products[len(gram) - 1] += min(value, other[gram]) * other[gram]
            cosines = [p / (a * b) if a and b else p for p, a, b in zip(products, own_norms, other_norms, strict=True)]
            sums += sum(cosines) / MAX_N * math.exp(-((own_length - length) ** 2) / (2 * SIGMA**2))
        out.append(10 * sums / max(len(texts), 1))
    return out


def _grams(words: Sequence[str]) -> Grams:
    return Counter(tuple(words[i : i + n]) for n in range(1, MAX_N + 1) for i in range(len(words) - n + 1))
