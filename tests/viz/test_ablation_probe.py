"""Predictions of the full model and with heads ablated."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from clearhead.attention import Layout
from clearhead.pipeline import load
from clearhead.viz import record_scene
from clearhead.viz.ablation_probe import AblationProbe
from tests.decode.conftest import corpus, folders  # noqa: F401


def test_encoder_cosine(minilm):
    probe = AblationProbe(minilm.loaded, ["The cat sat.", "Rain fell on the sea."])
    assert [answer.score for answer in probe.answers()] == [1.0, 1.0]
    changed = probe.ablate(1, {"encoder.0": list(range(12))})
    with torch.inference_mode(), minilm.ablate_heads({"encoder.0": "all"}):
        moved = minilm.encode("Rain fell on the sea.", normalize=False)
    want = F.cosine_similarity(moved, minilm.encode("Rain fell on the sea.", normalize=False), dim=0)
    assert changed.score == pytest.approx(float(want), abs=1e-5)
    assert changed.score is not None and changed.score < 0.99


def test_ablation_leaves_the_model_unchanged(minilm):
    probe = AblationProbe(minilm.loaded, ["The cat sat."])
    before = minilm.encode("The cat sat.")
    probe.ablate(0, {"encoder.1": [3]})
    assert torch.equal(minilm.encode("The cat sat."), before)


def test_unknown_text(minilm):
    with pytest.raises(LookupError, match="no text 3"):
        AblationProbe(minilm.loaded, ["One."]).ablate(3, {})


def test_translation_log_probability(folders):  # noqa: F811
    app = load(folders["marian"])
    scene = record_scene(app.loaded, ["the old man sees a dog"], ["two children play"])
    answer = scene.inputs[0].answer
    assert answer is not None and answer.score is not None and scene.ablated is not None
    assert answer.metric == "log-probability of the translation" and answer.score < 0
    assert answer.text == "two children play"
    changed = scene.ablated(0, {"decoder.0.cross": [0, 1]})
    assert changed.score != answer.score
    source, target = app.tokens("the old man sees a dog"), app.tokenizer("two children play")
    read = torch.cat([torch.tensor([app.tokenizer.pad_id]), target.ids[:-1]])
    with torch.no_grad():
        logits = app.model(source.ids, source.layout, read, Layout.from_lengths([len(read)]))
    assert answer.score == pytest.approx(-float(F.cross_entropy(logits, target.ids, reduction="sum")), rel=1e-5)


def test_language_model_log_probability(folders):  # noqa: F811
    app = load(folders["gpt2"])
    tokens = app.tokens("the old man sees")
    with torch.no_grad():
        logits = app.model(tokens.ids, tokens.layout)
    want = -float(F.cross_entropy(logits[:-1], tokens.ids[1:], reduction="sum"))
    assert AblationProbe(app.loaded, ["the old man sees"]).answers()[0].score == pytest.approx(want, rel=1e-5)


def test_empty_text_is_refused(minilm):
    with pytest.raises(ValueError, match="text 0 is empty"):
        record_scene(minilm.loaded, [" "])
