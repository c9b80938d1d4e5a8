from dataclasses import replace

import pytest
import torch
from torch import nn

from clearhead.attention import KVCache, Layout
from clearhead.layers import BlockContext
from clearhead.models import (
    PRESETS,
    TransformerConfig,
    TransformerStack,
    build_decoder,
    build_encoder,
    build_encoder_decoder,
)
from tests.parts import token_table

CONFIG = TransformerConfig(vocab_size=60, width=32, num_layers=2, num_heads=4, ffn_dim=48, dropout=0.0, max_len=700)
POSITIONS = ["sinusoidal", "learned", "rotary", "alibi", "t5", "none"]


def copy_attention(ours, theirs):
    weights, biases = theirs.in_proj_weight.chunk(3), theirs.in_proj_bias.chunk(3)
    for linear, weight, bias in zip((ours.query, ours.key, ours.value), weights, biases, strict=True):
        linear.weight.copy_(weight)
        linear.bias.copy_(bias)
    ours.output.load_state_dict(theirs.out_proj.state_dict())


def copy_stack(ours, theirs):
    """torch's weights into ours."""
    with torch.no_grad():
        for block, layer in zip(ours.blocks, theirs.layers, strict=True):
            copy_attention(block.attention, layer.self_attn)
            norms = [block.attention_norm, block.feedforward_norm]
            if block.cross is not None:
                copy_attention(block.cross, layer.multihead_attn)
                norms.insert(1, block.cross_norm)
            for i, norm in enumerate(norms):
                norm.load_state_dict(getattr(layer, f"norm{i + 1}").state_dict())
            block.feedforward.up.load_state_dict(layer.linear1.state_dict())
            block.feedforward.down.load_state_dict(layer.linear2.state_dict())
        if ours.norm is not None:
            ours.norm.load_state_dict(theirs.norm.state_dict())


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("activation", ["relu", "gelu"])
@pytest.mark.parametrize("norm_first", [False, True])
def test_same_weights_same_numbers_as_torch(norm_first, activation, training):
    """nn.TransformerEncoder and nn.TransformerDecoder on dense input: outputs and gradients."""
    config = replace(CONFIG, norm_first=norm_first, activation=activation, positions="none")
    options = {"d_model": 32, "nhead": 4, "dim_feedforward": 48, "dropout": 0.0, "activation": activation,
               "batch_first": True, "norm_first": norm_first}  # fmt: skip
    last = nn.LayerNorm(32) if norm_first else None
    encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(**options), 2, norm=last, enable_nested_tensor=False)
    decoder = nn.TransformerDecoder(nn.TransformerDecoderLayer(**options), 2, norm=last)
    for p in [*encoder.parameters(), *decoder.parameters()]:
        nn.init.normal_(p, std=0.2)
    ours_encoder, ours_decoder = build_encoder(config), build_decoder(config, cross=True)
    copy_stack(ours_encoder, encoder)
    copy_stack(ours_decoder, decoder)
    for m in (encoder, decoder, ours_encoder, ours_decoder):
        m.train(training)

    source, target = torch.randn(3, 11, 32), torch.randn(3, 7, 32)
    a, b = Layout.uniform(3, 11), Layout.uniform(3, 7)
    x, y = source.clone().requires_grad_(), target.clone().requires_grad_()
    causal = nn.Transformer.generate_square_subsequent_mask(7)
    want_memory = encoder(x)
    want = decoder(y, want_memory, tgt_mask=causal, tgt_is_causal=True)
    want_grads = torch.autograd.grad(want.square().sum(), [x, y])

    u, w = source.flatten(0, 1).requires_grad_(), target.flatten(0, 1).requires_grad_()
    memory = ours_encoder.transform(u, BlockContext(a))
    got = ours_decoder.transform(w, BlockContext(b, memory=memory, memory_layout=a))
    grads = torch.autograd.grad(got.square().sum(), [u, w])
    # worst seen: 3e-6 forward, 2e-5 backward
    torch.testing.assert_close(memory, want_memory.flatten(0, 1), atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(got, want.flatten(0, 1), atol=1e-5, rtol=1e-5)
    for g, h in zip(grads, want_grads, strict=True):
        torch.testing.assert_close(g, h.flatten(0, 1), atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("positions", POSITIONS)
def test_a_mixture_of_lengths_is_its_parts(positions):
    """A thousand sequences together, in eval and with gradients, as each one alone."""
    model = build_encoder(replace(CONFIG, positions=positions))
    lengths = torch.randint(1, 30, (1000,), generator=torch.Generator().manual_seed(0)).tolist()
    lengths[500] = 600
    layout = Layout.from_lengths(lengths)
    ids = torch.randint(60, (sum(lengths),))
    with torch.no_grad():
        together = layout.split(model(ids, layout))
        for i in (0, 17, 500, 999):
            alone = model(ids[layout.rows(i)], Layout.from_lengths([lengths[i]]))
            torch.testing.assert_close(together[i], alone, atol=2e-5, rtol=1e-4)
    model(ids, layout).square().mean().backward()
    assert all(p.grad is not None and torch.isfinite(p.grad).all() for p in model.parameters())


@pytest.mark.parametrize("positions", POSITIONS)
def test_cached_steps_equal_the_whole(positions):
    config = replace(CONFIG, positions=positions, num_kv_heads=2)
    model = build_encoder_decoder(config).eval()
    assert isinstance(model.encoder, TransformerStack) and isinstance(model.decoder, TransformerStack)
    source, target = Layout.from_lengths([9, 4, 1]), Layout.from_lengths([6, 6, 6])
    source_ids, target_ids = torch.randint(60, (14,)), torch.randint(60, (18,))
    with torch.no_grad():
        memory = model.encoder(source_ids, source)
        whole = model.decoder(target_ids, target, memory=memory, memory_layout=source)
        cache, cross = KVCache(config.num_layers, 3), KVCache(config.num_layers, 3)
        cross.extend(source)
        steps = []
        for t in range(6):
            step = cache.extend(Layout.from_lengths([1, 1, 1]))
            steps.append(
                model.decoder(
                    target_ids[t::6], step, memory=memory, memory_layout=source, cache=cache, memory_cache=cross
                )
            )
    torch.testing.assert_close(torch.stack(steps, 1).flatten(0, 1), whole, atol=1e-5, rtol=1e-4)


def test_empty_batches_train():
    """A rank without sequences must still run, forward and backward, through every parameter."""
    for positions in POSITIONS:
        model = build_encoder_decoder(replace(CONFIG, positions=positions))
        empty, none = Layout.from_lengths([]), torch.zeros(0, dtype=torch.long)
        model(none, empty, none, empty).sum().backward()
        assert all(p.grad is not None and (p.grad == 0).all() for p in model.parameters())


def test_shared_embeddings_and_presets():
    model = build_encoder_decoder(PRESETS["tiny"])
    assert token_table(model.encoder) is token_table(model.decoder)
    apart = build_encoder_decoder(PRESETS["tiny"], shared_embedding=False)
    assert token_table(apart.encoder) is not token_table(apart.decoder)
    assert list(PRESETS) == ["tiny", "mini", "small", "base"]


def test_a_decoder_wants_its_memory():
    model = build_decoder(CONFIG, cross=True)
    with pytest.raises(ValueError, match="needs `memory`"):
        model(torch.zeros(3, dtype=torch.long), Layout.from_lengths([3]))


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"width": 0}, "width is 0"),
        ({"dropout": 1.0}, "dropout is 1.0"),
        ({"positions": "absolute"}, "no 'absolute' positions: choose sinusoidal"),
    ],
)
def test_bad_configurations(change, says):
    with pytest.raises(ValueError, match=says):
        replace(CONFIG, **change)


def test_heads_that_do_not_divide():
    with pytest.raises(ValueError, match="width 32 is not a multiple of 5 heads"):
        build_encoder(replace(CONFIG, num_heads=5))
    with pytest.raises(ValueError, match="4 query heads are not a multiple of 3 key heads"):
        build_encoder(replace(CONFIG, num_kv_heads=3))


@pytest.mark.parametrize("positions", ["learned", "t5"])
def test_a_new_model_hears_its_tokens_first(positions):
    """What is added to a token's vector is smaller than the vector: a table of nn.Embedding's own size would drown it."""
    config = replace(CONFIG, width=256, positions=positions, num_segments=2)
    stack = build_encoder(config)
    tokens = token_table(stack).weight.std()
    added = [table.weight.std() for name, table in stack.named_modules()
             if isinstance(table, nn.Embedding) and "tokens" not in name]  # fmt: skip
    assert len(added) == 2  # segments, and positions or the bias of distances
    assert all(one < tokens / 2 for one in added)


@pytest.mark.parametrize("base", [None, 100.0])
def test_local_layers_may_have_the_only_positions(base: float | None) -> None:
    """Without positions, earlier tokens of a window can be exchanged; local rotary positions tell them apart."""
    config = TransformerConfig(
        vocab_size=9, width=8, num_layers=1, num_heads=2, ffn_dim=8, positions="none", window=(3, 0), local_layers=(0,),
        local_rotary_base=base,
    )  # fmt: skip
    torch.manual_seed(0)
    model, layout = build_decoder(config).eval(), Layout.from_lengths([3])
    one, two = (model(torch.tensor(ids), layout)[2] for ids in ([3, 5, 7], [5, 3, 7]))
    assert torch.allclose(one, two, atol=1e-6) == (base is None)
