"""CIDEr-D, BLEU and chrF of captions with several references."""

from typing import Any

import numpy as np
import pytest
import sacrebleu
from hypothesis import given
from hypothesis import strategies as st

from clearhead.metrics.caption_metrics import caption_words, cider_scores, evaluate_captions

CAPTIONS = [
    "a dog runs on the grass", "two men are playing a game of chess", "a red car a red car a red car", "the",
]  # fmt: skip
REFERENCES = [
    ["a brown dog runs across the green grass", "a dog is running on grass"],
    ["two men play chess in the park", "men are playing a game of chess", "two people at a table with a board"],
    ["a red car is parked", "an old red car on the street"],
    ["a bird sits on a branch", "the bird sings"],
]
PUBLISHED = [2.086796244829131, 3.6428955067312025, 0.9664181102119969, 0.0]  # by pycocoevalcap 1.2, its CiderScorer

texts = st.lists(st.sampled_from("abcdef"), min_size=1, max_size=8)


def test_cider_equals_the_published_scorer():
    found = cider_scores([text.split() for text in CAPTIONS], [[r.split() for r in texts] for texts in REFERENCES])
    assert found == pytest.approx(PUBLISHED, abs=1e-12)


@given(st.lists(st.tuples(texts, st.lists(texts, min_size=1, max_size=3)), min_size=2, max_size=5))
def test_cider_is_bounded_and_keeps_the_order_of_images(pairs):
    captions, references = [c for c, _ in pairs], [r for _, r in pairs]
    found = cider_scores(captions, references)
    assert all(0 <= score <= 10 + 1e-9 for score in found)
    turned = cider_scores(captions[::-1], references[::-1])
    assert turned[::-1] == pytest.approx(found)
    exact = cider_scores([r[0] for r in references], [r[:1] for r in references])
    own = cider_scores(captions, [r[:1] for r in references])
    assert all(best >= other - 1e-9 for best, other in zip(exact, own, strict=True))


def test_scores_of_all_images_are_those_of_sacrebleu_and_case_and_punctuation_do_not_count():
    evaluation = evaluate_captions([text.upper() + "." for text in CAPTIONS], REFERENCES)
    scores = evaluation.scores()
    padded: Any = [[texts[i] if i < len(texts) else None for texts in REFERENCES] for i in range(3)]
    assert scores["bleu"] == pytest.approx(sacrebleu.corpus_bleu(CAPTIONS, padded, tokenize="none", force=True).score)
    assert scores["chrf"] == pytest.approx(sacrebleu.corpus_chrf(CAPTIONS, padded).score)
    assert scores["cider"] == pytest.approx(np.mean(PUBLISHED))
    low, high = evaluation.intervals(draws=50)["cider"]
    assert low < scores["cider"] < high
    some = evaluation.measure(np.array([0, 0, 1]))
    again = sacrebleu.corpus_bleu(
        [CAPTIONS[i] for i in (0, 0, 1)],
        [[padded[j][i] for i in (0, 0, 1)] for j in range(3)],
        tokenize="none",
        force=True,
    )
    assert some["bleu"] == pytest.approx(again.score)
    assert caption_words("A man's dog, 2 cats!") == ["a", "man", "'s", "dog", "2", "cats"]
