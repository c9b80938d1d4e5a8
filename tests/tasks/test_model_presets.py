"""Model sections: presets, what a recipe changes in them, and what it may not."""

from __future__ import annotations

import pytest

from clearhead.layers.recurrent import NETS
from clearhead.models import PRESETS, TransformerConfig, build
from clearhead.models.recurrent import RecurrentConfig
from clearhead.tasks.model_presets import decoder_only, encoder_decoder


@pytest.mark.parametrize("size", PRESETS)
def test_a_preset_is_taken_whole(size):
    config = encoder_decoder({"size": size}, 100, 50)
    preset = PRESETS[size]
    for stack in (config.encoder, config.decoder):
        assert isinstance(stack, TransformerConfig)
        assert (stack.width, stack.num_layers, stack.num_heads) == (preset.width, preset.num_layers, preset.num_heads)
        assert (stack.vocab_size, stack.max_len) == (100, 50)
    assert config.head is not None and config.head.vocab_size == 100 and config.shared_embedding


def test_what_the_recipe_says_comes_before_the_preset():
    config = encoder_decoder({"size": "tiny", "width": 48, "num_heads": 3, "dropout": 0.25}, 100, 50)
    assert isinstance(config.encoder, TransformerConfig)
    assert (config.encoder.width, config.encoder.num_heads, config.encoder.dropout) == (48, 3, 0.25)


def test_a_decoder_alone_is_a_gpt2():
    stack = decoder_only({"size": "tiny", "dropout": 0.3}, 100, 50).stack
    assert isinstance(stack, TransformerConfig)
    assert (stack.positions, stack.norm_first, stack.activation) == ("learned", True, "gelu_tanh")
    assert stack.embedding_dropout == 0.3, "GPT-2 writes it down for itself"
    without = decoder_only({"size": "tiny", "embedding_dropout": 0.0}, 100, 50).stack
    assert isinstance(without, TransformerConfig) and without.embedding_dropout == 0.0


def test_a_llama_turns_its_positions():
    stack = decoder_only({"kind": "llama", "size": "tiny"}, 100, 8192).stack
    assert isinstance(stack, TransformerConfig)
    assert (stack.positions, stack.norm, stack.gated, stack.dropout, stack.max_len) == (
        "rotary",
        "rms",
        True,
        0.0,
        8192,
    )
    with pytest.raises(ValueError, match="has no dropout"):
        decoder_only({"kind": "llama", "dropout": 0.1}, 100, 50)
    with pytest.raises(ValueError, match="which is a language model"):
        encoder_decoder({"kind": "llama"}, 100, 50)


@pytest.mark.parametrize("kind", NETS)
def test_recurrent_nets(kind):
    config = encoder_decoder({"kind": kind, "width": 8, "hidden_size": 12}, 100, 50)
    assert isinstance(config.encoder, RecurrentConfig) and config.encoder.kind == kind
    assert isinstance(config.decoder, RecurrentConfig)
    assert config.encoder.bidirectional and not config.decoder.bidirectional
    assert (config.encoder.attention, config.decoder.attention) == ("none", "additive")
    plain = encoder_decoder({"kind": kind, "attention": "none", "bidirectional": False}, 100, 50)
    assert isinstance(plain.encoder, RecurrentConfig) and isinstance(plain.decoder, RecurrentConfig)
    assert plain.decoder.attention == "none" and not plain.encoder.bidirectional
    alone = decoder_only({"kind": kind, "width": 8, "hidden_size": 12, "num_layers": 2}, 100, 50)
    assert alone.encoder is None and alone.stack.num_layers == 2
    for made in (config, plain, alone):
        assert sum(p.numel() for p in build(made).parameters()) > 0


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"kind": "grv"}, r"model.kind is 'grv': there is no such name; did you mean 'gru'\?"),
        ({"kind": 3}, "model.kind is 3: there is no such name; there are: transformer"),
        ({"size": "smal"}, r"model.size is 'smal': there is no such name; did you mean 'small'\?"),
        ({"widht": 3}, r"model.widht: there is no such name; did you mean 'width'\?"),
        ({"kind": "gru", "num_heads": 3}, "model.num_heads: there is no such name"),
        ({"vocab_size": 3}, "model.vocab_size follows from the rest of the recipe: remove it"),
        ({"positions": "rotary"}, "model.positions follows from the rest"),
        ({"width": "wide"}, "width is 'wide'"),
        ({"width": 10, "num_heads": 3}, "10"),
        ({"dropout": "1e-1"}, "dropout is '1e-1': it must be a number"),
        ({"num_layers": 2.5}, "num_layers is 2.5"),
        ({"kind": "gru", "hidden_size": 0}, "hidden_size is 0"),
    ],
)
@pytest.mark.parametrize("make", [encoder_decoder, decoder_only])
def test_invalid_settings_are_refused(make, settings, says):
    with pytest.raises(ValueError, match=says):
        build(make(settings, 100, 50))
