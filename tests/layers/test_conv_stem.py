"""The convolutional stem against the paper's order of its parts: values and gradients."""

import pytest
import torch
from torch import nn

from clearhead.layers.conv_stem import ConvStem


@pytest.mark.parametrize("num_layers", [1, 2, 3])
def test_it_equals_convolution_relu_and_pooling(num_layers):
    torch.manual_seed(num_layers)
    stem = ConvStem(3, 96, num_layers).double()
    parts: list[nn.Module] = []
    for convolution in stem.convolutions:
        parts += [convolution, nn.ReLU(), nn.MaxPool2d(3, stride=2, padding=1)]
    pixels = torch.randn(4, 3, 24, 16, dtype=torch.float64)
    outputs, gradients = [], []
    for module in (stem, nn.Sequential(*parts)):
        stem.zero_grad()
        out = module(pixels)
        (out * torch.arange(out.numel()).view_as(out).sin()).sum().backward()
        outputs.append(out)
        gradients.append([p.grad.clone() for p in stem.parameters() if p.grad is not None])
    assert outputs[0].shape == (4, 96, 24 >> num_layers, 16 >> num_layers)
    torch.testing.assert_close(outputs[0], outputs[1], atol=1e-10, rtol=0)
    for one, other in zip(*gradients, strict=True):
        torch.testing.assert_close(one, other, atol=1e-9, rtol=0)
    assert len(gradients[0]) == num_layers


def test_tokens_need_no_copy():
    """The vectors of a grid are next to each other: flattening to (B, patches, D) is a view."""
    out = ConvStem(3, 64, 2)(torch.randn(2, 3, 16, 16))
    tokens = out.flatten(2).transpose(1, 2)
    assert tokens.is_contiguous() and tokens.data_ptr() == out.data_ptr()
