"""Changes of color for whole batches of images, (B, 3, H, W) of uint8, each image with its own strength."""

import torch
from torch import Tensor

_WEIGHTS = (0.299, 0.587, 0.114)  # of red, green and blue in gray, as Pillow's


def _each(values: Tensor) -> Tensor:
    return values.view(-1, 1, 1, 1)


def _bytes(x: Tensor) -> Tensor:
    return x.round_().clamp_(0, 255).to(torch.uint8)


def _gray(x: Tensor) -> Tensor:
    weights = torch.tensor(_WEIGHTS, device=x.device).view(1, 3, 1, 1)
    return (x.float() * weights).sum(1, keepdim=True)


def _blend(x: Tensor, other: Tensor, factor: Tensor) -> Tensor:
    """Return other + factor * (x - other): 1 is the image itself, 0 the other."""
    return _bytes(other + _each(factor) * (x.float() - other))


def brightness(x: Tensor, factor: Tensor) -> Tensor:
    return _bytes(x.float() * _each(factor))


def contrast(x: Tensor, factor: Tensor) -> Tensor:
    return _blend(x, _gray(x).round_().mean((2, 3), keepdim=True).round_(), factor)


def saturation(x: Tensor, factor: Tensor) -> Tensor:
    return _blend(x, _gray(x).round_(), factor)


def sharpness(x: Tensor, factor: Tensor) -> Tensor:
    """Blend with the image smoothed by a 3 x 3 kernel; its border stays as it is."""
    if min(x.shape[2:]) < 3:
        return x
    kernel = torch.tensor([[1.0, 1, 1], [1, 5, 1], [1, 1, 1]], device=x.device).div_(13).expand(3, 1, 3, 3)
    smooth = x.float()
    smooth[:, :, 1:-1, 1:-1] = torch.nn.functional.conv2d(x.float(), kernel, groups=3).round_()
    return _blend(x, smooth, factor)


def posterize(x: Tensor, bits: Tensor) -> Tensor:
    """Keep the highest `bits` of each value."""
    return x & _each((256 - 2 ** (8 - bits.long())).to(torch.uint8))


def solarize(x: Tensor, threshold: Tensor) -> Tensor:
    """Invert values from the threshold on."""
    return torch.where(x >= _each(threshold), 255 - x, x)


def autocontrast(x: Tensor) -> Tensor:
    """Stretch each channel of each image to all values."""
    low = x.amin((2, 3), keepdim=True).float()
    high = x.amax((2, 3), keepdim=True).float()
    scale = 255.0 / (high - low).clamp(min=1)
    stretched = ((x.float() - low) * scale + 1e-4).floor_().clamp_(0, 255).to(torch.uint8)
    return torch.where(high > low, stretched, x)


def equalize(x: Tensor) -> Tensor:
    """Spread the values of each channel of each image evenly, as Pillow's `ImageOps.equalize`."""
    flat = x.flatten(2).flatten(0, 1).long()  # (B * 3, pixels)
    rows = len(flat)
    at = torch.arange(rows, device=x.device)[:, None] * 256
    counts = torch.bincount((flat + at).flatten(), minlength=rows * 256).view(rows, 256)
    last = (counts > 0).long().mul(torch.arange(256, device=x.device)).amax(1, keepdim=True)
    step = (counts.sum(1, keepdim=True) - counts.gather(1, last)) // 255  # (rows, 1)
    before = counts.cumsum(1) - counts
    table = ((step // 2 + before) // step.clamp(min=1)).clamp(max=255)
    several = (counts > 0).sum(1, keepdim=True) > 1
    table = torch.where((step > 0) & several, table, torch.arange(256, device=x.device).expand(rows, -1))
    return table.gather(1, flat).view(x.shape).to(torch.uint8)
