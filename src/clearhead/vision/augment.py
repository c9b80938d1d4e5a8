"""Augmentations: changes of training images, as pure functions of seed, epoch and example."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from clearhead.vision import color_ops
from clearhead.vision.random_numbers import uniform

LAYERS = 16  # of RandAugment at most
MAGNITUDES = 30  # of RandAugment: strengths go from 0 to this


@dataclass(frozen=True, kw_only=True)
class AugmentConfig:
    """Which changes are made; all are off unless given."""

    crop_padding: int = 0  # pixels of black around an image, from which a part of its size is cut
    min_area: float = 1.0  # a part of at least this share of the image is cut out and resized to its size
    flip: bool = False  # exchanges left and right in half of the images
    color: float = 0.0  # changes brightness, contrast and saturation by up to this share
    randaugment: int = 0  # changes of each image by RandAugment (Cubuk et al. 2020)
    magnitude: int = 9  # of RandAugment, from 0 to 30
    erase: float = 0.0  # probability that a rectangle is erased (Zhong et al. 2020)
    mixup: float = 0.0  # parameter of the Beta distribution by which images and labels are mixed (Zhang et al. 2018)
    cutmix: float = 0.0  # likewise, where a rectangle of another image is pasted (Yun et al. 2019)

    @property
    def mixes(self) -> bool:
        """Whether images are mixed with others."""
        return self.mixup > 0 or self.cutmix > 0

    def __post_init__(self) -> None:
        limits = {
            "crop_padding": (0, 512), "min_area": (0.01, 1.0), "color": (0.0, 1.0), "randaugment": (0, LAYERS),
            "magnitude": (0, MAGNITUDES), "erase": (0.0, 1.0), "mixup": (0.0, 100.0), "cutmix": (0.0, 100.0),
        }  # fmt: skip
        for name, (low, high) in limits.items():
            value = getattr(self, name)
            if not low <= value <= high:
                raise ValueError(f"augment.{name} is {value}: give a number from {low:g} to {high:g}")


@dataclass(frozen=True)
class Mixed:
    """Images of which some are mixed with another one of the batch."""

    pixels: Tensor  # (B, 3, H, W) of uint8
    partners: Tensor  # (B,): the place of the other image in the batch
    shares: Tensor  # (B,): how much of the first image is there; 1: nothing of the other


def augment(
    pixels: Tensor, config: AugmentConfig, *, seed: int, epoch: int, examples: Sequence[int] | np.ndarray
) -> Tensor:
    """Return changed images (B, 3, H, W) of uint8; every image depends on seed, epoch and its example alone."""
    draws = torch.from_numpy(uniform(seed, epoch, examples, 16 + 3 * config.randaugment)).to(pixels.device)
    x = pixels
    if config.min_area < 1.0:
        x = resized_crop(x, config.min_area, draws[:, 0:4])
    if config.crop_padding:
        x = padded_crop(x, config.crop_padding, draws[:, 4:6])
    if config.flip:
        x = torch.where(draws[:, 6].view(-1, 1, 1, 1) < 0.5, x.flip(-1), x)
    if config.color:
        factors = (1 + config.color * (2 * draws[:, 7:10] - 1)).float()
        for change, factor in zip(
            (color_ops.brightness, color_ops.contrast, color_ops.saturation), factors.unbind(1), strict=True
        ):
            x = change(x, factor)
    for layer in range(config.randaugment):
        x = rand_augment(x, config.magnitude / MAGNITUDES, draws[:, 16 + 3 * layer : 19 + 3 * layer])
    if config.erase:
        x = erase(x, config.erase, draws[:, 10:15])
    return x


def mix(pixels: Tensor, config: AugmentConfig, *, seed: int, epoch: int, examples: np.ndarray) -> Mixed:
    """Mix every image of a batch with the one before it; of mixup and cutmix, if both are on, one by a coin."""
    count, (height, width) = len(pixels), pixels.shape[2:]
    partners = torch.arange(count).roll(1)
    draws = uniform(seed, epoch, -1 - np.asarray(examples, dtype="i8"), 4)  # others than those of `augment`
    shares = torch.ones(count)
    if count < 2 or not config.mixes:
        return Mixed(pixels, partners, shares)
    both = bool(config.mixup and config.cutmix)
    cut = torch.from_numpy(draws[:, 0] < 0.5 if both else np.full(count, bool(config.cutmix)))
    alphas = np.where(cut.numpy(), config.cutmix, config.mixup)
    seeds = (draws[:, 1] * 2**53).astype("u8")
    betas = [np.random.default_rng(int(s)).beta(alpha, alpha) for s, alpha in zip(seeds, alphas, strict=True)]
    shares = torch.tensor(betas, dtype=torch.float32)
    other = pixels[partners]
    side = (1 - shares).sqrt()
    rows, columns = ((side * n).round().long() for n in (height, width))
    inside = _rectangles(height, width, rows, columns, torch.from_numpy(draws[:, 2:4]))
    cut_shares = 1 - (rows * columns).float() / (height * width)
    blended = (shares.view(-1, 1, 1, 1) * pixels.float() + (1 - shares).view(-1, 1, 1, 1) * other.float()).round_()
    chosen = cut.view(-1, 1, 1, 1)
    mixed = torch.where(chosen, torch.where(inside, other, pixels), blended.to(torch.uint8))
    return Mixed(mixed, partners, torch.where(cut, cut_shares, shares))


def padded_crop(x: Tensor, padding: int, draws: Tensor) -> Tensor:
    """Cut parts of the images' size out of them with a black border, each at its own place."""
    height, width = x.shape[2:]
    top, left = (draws * (2 * padding + 1)).long().unbind(1)
    around = torch.nn.functional.pad(x, (padding,) * 4)
    rows = top[:, None] + torch.arange(height, device=x.device)
    columns = left[:, None] + torch.arange(width, device=x.device)
    images = torch.arange(len(x), device=x.device).view(-1, 1, 1, 1)
    channels = torch.arange(3, device=x.device).view(1, -1, 1, 1)
    return around[images, channels, rows[:, None, :, None], columns[:, None, None, :]]


def resized_crop(x: Tensor, min_area: float, draws: Tensor) -> Tensor:
    """Cut out parts with an area from `min_area` on and sides of a ratio from 3:4 to 4:3, resized to the whole."""
    area = min_area + (1 - min_area) * draws[:, 0]
    ratio = torch.exp((2 * draws[:, 1] - 1) * math.log(4 / 3))
    width, height = (area * ratio).sqrt().clamp(max=1), (area / ratio).sqrt().clamp(max=1)
    moves = (2 * draws[:, 2:4] - 1) * torch.stack([1 - width, 1 - height], 1)
    none = torch.zeros_like(width)
    theta = torch.stack([width, none, moves[:, 0], none, height, moves[:, 1]], 1).view(-1, 2, 3)
    return _affine(x, theta)


def erase(x: Tensor, probability: float, draws: Tensor) -> Tensor:
    """Fill a rectangle of 2 to 33 % of the area with the image's mean color."""
    height, width = x.shape[2:]
    area = (0.02 + 0.31 * draws[:, 1]) * height * width
    ratio = torch.exp((2 * draws[:, 2] - 1) * math.log(3.3))
    rows = (area * ratio).sqrt().round().long().clamp(max=height)
    columns = (area / ratio).sqrt().round().long().clamp(max=width)
    inside = _rectangles(height, width, rows, columns, draws[:, 3:5])
    mean = x.float().mean((2, 3), keepdim=True).round().to(torch.uint8)
    return torch.where(inside & (draws[:, 0] < probability).view(-1, 1, 1, 1), mean, x)


def _rectangles(height: int, width: int, rows: Tensor, columns: Tensor, draws: Tensor) -> Tensor:
    """Return whether each pixel is in the rectangle of its image, (B, 1, H, W)."""
    top, left = (draws[:, 0] * (height - rows + 1)).long(), (draws[:, 1] * (width - columns + 1)).long()
    y, x = torch.arange(height, device=draws.device), torch.arange(width, device=draws.device)
    in_rows = (y >= top[:, None]) & (y < (top + rows)[:, None])
    in_columns = (x >= left[:, None]) & (x < (left + columns)[:, None])
    return (in_rows[:, :, None] & in_columns[:, None, :])[:, None]


def rand_augment(x: Tensor, strength: float, draws: Tensor) -> Tensor:
    """Change each image in one way of 14, with a strength from 0 to 1."""
    kinds = (draws[:, 0] * len(CHANGES)).long()
    signs = torch.where(draws[:, 1] < 0.5, -1.0, 1.0).double()
    changed = x.clone()
    for kind in kinds.unique().tolist():
        of = kinds == kind
        changed[of] = CHANGES[kind](x[of], strength * signs[of])
    return changed


def _affine(x: Tensor, theta: Tensor) -> Tensor:
    """Move pixels by the matrices (B, 2, 3), from places in the result to places in the image."""
    grid = torch.nn.functional.affine_grid(theta.float(), list(x.shape), align_corners=False)
    moved = torch.nn.functional.grid_sample(x.float(), grid, align_corners=False, padding_mode="zeros")
    return moved.round_().clamp_(0, 255).to(torch.uint8)


def _matrix(of: Callable[[Tensor, Tensor], Sequence[Tensor]]) -> Callable[[Tensor, Tensor], Tensor]:
    """Return a change by the six values of a matrix, which `of` gives for a zero and the signed strength."""

    def change(x: Tensor, s: Tensor) -> Tensor:
        return _affine(x, torch.stack(list(of(torch.zeros_like(s), s)), 1).view(-1, 2, 3))

    return change


def _rotate(x: Tensor, s: Tensor) -> Tensor:
    angle, aspect = s * math.radians(30), x.shape[3] / x.shape[2]
    cos, sin, none = angle.cos(), angle.sin(), torch.zeros_like(s)
    return _affine(x, torch.stack([cos, -sin / aspect, none, sin * aspect, cos, none], 1).view(-1, 2, 3))


def _enhance(change: Callable[[Tensor, Tensor], Tensor]) -> Callable[[Tensor, Tensor], Tensor]:
    return lambda x, s: change(x, (1 + 0.9 * s).float())


CHANGES: tuple[Callable[[Tensor, Tensor], Tensor], ...] = (
    lambda x, s: x,
    lambda x, s: color_ops.autocontrast(x),
    lambda x, s: color_ops.equalize(x),
    _rotate,
    lambda x, s: color_ops.solarize(x, 256 * (1 - s.abs())),
    lambda x, s: color_ops.posterize(x, (8 - 4 * s.abs()).round()),
    _enhance(color_ops.saturation),
    _enhance(color_ops.contrast),
    _enhance(color_ops.brightness),
    _enhance(color_ops.sharpness),
    _matrix(lambda none, s: (none + 1, 0.3 * s, none, none, none + 1, none)),
    _matrix(lambda none, s: (none + 1, none, none, 0.3 * s, none + 1, none)),
    _matrix(lambda none, s: (none + 1, none, 0.9 * s, none, none + 1, none)),
    _matrix(lambda none, s: (none + 1, none, none, none, none + 1, 0.9 * s)),
)
