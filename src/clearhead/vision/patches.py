"""Patch embedding: an image as a sequence of vectors (Dosovitskiy et al. 2021, 3.1; Hassani et al. 2021, 3.2)."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from clearhead.attention import Layout
from clearhead.layers.conv_stem import ConvStem


@dataclass(frozen=True, kw_only=True)
class PatchConfig:
    """The size of an image and of its patches, in pixels."""

    image_size: int = 224
    patch_size: int = 16
    num_channels: int = 3
    stem_layers: int = 0  # convolutions in place of the linear projection, each halves the sides; 0: none
    class_token: bool = True  # a learned vector before the patches

    def __post_init__(self) -> None:
        for name in ("image_size", "patch_size", "num_channels"):
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= 2**16:
                raise ValueError(f"{name} is {value!r}: it must be an integer from 1 to {2**16}")
        if self.image_size % self.patch_size:
            raise ValueError(f"image_size {self.image_size} is not a multiple of patch_size {self.patch_size}")
        if self.stem_layers and self.patch_size != 2**self.stem_layers:
            raise ValueError(
                f"{self.stem_layers} convolutions make patches of {2**self.stem_layers} pixels, but patch_size is "
                f"{self.patch_size}"
            )

    @property
    def num_patches(self) -> int:
        return (self.image_size // self.patch_size) ** 2

    @property
    def num_tokens(self) -> int:
        """Patches, and the class token if there is one."""
        return self.num_patches + self.class_token


class Patches(nn.Module):
    """Maps images (B, C, P, P) to sequences of vectors: a class token, then the patches row by row."""

    def __init__(self, config: PatchConfig, width: int, *, dropout: float = 0.0) -> None:
        super().__init__()
        c = self.config = config
        if c.stem_layers:
            self.project: nn.Module = ConvStem(c.num_channels, width, c.stem_layers)
        else:
            self.project = nn.Conv2d(c.num_channels, width, c.patch_size, stride=c.patch_size)
        self.token = nn.Parameter(torch.zeros(1, 1, width)) if c.class_token else None
        self.positions = nn.Parameter(torch.empty(1, c.num_tokens, width).normal_(std=0.02))
        self.dropout = nn.Dropout(dropout)

    def layout(self, pixels: Tensor) -> Layout:
        return Layout.uniform(pixels.shape[0], self.config.num_tokens, pixels.device)

    def forward(self, pixels: Tensor, layout: Layout) -> Tensor:
        """Maps images (B, C, P, P) to tokens (N, D)."""
        side, channels = self.config.image_size, self.config.num_channels
        if tuple(pixels.shape[1:]) != (channels, side, side):
            raise ValueError(
                f"images are {tuple(pixels.shape)}: this model reads (count, {channels}, {side}, {side}); resize them"
            )
        x = self.project(pixels).flatten(2).transpose(1, 2)  # (B, patches, D)
        if self.token is not None:
            x = torch.cat([self.token.expand(len(x), -1, -1), x], dim=1)
        x = x + self.positions
        if x.shape[0] * x.shape[1] != layout.num_tokens:
            raise ValueError(f"{x.shape[0]} images of {x.shape[1]} tokens, but the layout holds {layout.num_tokens}")
        return self.dropout(x).flatten(0, 1)
