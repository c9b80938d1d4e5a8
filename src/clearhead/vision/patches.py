"""Patch embedding: an image as a class token and a sequence of square patches (Dosovitskiy et al. 2021, 3.1)."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from clearhead.attention import Layout


@dataclass(frozen=True, kw_only=True)
class PatchConfig:
    """The size of an image and of its patches, in pixels."""

    image_size: int = 224
    patch_size: int = 16
    num_channels: int = 3

    def __post_init__(self) -> None:
        for name in ("image_size", "patch_size", "num_channels"):
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= 2**16:
                raise ValueError(f"{name} is {value!r}: it must be an integer from 1 to {2**16}")
        if self.image_size % self.patch_size:
            raise ValueError(f"image_size {self.image_size} is not a multiple of patch_size {self.patch_size}")

    @property
    def num_patches(self) -> int:
        return (self.image_size // self.patch_size) ** 2


class Patches(nn.Module):
    """Maps images (B, C, P, P) to sequences of vectors: a class token, then the patches row by row."""

    def __init__(self, config: PatchConfig, width: int, *, dropout: float = 0.0) -> None:
        super().__init__()
        self.config = config
        self.project = nn.Conv2d(config.num_channels, width, config.patch_size, stride=config.patch_size)
        self.token = nn.Parameter(torch.zeros(1, 1, width))
        self.positions = nn.Parameter(torch.empty(1, config.num_patches + 1, width).normal_(std=0.02))
        self.dropout = nn.Dropout(dropout)

    def layout(self, pixels: Tensor) -> Layout:
        return Layout.uniform(pixels.shape[0], self.config.num_patches + 1, pixels.device)

    def forward(self, pixels: Tensor, layout: Layout) -> Tensor:
        """Maps images (B, C, P, P) to tokens (N, D)."""
        side, channels = self.config.image_size, self.config.num_channels
        if tuple(pixels.shape[1:]) != (channels, side, side):
            raise ValueError(
                f"images are {tuple(pixels.shape)}: this model reads (count, {channels}, {side}, {side}); resize them"
            )
        patches = self.project(pixels).flatten(2).transpose(1, 2)  # (B, patches, D)
        x = torch.cat([self.token.expand(len(patches), -1, -1), patches], dim=1) + self.positions
        if x.shape[0] * x.shape[1] != layout.num_tokens:
            raise ValueError(f"{x.shape[0]} images of {x.shape[1]} tokens, but the layout holds {layout.num_tokens}")
        return self.dropout(x).flatten(0, 1)
