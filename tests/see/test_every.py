"""Every kind of model of the lectures in the page: what is read there is what its own attention computed."""

from __future__ import annotations

import json

import pytest
import torch

from clearhead.attention.kernels import reference
from clearhead.models import build
from clearhead.models.store import Opened
from clearhead.see import scene_of, show
from clearhead.tasks import LanguageModel, Translate
from clearhead.text import train_tokenizer
from tests.decode.conftest import corpus  # noqa: F401

SMALL = {"width": 24, "hidden": 24}
TRANSFORMER = {"size": "tiny", "num_layers": 2, "num_heads": 2, "width": 24, "hidden": 32}
KINDS = {
    "transformer": (Translate, TRANSFORMER),
    "additive": (Translate, {"kind": "gru", "attention": "additive", **SMALL}),
    "luong dot": (Translate, {"kind": "lstm", "attention": "dot", "bidirectional": False, **SMALL}),
    "luong general": (Translate, {"kind": "gru", "attention": "general", **SMALL}),
    "language model": (LanguageModel, TRANSFORMER),
}


def opened(kind: str, path) -> Opened:
    """A model with fresh weights, as training would save it."""
    make, settings = KINDS[kind]
    task = make(train_tokenizer(path, template=make.template, vocab_size=300 if make is LanguageModel else 120), 48)
    config = task.config(settings)
    torch.manual_seed(0)
    model = build(config).eval()
    with torch.no_grad():
        for p in model.parameters():
            p.add_(0.2 * torch.randn_like(p))
    carried = {"generation_config.json": json.dumps(task.generation()).encode()}
    return Opened(model, config, *task.layout(config), {}, task.tokenizer, carried)


@pytest.mark.parametrize("kind", KINDS)
def test_the_page_shows_what_the_model_attended_to(tab, corpus, kind, tmp_path):  # noqa: F811
    scene = scene_of(opened(kind, corpus), ["the old man sees a dog"], answers=False)
    given = scene.inputs[0]
    last = len(given.layers) - 1
    layer = given.layers[last]
    translates = kind != "language model"
    assert layer.kind == ("cross" if translates else "self")
    tab.set_viewport_size({"width": 1200, "height": 2000})  # all words in sight
    tab.goto(show(scene, tmp_path / "page.html") + f"#lines.0.{last}.0")
    tab.wait_for_selector(".lines .word")
    view = layer.record.view
    want = reference.rows(view.call, layer.record.sequence, 0, slice(None)).double()
    assert want.shape == layer.record.shape
    if translates:
        assert given.label.startswith("the old man")
    for query in range(0, len(want), 3):
        tab.hover(f".from .word >> nth={query}")
        shown = tab.eval_on_selector_all(".to .word", "words => words.map(w => Number(w.dataset.weight))")
        assert (torch.tensor(shown, dtype=torch.float64) - want[query]).abs().max() < 1e-6


@pytest.mark.parametrize("kind", ["additive", "luong dot"])
def test_steps_are_told_where_scores_are_products(tab, corpus, kind, tmp_path):  # noqa: F811
    scene = scene_of(opened(kind, corpus), ["the old man sees a dog"], answers=False)
    tab.goto(show(scene, tmp_path / "page.html") + f"#steps.0.{len(scene.inputs[0].layers) - 1}.0")
    tab.wait_for_selector("main:not([aria-busy]) section")
    assert tab.locator("table.steps").count() == (1 if kind == "luong dot" else 0)
    if kind == "additive":
        assert "steps" in tab.text_content("main section")
