"""Patch embedding: an image as a sequence of vectors (Dosovitskiy et al. 2021, 3.1; Hassani et al. 2021, 3.2)."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

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
    distillation_token: bool = False  # another one after it (DeiT)
    mask_token: bool = False  # a learned vector in place of hidden patches, of DINOv2's training: kept, not used
    bias: bool = True  # of the linear projection

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
        """Patches of a square image."""
        return (self.image_size // self.patch_size) ** 2

    @property
    def num_tokens(self) -> int:
        """Patches, and the vectors before them."""
        return self.num_patches + self.num_learned

    @property
    def num_learned(self) -> int:
        """Learned vectors before the patches."""
        return self.class_token + self.distillation_token


class Patches(nn.Module):
    """Maps images to sequences of vectors: the class token and other learned vectors, then the patches row by row.

    Images of the model's size are a tensor (B, C, P, P). Images of several sizes are a list of tensors (C, H, W), whose
    sides are multiples of the patch size: together they are one ragged batch without padding (Dehghani et al. 2023),
    and the learned positions are interpolated to each.
    """

    def __init__(self, config: PatchConfig, width: int, *, norm: nn.Module | None = None, dropout: float = 0.0) -> None:
        super().__init__()
        c = self.config = config
        if c.stem_layers:
            self.project: nn.Module = ConvStem(c.num_channels, width, c.stem_layers)
        else:
            self.project = nn.Conv2d(c.num_channels, width, c.patch_size, stride=c.patch_size, bias=c.bias)
        self.token = nn.Parameter(torch.zeros(1, 1, width)) if c.class_token else None
        self.distillation = nn.Parameter(torch.zeros(1, 1, width)) if c.distillation_token else None
        self.mask = nn.Parameter(torch.zeros(1, width)) if c.mask_token else None
        self.positions = nn.Parameter(torch.empty(1, c.num_tokens, width).normal_(std=0.02))
        self.norm = norm
        self.dropout = nn.Dropout(dropout)

    def layout(self, pixels: Tensor | Sequence[Tensor]) -> Layout:
        """Returns the number of tokens of each image."""
        if isinstance(pixels, Tensor):
            return Layout.uniform(pixels.shape[0], self.config.num_tokens, pixels.device)
        if not pixels:
            raise ValueError("there is no image: give at least one")
        lengths = [height * width + self.config.num_learned for height, width in map(self._grid, pixels)]
        return Layout.from_lengths(lengths).to(pixels[0].device)

    def forward(self, pixels: Tensor | Sequence[Tensor], layout: Layout) -> Tensor:
        """Maps images to tokens (N, D), in the dtype of the weights."""
        dtype = self.positions.dtype
        if isinstance(pixels, Tensor):
            x = self._equal(pixels.to(dtype))
        else:
            x = self._ragged([image.to(dtype) for image in pixels])
        if len(x) != layout.num_tokens:
            raise ValueError(f"{len(pixels)} images have {len(x)} tokens, but the layout holds {layout.num_tokens}")
        return self.dropout(x if self.norm is None else self.norm(x))

    @property
    def _learned(self) -> list[Tensor]:
        """The vectors before the patches, each (1, 1, D)."""
        return [token for token in (self.token, self.distillation) if token is not None]

    def _equal(self, pixels: Tensor) -> Tensor:
        side, channels = self.config.image_size, self.config.num_channels
        if tuple(pixels.shape[1:]) != (channels, side, side):
            raise ValueError(
                f"images are {tuple(pixels.shape)}: this model reads (count, {channels}, {side}, {side}); resize them, "
                "or give a list of images of any size"
            )
        x = self.project(pixels).flatten(2).transpose(1, 2)  # (B, patches, D)
        if self._learned:
            x = torch.cat([*(token.expand(len(x), -1, -1) for token in self._learned), x], dim=1)
        return (x + self.positions).flatten(0, 1)

    def _ragged(self, pixels: Sequence[Tensor]) -> Tensor:
        grids = [self._grid(image) for image in pixels]
        positions = {grid: self._positions(*grid) for grid in dict.fromkeys(grids)}
        vectors = self._project(pixels, grids)
        learned = torch.cat(self._learned, 1)[0] + self.positions[0, : len(self._learned)] if self._learned else None
        parts: list[Tensor] = []
        for grid, x in zip(grids, vectors.split([height * width for height, width in grids]), strict=True):
            if learned is not None:
                parts.append(learned)
            parts.append(x + positions[grid])
        return torch.cat(parts)

    def _project(self, pixels: Sequence[Tensor], grids: Sequence[tuple[int, int]]) -> Tensor:
        """Returns the vectors of all patches, (patches, D): one matrix product, or the stem image by image."""
        if not isinstance(self.project, nn.Conv2d):
            return torch.cat([self.project(image.unsqueeze(0))[0].flatten(1).T for image in pixels])
        size = self.config.patch_size
        rows = [
            image.reshape(-1, height, size, width, size).permute(1, 3, 0, 2, 4).flatten(0, 1).flatten(1)
            for image, (height, width) in zip(pixels, grids, strict=True)
        ]
        return nn.functional.linear(torch.cat(rows), self.project.weight.flatten(1), self.project.bias)

    def _grid(self, image: Tensor) -> tuple[int, int]:
        """Returns the rows and columns of patches of an image."""
        size, channels = self.config.patch_size, self.config.num_channels
        if image.ndim != 3 or image.shape[0] != channels or image.shape[1] % size or image.shape[2] % size:
            raise ValueError(
                f"an image is {tuple(image.shape)}: this model reads ({channels}, height, width) with sides that are "
                f"multiples of {size}; resize or crop it"
            )
        return image.shape[1] // size, image.shape[2] // size

    def _positions(self, height: int, width: int) -> Tensor:
        """Returns the positions of a grid of patches, (height * width, D): the learned ones, interpolated."""
        side = self.config.image_size // self.config.patch_size
        own = self.positions[0, self.config.num_learned :]
        if (height, width) == (side, side):
            return own
        rows, columns = (_interpolation(side, length).to(own) for length in (height, width))
        down = (rows @ own.reshape(side, -1)).view(height, side, -1)
        return (columns @ down).flatten(0, 1)


@lru_cache(maxsize=1024)
def _interpolation(before: int, after: int) -> Tensor:
    """Returns the matrix that interpolates a line of values to another length, (after, before): bicubic."""
    with torch.inference_mode(False), torch.no_grad():
        units = torch.eye(before).view(1, before, before, 1)
        found = nn.functional.interpolate(units, (after, 1), mode="bicubic", align_corners=False)
        return found.view(before, after).T.contiguous()
