"""Padding rows make shapes repeat, and change no result."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from clearhead.attention import Layout
from clearhead.attention.capture import ablate_heads, look
from clearhead.attention.tuning import TUNING
from clearhead.models import TransformerConfig, build_encoder, build_encoder_decoder
from clearhead.models.model import Model
from clearhead.models.row_padding import missing_rows
from clearhead.vision import PatchConfig, Patches

CONFIG = TransformerConfig(vocab_size=60, width=32, num_layers=2, num_heads=4, ffn_dim=48, dropout=0.0, max_len=40)
SOURCE, TARGET = (7, 19, 3, 11), (9, 4, 20, 1)  # 40 and 34 tokens: 48 with padding rows


def batch():
    draw = torch.Generator().manual_seed(3)
    ids = [torch.randint(60, (sum(sizes),), generator=draw) for sizes in (SOURCE, TARGET)]
    return ids[0], Layout.from_lengths(SOURCE), ids[1], Layout.from_lengths(TARGET)


def watched(model):
    """Somebody watches: nothing is added."""
    return [block.register_forward_hook(lambda *_: None) for stack in model.children() for block in stack.blocks]


def rows_inside(model, *inputs):
    """How many tokens the feed-forward layers were given."""
    seen = []
    layer = model.encoder.blocks[0].feedforward
    given = type(layer).forward

    def spy(self, x, **options):
        seen.append(len(x))
        return given(self, x, **options)

    type(layer).forward = spy
    try:
        model(*inputs)
    finally:
        type(layer).forward = given
    return seen


@given(st.integers(0, 100_000))
def test_little_is_added(tokens):
    more = missing_rows(tokens)
    assert 0 <= more <= max(TUNING.row_multiple_min - 1, tokens / TUNING.row_padding_fraction)


def test_few_sizes_are_left():
    assert len({n + missing_rows(n) for n in range(1024, 4097)}) <= 2 * TUNING.row_padding_fraction + 1


@pytest.mark.parametrize("positions", ["sinusoidal", "rotary", "t5", "alibi"])
def test_without_gradients(positions):
    torch.manual_seed(0)
    model = build_encoder_decoder(replace(CONFIG, positions=positions)).eval()
    with torch.no_grad():
        assert set(rows_inside(model, *batch())) == {48}
        rounded = model(*batch())
        hooks = watched(model)
        assert set(rows_inside(model, *batch())) == {40, 34}
        torch.testing.assert_close(rounded, model(*batch()), atol=1e-6, rtol=1e-6)
    assert len(rounded) == sum(TARGET)
    assert hooks


def test_backward_in_bfloat16():
    torch.manual_seed(0)
    model = build_encoder_decoder(CONFIG)

    def gradients():
        with torch.autocast("cpu", torch.bfloat16):
            out = model(*batch())
        return torch.autograd.grad(out.float().square().sum(), list(model.parameters()))

    rounded = gradients()
    watched(model)
    for ours, plain in zip(rounded, gradients(), strict=True):
        assert (ours - plain).norm() <= 0.01 * plain.norm() + 1e-6


def test_training_in_float32_is_left_alone():
    model = build_encoder_decoder(CONFIG)
    assert set(rows_inside(model, *batch())) == {40, 34}


def test_who_watches_sees_what_was_given():
    model = build_encoder(CONFIG).eval()
    ids, layout, *_ = batch()
    shapes = []
    with torch.no_grad(), look(model) as seen:
        model.blocks[1].register_forward_hook(lambda _, inputs, out: shapes.append((len(inputs[0]), len(out))))
        model(ids, layout)
    assert shapes == [(40, 40)]
    view = seen[next(iter(seen))]
    assert [view.shape(i)[0] for i in range(view.num_sequences)] == list(SOURCE)


def test_a_capture_costs_no_padding_and_has_none():
    model = build_encoder_decoder(CONFIG).eval()
    with torch.no_grad():
        plain = model(*batch())
        with look(model) as seen, ablate_heads(model, {"encoder.1": []}):
            assert set(rows_inside(model, *batch())) == {48}
            assert torch.equal(model(*batch()), plain)
    sizes = {"encoder.0": (SOURCE, SOURCE), "decoder.1": (TARGET, TARGET), "decoder.0.cross": (TARGET, SOURCE)}
    for name, (queries, keys) in sizes.items():
        view = seen[name]
        assert [view.shape(i) for i in range(view.num_sequences)] == list(zip(queries, keys, strict=True))
        assert len(view.inputs.check().q) == sum(queries)
        torch.testing.assert_close(view.rows([2], head=3, sequence=0).sum(), torch.tensor(1.0))


@pytest.mark.parametrize("tokens", [11, 120, 129])
def test_one_short_text_in_float32_is_not_padded(tokens):
    model = Model(build_encoder(replace(CONFIG, max_len=200)), None).eval()
    ids, layout = torch.arange(tokens) % 60, Layout.from_lengths([tokens])
    with torch.inference_mode():
        assert missing_rows(tokens)
        assert set(rows_inside(model, ids, layout)) == {tokens + missing_rows(tokens) if tokens > 128 else tokens}
        with torch.autocast("cpu", torch.bfloat16):
            assert set(rows_inside(model, ids, layout)) == {tokens + missing_rows(tokens)}


def test_images_of_one_size_are_not_padded():
    """Their number of tokens repeats already; images of several sizes are padded as texts are."""
    patches = PatchConfig(image_size=12, patch_size=4)
    encoder = build_encoder(replace(CONFIG, patches=patches, positions="none"))
    assert isinstance(encoder.embedding, Patches)
    with torch.inference_mode():
        for images, expected in ((torch.randn(5, 3, 12, 12), 50), ([torch.randn(3, 8, 4), torch.randn(3, 12, 8)], 16)):
            layout = encoder.embedding.layout(images)
            assert rows_inside(Model(encoder, None), images, layout) == [expected] * 2
            assert len(encoder(images, layout)) == layout.num_tokens
