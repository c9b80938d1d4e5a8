"""Image codec: an image as a grid of codes, and back (VQ-VAE, van den Oord et al. 2017)."""

from dataclasses import asdict, dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

STRIDE = 8  # pixels of each side of a code
COMMITMENT = 0.25  # weight of the loss that keeps the encoder near its codes


@dataclass(frozen=True, kw_only=True)
class ImageCodecConfig:
    """The sizes of a codec."""

    image_size: int = 64
    num_codes: int = 512
    width: int = 96  # of the layers with 4 x 4 pixels for each vector; those with 8 x 8 have half more
    code_width: int = 16  # of a code: few numbers, so that most codes are used (Yu et al. 2022)

    def __post_init__(self) -> None:
        if self.image_size < STRIDE or self.image_size % STRIDE:
            raise ValueError(f"image_size is {self.image_size}: it must be a multiple of {STRIDE}")
        if self.width < 16 or self.width % 16:
            raise ValueError(f"width is {self.width}: it must be a multiple of 16")
        for name in ("num_codes", "code_width"):
            if getattr(self, name) < 2:
                raise ValueError(f"{name} is {getattr(self, name)}: it must be at least 2")

    @property
    def grid(self) -> int:
        """Codes of each side."""
        return self.image_size // STRIDE

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


class ImageCodec(nn.Module):
    """Maps images (B, 3, S, S), from -1 to 1, to codes (B, grid, grid) and back.

    Vectors and codes have unit length, and the code of a vector is the nearest one. The gradient passes the choice of
    a code unchanged.
    """

    def __init__(self, config: ImageCodecConfig) -> None:
        super().__init__()
        self.config = c = config
        wide = c.width * 3 // 2
        self.encoder = nn.Sequential(
            nn.Conv2d(3, c.width, 4, stride=4), ResidualConvolutions(c.width), ResidualConvolutions(c.width),
            nn.Conv2d(c.width, wide, 4, stride=2, padding=1), ResidualConvolutions(wide), ResidualConvolutions(wide),
            nn.GroupNorm(8, wide), nn.SiLU(), nn.Conv2d(wide, c.code_width, 1),
        )  # fmt: skip
        self.codes = nn.Embedding(c.num_codes, c.code_width)
        self.decoder = nn.Sequential(
            nn.Conv2d(c.code_width, wide, 3, padding=1), ResidualConvolutions(wide), ResidualConvolutions(wide),
            nn.Upsample(scale_factor=2), nn.Conv2d(wide, c.width, 3, padding=1), ResidualConvolutions(c.width),
            ResidualConvolutions(c.width), nn.GroupNorm(8, c.width), nn.SiLU(),
            nn.Conv2d(c.width, 48, 3, padding=1), nn.PixelShuffle(4),
        )  # fmt: skip

    def forward(self, pixels: Tensor) -> tuple[Tensor, Tensor]:
        """Returns the restored images, and the loss of the codes for each image, (B,)."""
        vectors = self._vectors(pixels)
        chosen = self._unit_codes()[self._nearest(vectors)].permute(0, 3, 1, 2)  # (B, K, grid, grid)
        moved = (chosen - vectors.detach()).square().sum(1).mean((1, 2))
        kept = (chosen.detach() - vectors).square().sum(1).mean((1, 2))
        passed = vectors + (chosen - vectors).detach()
        return self.decoder(passed), moved + COMMITMENT * kept

    @torch.no_grad()
    def encode(self, pixels: Tensor) -> Tensor:
        """Returns the codes of images, (B, grid, grid)."""
        return self._nearest(self._vectors(pixels))

    @torch.no_grad()
    def decode(self, codes: Tensor) -> Tensor:
        """Returns the images of codes, (B, 3, S, S), from -1 to 1."""
        return self.decoder(self._unit_codes()[codes].permute(0, 3, 1, 2)).clamp(-1, 1)

    def _vectors(self, pixels: Tensor) -> Tensor:
        return F.normalize(self.encoder(pixels), dim=1)

    def _unit_codes(self) -> Tensor:
        return F.normalize(self.codes.weight, dim=1)

    def _nearest(self, vectors: Tensor) -> Tensor:
        with torch.no_grad():
            return torch.einsum("bkhw,nk->bhwn", vectors, self._unit_codes()).argmax(-1)


class ResidualConvolutions(nn.Module):
    """Two convolutions of 3 x 3 added to their input, each after a norm and SiLU."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norms = nn.ModuleList(nn.GroupNorm(8, width) for _ in range(2))
        self.convolutions = nn.ModuleList(nn.Conv2d(width, width, 3, padding=1) for _ in range(2))

    def forward(self, x: Tensor) -> Tensor:
        out = x
        for norm, convolution in zip(self.norms, self.convolutions, strict=True):
            out = convolution(F.silu(norm(out)))
        return x + out


def to_pixels(images: Tensor) -> Tensor:
    """Returns images (B, 3, S, S) from -1 to 1 as bytes."""
    return ((images.clamp(-1, 1) + 1) * 127.5).round().to(torch.uint8)


def psnr(images: Tensor, restored: Tensor) -> Tensor:
    """Returns the peak signal-to-noise ratio of each image in decibels, (B,); values are from -1 to 1."""
    error = (images - restored.clamp(-1, 1)).square().mean((1, 2, 3)).clamp_min(1e-10)
    return 10 * torch.log10(4 / error)
