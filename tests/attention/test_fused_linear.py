"""A linear layer in one pass is the layer, whatever follows it."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from clearhead.attention import Layout
from clearhead.attention.fused_linear import ACTIVATIONS, linear
from clearhead.models import TransformerConfig, build_encoder


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("activation", [None, *ACTIVATIONS])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
def test_as_written(activation, bias, dtype):
    layer, x, add = nn.Linear(24, 40, bias=bias).to(dtype), torch.randn(9, 24).to(dtype), torch.randn(9, 40).to(dtype)
    exact = layer.double()
    want = exact(x.double())
    want = want if activation is None else ACTIVATIONS[activation](want)
    layer = layer.to(dtype)
    tolerance = {torch.float32: 1e-6, torch.bfloat16: 4e-2, torch.float64: 1e-12}[dtype]  # worst: 5e-7, 2e-2, 1e-15
    with torch.no_grad():
        got, more = linear(layer, x, activation=activation), linear(layer, x, activation=activation, add=add)
    assert got.dtype == more.dtype == dtype
    torch.testing.assert_close(got.double(), want, atol=tolerance, rtol=0)
    torch.testing.assert_close(more.double(), want + add.double(), atol=tolerance, rtol=0)


def test_no_tokens():
    with torch.no_grad():
        assert linear(nn.Linear(4, 6), torch.zeros(0, 4), activation="gelu", add=torch.zeros(0, 6)).shape == (0, 6)


def test_gradients_flow():
    layer, x = nn.Linear(4, 6), torch.randn(3, 4, requires_grad=True)
    linear(layer, x, activation="gelu", add=torch.ones(3, 6, requires_grad=True)).sum().backward()
    assert x.grad is not None and layer.weight.grad is not None


def test_a_watched_layer_is_called_as_a_layer():
    layer, seen = nn.Linear(4, 6), []
    layer.register_forward_hook(lambda m, a, out: seen.append(out))
    x = torch.randn(3, 4)
    with torch.no_grad():
        out = linear(layer, x, activation="relu")
    assert torch.equal(out, seen[0].relu())


@pytest.mark.parametrize("part", ["attention", "feedforward"])
def test_a_watched_part_gives_its_own_output(part):
    """The residual is added inside a part for speed; somebody who watches the part sees it without."""
    torch.manual_seed(0)
    model = build_encoder(
        TransformerConfig(vocab_size=20, width=16, num_layers=1, num_heads=2, ffn_dim=24, norm_first=True)
    ).eval()
    ids, layout = torch.randint(20, (7,)), Layout.from_lengths([3, 4])
    given: list[torch.Tensor] = []
    found: list[torch.Tensor] = []
    with torch.no_grad():
        plain = model(ids, layout)
        module = getattr(model.blocks[0], part)
        module.register_forward_pre_hook(lambda m, args: given.append(args[0]))
        module.register_forward_hook(lambda m, args, out: found.append(out))
        torch.testing.assert_close(model(ids, layout), plain, atol=1e-6, rtol=0)
        alone = module(given[0], layout) if part == "attention" else module(given[0])
    torch.testing.assert_close(found[0], alone, atol=1e-6, rtol=0)
