"""What a model answers, whole and without some heads."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from clearhead.app import load
from clearhead.attention import Layout
from clearhead.see import scene_of
from clearhead.see.answers import Asked
from tests.decode.conftest import corpus, folders  # noqa: F401


def test_an_encoder_s_vector_moves(minilm):
    asked = Asked(minilm.opened, ["The cat sat.", "Rain fell on the sea."])
    assert [answer.score for answer in asked.answers()] == [1.0, 1.0]
    changed = asked.without(1, {"encoder.0": list(range(12))})
    with torch.inference_mode(), minilm.without({"encoder.0": "all"}):
        moved = minilm.encode("Rain fell on the sea.", normalize=False)
    want = F.cosine_similarity(moved, minilm.encode("Rain fell on the sea.", normalize=False), dim=0)
    assert changed.score == pytest.approx(float(want), abs=1e-5)
    assert changed.score < 0.99


def test_nothing_is_left_behind(minilm):
    asked = Asked(minilm.opened, ["The cat sat."])
    before = minilm.encode("The cat sat.")
    asked.without(0, {"encoder.1": [3]})
    assert torch.equal(minilm.encode("The cat sat."), before)


def test_there_is_no_such_text(minilm):
    with pytest.raises(LookupError, match="no text 3"):
        Asked(minilm.opened, ["One."]).without(3, {})


def test_a_translator_s_log_probability(folders):  # noqa: F811
    app = load(folders["marian"])
    scene = scene_of(app.opened, ["the old man sees a dog"], ["two children play"])
    answer = scene.inputs[0].answer
    assert answer.what == "log p of the translation" and answer.score < 0
    assert answer.text == "two children play"
    changed = scene.without(0, {"decoder.0.cross": [0, 1]})
    assert changed.score != answer.score
    source, target = app.tokens("the old man sees a dog"), app.tokenizer("two children play")
    read = torch.cat([torch.tensor([app.tokenizer.pad_id]), target.ids[:-1]])
    with torch.no_grad():
        logits = app.model(source.ids, source.layout, read, Layout.of([len(read)]))
    assert answer.score == pytest.approx(-float(F.cross_entropy(logits, target.ids, reduction="sum")), rel=1e-5)


def test_a_language_model_s_log_probability(folders):  # noqa: F811
    app = load(folders["gpt2"])
    tokens = app.tokens("the old man sees")
    with torch.no_grad():
        logits = app.model(tokens.ids, tokens.layout)
    want = -float(F.cross_entropy(logits[:-1], tokens.ids[1:], reduction="sum"))
    assert Asked(app.opened, ["the old man sees"]).answers()[0].score == pytest.approx(want, rel=1e-5)


def test_a_text_without_words_is_refused(minilm):
    with pytest.raises(ValueError, match="without words"):
        scene_of(minilm.opened, [" "])
