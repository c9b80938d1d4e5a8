"""Stacks with shared and local layers, models with heads, and configurations that cannot be."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from clearhead.attention import Causal, KVCache, Layout, Window
from clearhead.attention.capture import look
from clearhead.models import HeadConfig, ModelConfig, TransformerConfig, build, build_decoder, build_encoder
from clearhead.models.heads import HeadKind

CONFIG = TransformerConfig(vocab_size=40, width=16, num_layers=4, num_heads=2, ffn_dim=24, dropout=0.0, max_len=64)


def test_layers_that_share_weights():
    model = build_encoder(replace(CONFIG, num_groups=2))
    assert [next(i for i, b in enumerate(model.blocks) if b is block) for block in model.blocks] == [0, 0, 2, 2]
    with look(model) as seen:
        model(torch.randint(40, (9,)), Layout.from_lengths([4, 5]))
    assert list(seen) == ["0", "1", "2", "3"]
    assert not torch.equal(seen["0"].head(0), seen["1"].head(0))
    with pytest.raises(ValueError, match="5 groups of layers, but only 4 layers"):
        build_encoder(replace(CONFIG, num_groups=5))


def test_local_layers_see_near_tokens_alone():
    """A change beyond the window reaches a token only through the layers that see everything."""
    local = replace(CONFIG, num_layers=1, window=(1, 1), local_layers=(0,), positions="rotary")
    model, layout, ids = build_encoder(local).eval(), Layout.from_lengths([9]), torch.randint(1, 40, (9,))
    changed = ids.clone()
    changed[8] = 0
    with torch.no_grad():
        same = (model(ids, layout) == model(changed, layout)).all(1)
    assert same.tolist() == [True] * 7 + [False] * 2
    everywhere = build_encoder(replace(local, window=None, local_layers=())).eval()
    with torch.no_grad():
        assert not (everywhere(ids, layout) == everywhere(changed, layout)).all(1).any()


def test_local_layers_turn_by_their_own_base():
    a = replace(CONFIG, num_layers=1, window=(9, 9), local_layers=(0,), positions="rotary")
    torch.manual_seed(0)
    one = build_encoder(replace(a, rotary_base=500.0, local_rotary_base=10.0)).eval()
    torch.manual_seed(0)
    two = build_encoder(replace(a, rotary_base=10.0)).eval()
    ids, layout = torch.randint(40, (9,)), Layout.from_lengths([9])
    with torch.no_grad():
        assert torch.equal(one(ids, layout), two(ids, layout))


def test_a_sliding_window_with_a_cache():
    """Token by token through the cache is the whole at once."""
    config = replace(CONFIG, window=(2, 0), local_layers=(1, 3), positions="rotary")
    model = build_decoder(config).eval()
    ids, layout = torch.randint(40, (12,)), Layout.from_lengths([12])
    with torch.no_grad():
        whole = model(ids, layout)
        cache = KVCache(config.num_layers, 1)
        steps = [model(ids[i : i + 1], cache.extend(Layout.from_lengths([1])), cache=cache) for i in range(12)]
        torch.testing.assert_close(torch.cat(steps), whole, atol=1e-5, rtol=0)
        by_mask = model(ids, layout, mask=Causal() & Window(2, 0))
    assert not torch.allclose(whole, by_mask), "only two of the four layers are local"


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"width": 0}, "width is 0: it must be an integer from 1"),
        ({"num_layers": 10**9}, "num_layers is 1000000000"),
        ({"num_heads": "2"}, "num_heads is '2'"),
        ({"vocab_size": True}, "vocab_size is True"),
        ({"norm_eps": "x"}, "norm_eps is 'x'"),
        ({"norm_eps": float("nan")}, "norm_eps is nan"),
        ({"gated": 1}, "gated is 1: it must be true or false"),
        ({"dropout": 1.0}, "dropout is 1.0"),
        ({"positions": "up"}, "there are no 'up' positions"),
        ({"window": (1, 1)}, "local_layers and window must be given together"),
    ],
)
def test_sizes_that_cannot_be(changes, words):
    with pytest.raises(ValueError, match=words):
        replace(CONFIG, **changes)


def test_heads():
    layout, ids = Layout.from_lengths([3, 5]), torch.randint(40, (8,))
    shapes: dict[HeadKind, tuple[int, int]] = {"lm": (8, 40), "sequence": (2, 3), "token": (8, 3), "pooler": (2, 16)}
    for kind, shape in shapes.items():
        labels = ("a", "b", "c") if kind in ("sequence", "token") else ()
        head = HeadConfig(kind=kind, width=16, vocab_size=40, labels=labels)
        model = build(ModelConfig(encoder=CONFIG, head=head))
        assert model(ids, layout).shape == shape
        assert model.hidden_states(ids, layout).shape == (8, 16)
    words, follows = build(
        ModelConfig(encoder=CONFIG, head=HeadConfig(kind="pretraining", width=16, vocab_size=40))
    )(ids, layout)  # fmt: skip
    assert words.shape == (8, 40) and follows.shape == (2, 2)
    with pytest.raises(ValueError, match="there is no head 'rank'"):
        build(ModelConfig(encoder=CONFIG, head=HeadConfig(kind="rank", width=16)))  # pyright: ignore[reportArgumentType]


def test_an_encoder_decoder_wants_a_target():
    model = build(ModelConfig(encoder=CONFIG, decoder=CONFIG))
    with pytest.raises(ValueError, match="give `target` and `target_layout` too"):
        model(torch.zeros(3, dtype=torch.int64), Layout.from_lengths([3]))
    with pytest.raises(ValueError, match="none was given"):
        ModelConfig()
