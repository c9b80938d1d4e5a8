"""Convolutional stem: images to a grid of vectors by small convolutions (Hassani et al. 2021, section 3.2)."""

from itertools import pairwise

import torch
from torch import Tensor, nn


class ConvStem(nn.Module):
    """Maps images (B, C, H, W) to (B, D, h, w): convolutions of 3 x 3, each followed by pooling by half and ReLU.

    ReLU after the pooling gives the same values and gradients as before it, for a quarter of the work. Channels lie
    next to each other in memory, as the tokens that come out of it do.
    """

    def __init__(self, num_channels: int, width: int, num_layers: int) -> None:
        super().__init__()
        widths = [num_channels, *(max(64, width >> (num_layers - 1 - i)) for i in range(num_layers - 1)), width]
        self.convolutions = nn.ModuleList(
            nn.Conv2d(before, after, 3, padding=1, bias=False) for before, after in pairwise(widths)
        )
        for convolution in self.convolutions:
            nn.init.kaiming_normal_(convolution.weight)  # pyright: ignore[reportArgumentType]

    def forward(self, pixels: Tensor) -> Tensor:
        x = pixels.contiguous(memory_format=torch.channels_last)
        for convolution in self.convolutions:
            x = nn.functional.max_pool2d(convolution(x), 3, stride=2, padding=1).relu()
        return x
