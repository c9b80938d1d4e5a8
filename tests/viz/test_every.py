"""Every architecture in the page: the weights shown are those the attention computed."""

from __future__ import annotations

import json

import pytest
import torch

from clearhead.attention.kernels import reference
from clearhead.hub.folder import LoadedModel
from clearhead.models import build
from clearhead.tasks import LanguageModel, Translate
from clearhead.text import train_tokenizer
from clearhead.viz import Captured, record_scene, show
from tests.decode.conftest import corpus  # noqa: F401

SMALL = {"width": 24, "hidden_size": 24}
TRANSFORMER = {"size": "tiny", "num_layers": 2, "num_heads": 2, "width": 24, "ffn_dim": 32}
KINDS = {
    "transformer": (Translate, TRANSFORMER),
    "additive": (Translate, {"kind": "gru", "attention": "additive", **SMALL}),
    "luong dot": (Translate, {"kind": "lstm", "attention": "dot", "bidirectional": False, **SMALL}),
    "luong general": (Translate, {"kind": "gru", "attention": "general", **SMALL}),
    "language model": (LanguageModel, TRANSFORMER),
}


def untrained(kind: str, path) -> LoadedModel:
    """Return a model with random weights, as training would save it."""
    make, settings = KINDS[kind]
    task = make(
        train_tokenizer(path, template=make.spec.template, vocab_size=300 if make is LanguageModel else 120), 48
    )
    config = task.config(settings)
    torch.manual_seed(0)
    model = build(config).eval()
    with torch.no_grad():
        for p in model.parameters():
            p.add_(0.2 * torch.randn_like(p))
    saved = task.save_format(config)
    extra_files = {"generation_config.json": json.dumps(saved.generation).encode()}
    return LoadedModel(model, config, saved.family, saved.architecture, {}, task.tokenizer, extra_files)


@pytest.mark.parametrize("kind", KINDS)
def test_page_shows_exact_weights(tab, corpus, kind, tmp_path):  # noqa: F811
    scene = record_scene(untrained(kind, corpus), ["the old man sees a dog"], answers=False)
    given = scene.inputs[0]
    last = len(given.layers) - 1
    layer = given.layers[last]
    translates = kind != "language model"
    assert layer.kind == ("cross" if translates else "self")
    tab.set_viewport_size({"width": 1200, "height": 2000})  # all words in sight
    tab.goto(show(scene, tmp_path / "page.html") + f"#lines.0.{last}.0")
    tab.wait_for_selector(".lines .word")
    assert isinstance(layer.attention, Captured)
    view = layer.attention.view
    want = reference.rows(view.inputs, layer.attention.sequence, 0, slice(None)).double()
    assert want.shape == layer.attention.shape
    if translates:
        assert given.label.startswith("the old man")
    for query in range(0, len(want), 3):
        tab.hover(f".from .word >> nth={query}")
        shown = tab.eval_on_selector_all(".to .word", "words => words.map(w => Number(w.dataset.weight))")
        assert (torch.tensor(shown, dtype=torch.float64) - want[query]).abs().max() < 1e-6


@pytest.mark.parametrize("kind", ["additive", "luong dot"])
def test_steps_are_shown_for_dot_product_scores(tab, corpus, kind, tmp_path):  # noqa: F811
    scene = record_scene(untrained(kind, corpus), ["the old man sees a dog"], answers=False)
    tab.goto(show(scene, tmp_path / "page.html") + f"#steps.0.{len(scene.inputs[0].layers) - 1}.0")
    tab.wait_for_selector("main:not([aria-busy]) section")
    assert tab.locator("table.steps").count() == (1 if kind == "luong dot" else 0)
    if kind == "additive":
        assert "steps" in tab.text_content("main section")
