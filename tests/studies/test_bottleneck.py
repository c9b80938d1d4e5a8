import random

import pytest
import torch

from clearhead.metrics.evaluation import bleu_scores
from clearhead.studies import bottleneck, demo
from clearhead.studies.bottleneck import BottleneckResult, LengthBucket, TranslatorScores, by_length, interval


@pytest.fixture(autouse=True)
def _one_thread():
    torch.set_num_threads(1)  # so little work is not worth sharing


def test_sources_in_buckets_by_their_words():
    sources = ["a " * n for n in (1, 7, 8, 10, 11, 40, 3)]
    assert by_length(sources) == [[0, 1, 6], [2, 3], [4], [5]]  # buckets without any are left out
    assert by_length(sources, starts=(1, 40)) == [[0, 1, 2, 3, 4, 6], [5]]
    assert by_length(["", "a"], starts=(1,)) == [[0, 1]]


def test_the_interval_holds_the_score_and_shrinks_with_more_sentences():
    chance = random.Random(1)
    references = [" ".join(chance.choices("abcdefgh", k=8)) for _ in range(160)]
    said = [" ".join(w if chance.random() > 0.2 else "x" for w in line.split()) for line in references]
    spans = []
    for count in (20, 160):
        low, high = interval(said[:count], references[:count])
        assert low < bleu_scores(said[:count], references[:count])["bleu"] < high
        spans.append(high - low)
    assert spans[1] < spans[0] / 1.5
    assert interval(said, references) == interval(said, references)
    assert interval(said[:1], references[:1], 3) == (pytest.approx(bleu_scores(said[:1], references[:1])["bleu"]),) * 2


def test_a_translation_without_a_fault_leaves_no_doubt():
    lines = ["one two three four five"] * 5
    assert interval(lines, lines) == (100.0, 100.0)


@pytest.mark.parametrize(
    ("models", "sources", "says"), [({}, ["a"], "no model"), ({"a": "x"}, ["a", "b"], "2 sources")]
)
def test_what_cannot_be_measured_is_told(models, sources, says):
    with pytest.raises(ValueError, match=says):
        bottleneck.measure(models, sources, ["a"])


def test_the_quick_study_end_to_end(tmp_path):
    heard = []
    measured = bottleneck.quick(tmp_path, tested=15, on_progress=lambda name, step, steps: heard.append(name))
    assert [t.label for t in measured.translators] == list(demo.MODELS)
    assert measured.sentences == 15
    for t in measured.translators:
        assert sum(b.sentences for b in t.buckets) == 15
        assert all(0 <= b.low <= b.high <= 100 for b in t.buckets)
        assert all(a.longest < b.shortest for a, b in zip(t.buckets, t.buckets[1:], strict=False))
    assert list(dict.fromkeys(heard)) == [*demo.MODELS, "translating"]


def test_the_picture():
    buckets = tuple(LengthBucket(n, n + 2, 50, 30.0 - n, 28.0 - n, 32.0 - n) for n in (1, 4, 7))
    translators = tuple(TranslatorScores(label, 10, 30.0, 50.0, buckets) for label in ("with", "without"))
    (axes,) = bottleneck.draw(BottleneckResult(150, 5, translators)).axes
    assert len(axes.lines) == len(axes.collections) == 2
    assert [text.get_text() for text in axes.texts] == ["with", "without"]
    assert [tick.get_text() for tick in axes.get_xticklabels()] == ["1–3\n(50)", "4–6\n(50)", "7–9\n(50)"]
    assert axes.get_ylim() == (0, 35)
