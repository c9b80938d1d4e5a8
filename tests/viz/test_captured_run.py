"""Captured runs have token labels, for clearhead and transformers models, and can be drawn and shown."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import clearhead
from clearhead.viz import token_labels
from clearhead.viz.figures import PLOTS, draw_bert_input, draw_sinusoids, plot

transformers = pytest.importorskip("transformers")
TEXT = "The animal did not cross the street because it was too tired."


def test_labels_come_from_the_model_s_tokenizer(minilm):
    with minilm.look() as captured:
        minilm.encode([TEXT, "A second one."])
    scene = captured.scene()
    assert sorted(len(each.axes[0].names) for each in scene.inputs) == [6, 15]
    longest = max(scene.inputs, key=lambda each: len(each.axes[0].names))
    assert longest.axes[0].names.words[9] == "it"
    assert longest.axes[0].names.special[0] and longest.label.startswith("the animal did")
    record = longest.layer("encoder.3").attention
    assert int(record.head(1)[9].argmax()) == 2


def live_model(kind: str):
    torch.manual_seed(0)
    sizes = {"vocab_size": 40, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4}
    if kind == "bert":
        config = transformers.BertConfig(**sizes, intermediate_size=64)
        return transformers.BertModel(config).eval()
    if kind == "gpt2":
        config = transformers.GPT2Config(vocab_size=40, n_embd=32, n_layer=2, n_head=4)
        return transformers.GPT2LMHeadModel(config).eval()
    config = transformers.MarianConfig(
        vocab_size=40, d_model=32, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4,
        decoder_attention_heads=4, encoder_ffn_dim=64, decoder_ffn_dim=64, pad_token_id=39, decoder_start_token_id=39,
    )  # fmt: skip
    return transformers.MarianMTModel(config).eval()


@pytest.mark.parametrize("kind", ["bert", "gpt2"])
def test_live_models_with_words_given(kind):
    model, words = live_model(kind), ["[CLS]", "a", "##b", "c", "[SEP]"]
    with torch.no_grad(), clearhead.look(model) as captured:
        model(input_ids=torch.arange(5)[None])
    scene = captured.scene(words)
    assert scene.inputs[0].axes[0].names == token_labels(words)
    assert len(scene.inputs[0].layers) == 2
    assert scene.model == type(model).__name__


def test_a_live_translator_has_three_axes():
    model = live_model("marian")
    with torch.no_grad(), clearhead.look(model) as captured:
        model(input_ids=torch.arange(6)[None], decoder_input_ids=torch.tensor([[39, 3, 4]]))
    scene = captured.scene(["<pad>", "x", "y"], ["a", "b", "c", "d", "e", "</s>"])
    given = scene.inputs[0]
    assert [axis.name for axis in given.axes] == ["source", "decoder input", "decoder output"]
    assert given.axes[2].names.words == ("x", "y", "</s>")
    cross = [layer for layer in given.layers if layer.kind == "cross"]
    assert len(cross) == 2 and {(layer.queries, layer.keys) for layer in cross} == {(2, 0)}


def test_a_decoder_while_it_generates():
    model = live_model("gpt2")
    with torch.no_grad(), clearhead.look(model) as captured:
        model.generate(torch.tensor([[1, 2, 3]]), max_new_tokens=4, do_sample=False, pad_token_id=0)
    scene = captured.scene([str(i) for i in range(6)])
    record = scene.inputs[0].layers[0].attention
    assert record.shape == (6, 6)
    head = record.head(2)
    torch.testing.assert_close(head.sum(1), torch.ones(6))
    assert torch.equal(head.triu(1), torch.zeros(6, 6))
    vectors = record.vectors(2)
    assert vectors is not None
    queries, keys, _, scale = vectors
    want = (queries @ keys.T * scale).masked_fill(torch.ones(6, 6).triu(1).bool(), float("-inf")).softmax(-1)
    torch.testing.assert_close(head, want, atol=1e-6, rtol=1e-5)


def test_empty_capture_is_refused(minilm):
    with minilm.look() as captured:
        pass
    with pytest.raises(LookupError, match="no attention was captured"):
        captured.scene()


def test_page_is_written_to_path(minilm, tmp_path):
    with minilm.look() as captured:
        minilm.encode(TEXT)
    address = captured.show(path=tmp_path / "seen.html", open=False)
    assert address == (tmp_path / "seen.html").as_uri()
    assert "animal" in (tmp_path / "seen.html").read_text()


@pytest.mark.parametrize("kind", PLOTS)
@pytest.mark.parametrize("dark", [False, True])
def test_every_figure(animals, kind, dark):
    from clearhead.viz.style import DARK, LIGHT

    options: dict[str, Any] = {"word": "it"} if kind == "word" else {}
    figure = plot(animals, kind, theme=DARK if dark else LIGHT, **options)
    figure.canvas.draw()


@pytest.mark.parametrize(
    ("kind", "options", "message"),
    [
        ("bars", {}, "no figure 'bars': choose alignment, heads"),
        ("word", {}, "needs a word"),
        ("word", {"word": "zebra"}, "'zebra' is not a token of the input"),
        ("model", {"head": 3}, "the figure 'model' does not accept 'head'"),
    ],
)
def test_figures_that_cannot_be_drawn(animals, kind, options, message):
    with pytest.raises(ValueError, match=message):
        plot(animals, kind, **options)


def test_input_figures():
    draw_sinusoids().canvas.draw()
    words = ["[CLS]", "my", "dog", "[SEP]"]
    parts = [(name, [f"E{i}" for i in range(4)], torch.randn(4, 48)) for name in ("token", "segment", "position")]
    draw_bert_input(words, parts).canvas.draw()
