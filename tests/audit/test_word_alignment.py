"""Word alignments: learned from translations, and merged from tokens."""

import numpy as np
import pytest

from clearhead.audit.word_alignment import learn_alignments, merge_tokens, spans


def test_words_that_occur_together_are_aligned():
    sources = ["the dog sleeps", "the cat sleeps", "the dog eats", "a cat eats"]
    targets = ["der Hund schläft", "die Katze schläft", "der Hund frisst", "eine Katze frisst"]
    alignments = learn_alignments([s.split() for s in sources], [t.split() for t in targets])
    for alignment, source, target in zip(alignments, sources, targets, strict=True):
        assert alignment.shape == (len(target.split()), len(source.split()))
        assert alignment.min() >= 0 and alignment.sum(1).max() <= 1 + 1e-9
        for row in (1, 2):
            assert alignment[row].argmax() == row
    assert alignments[0][1, 1] > 1.5 * alignments[0][1].min() and alignments[0].sum() > 1.5


def test_sentences_may_be_empty():
    assert learn_alignments([], []) == []
    first, second = learn_alignments([[], ["a"]], [["b"], []])
    assert first.shape == (1, 0) and second.shape == (0, 1)


def test_tokens_are_merged_into_words():
    attention = np.array([[0.5, 0.3, 0.2], [0.1, 0.1, 0.8]])  # two target tokens, three source tokens
    merged = merge_tokens(attention, [(0, 3), (3, 6)], [(0, 2), (2, 4), (5, 6)], [(0, 6)], [(0, 4), (5, 6)])
    assert merged == pytest.approx(np.array([[0.5, 0.5]]))
    special = merge_tokens(attention, [(0, 3), (3, 3)], [(0, 2), (2, 4), (-1, -1)], [(0, 3)], [(0, 4)])
    assert special == pytest.approx(np.array([[0.8]]))


def test_spans_of_growing_prefixes():
    assert spans(["Der", "Der Ko", "Der Koch", "Der Koch"]) == [(0, 3), (3, 6), (6, 8), (8, 8)]
