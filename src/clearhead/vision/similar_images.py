"""Images that look alike: a perceptual hash of each, and the pairs whose hashes and thumbnails nearly agree."""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

HASH_SIDE = 8  # low frequencies of each direction: 64 bits
GRAY_SIDE = 32  # of the image that is transformed
THUMBNAIL_SIDE = 8
MAX_BITS = 7  # that differ between images that look alike
MAX_DISTANCE = 10.0  # mean distance of their thumbnails, of 255
CELLS = 4  # of each side, in which edges and colors are counted
BINS = 9  # directions of edges
BANDS = 8  # more than MAX_BITS: hashes that differ in so few bits agree in at least one band


@dataclass(frozen=True)
class ImageDigest:
    """What is kept of an image to compare it with others."""

    bits: int  # perceptual hash
    thumbnail: np.ndarray  # (3, 8, 8)


def image_digest(pixels: Tensor) -> ImageDigest:
    """Return the digest of an image (3, H, W) of uint8.

    The hash has the signs of the low frequencies of the gray image around their median (the DCT hash of Zauner 2010):
    it stays when an image is resized, compressed or made a little brighter.
    """
    image = pixels.float().unsqueeze(0)
    gray = F.interpolate(image.mean(1, keepdim=True), (GRAY_SIDE, GRAY_SIDE), mode="bilinear", antialias=True)[0, 0]
    low = (DCT @ gray.double().numpy() @ DCT.T).reshape(-1)
    low[0] = 0.0  # the mean brightness
    flags = low > np.median(low)
    thumbnail = F.interpolate(image, (THUMBNAIL_SIDE, THUMBNAIL_SIDE), mode="bilinear", antialias=True)[0].numpy()
    return ImageDigest(int.from_bytes(np.packbits(flags).tobytes(), "big"), thumbnail)


def look_alike(one: ImageDigest, other: ImageDigest) -> bool:
    """Return whether two images are nearly the same: few bits of their hashes and little of their thumbnails differ."""
    if (one.bits ^ other.bits).bit_count() > MAX_BITS:
        return False
    return float(np.abs(one.thumbnail - other.thumbnail).mean()) <= MAX_DISTANCE


class SimilarImages:
    """Finds images that look like one seen before, in time that hardly grows with their number."""

    def __init__(self) -> None:
        self._bands: list[dict[int, list[int]]] = [defaultdict(list) for _ in range(BANDS)]
        self._digests: list[ImageDigest] = []

    def add(self, digest: ImageDigest) -> int | None:
        """Add an image; return the number of the first one before it that looks like it."""
        keys = list(_band_keys(digest.bits))
        places = sorted({i for band, key in zip(self._bands, keys, strict=True) for i in band.get(key, ())})
        found = next((i for i in places if look_alike(self._digests[i], digest)), None)
        for band, key in zip(self._bands, keys, strict=True):
            band[key].append(len(self._digests))
        self._digests.append(digest)
        return found


def _band_keys(bits: int) -> Iterator[int]:
    """Yield the bits of each band: 64 bits in 8 runs of 8."""
    edges = [64 * i // BANDS for i in range(BANDS + 1)]
    for lo, hi in pairwise(edges):
        yield (bits >> lo) & ((1 << (hi - lo)) - 1)


def _dct(count: int, size: int) -> np.ndarray:
    """Return the first rows of the orthonormal discrete cosine transform (type 2), (count, size)."""
    frequency, place = np.arange(count)[:, None], np.arange(size)[None, :]
    rows = np.cos(np.pi * frequency * (2 * place + 1) / (2 * size)) * np.sqrt(2 / size)
    rows[0] /= np.sqrt(2)
    return rows


DCT = _dct(HASH_SIDE, GRAY_SIDE)


def image_features(pixels: Tensor) -> np.ndarray:
    """Return a simple description of an image: directions of edges in 16 cells, and the colors of 16 cells, (192,).

    Histograms of oriented gradients (Dalal and Triggs 2005), each cell scaled to length 1. It tells obvious classes
    apart, at no cost; a trained model does much better.
    """
    small = F.interpolate(pixels.float().unsqueeze(0), (GRAY_SIDE, GRAY_SIDE), mode="bilinear", antialias=True)[0] / 255
    gray = small.mean(0)
    down, right = torch.gradient(gray)
    strength = torch.hypot(down, right)
    direction = ((torch.atan2(down, right) % torch.pi) / torch.pi * BINS).long().clamp_max(BINS - 1)
    votes = F.one_hot(direction, BINS).float() * strength.unsqueeze(-1)
    cells = votes.reshape(CELLS, GRAY_SIDE // CELLS, CELLS, GRAY_SIDE // CELLS, BINS).sum((1, 3)).flatten(0, 1)
    cells = cells / (cells.norm(dim=1, keepdim=True) + 0.1)
    colors = F.avg_pool2d(small, GRAY_SIDE // CELLS).flatten()
    return torch.cat([cells.flatten(), colors]).numpy()
