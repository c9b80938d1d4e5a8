"""Ragged lengths as real text has them."""

from __future__ import annotations

import numpy as np


def text_lengths(count: int = 64, mean: float = 50.0, most: int = 512, seed: int = 0) -> list[int]:
    """Log-normal lengths with this mean, at least one of them the longest allowed, in arrival order."""
    sigma = 1.0
    drawn = np.random.default_rng(seed).lognormal(np.log(mean) - sigma**2 / 2, sigma, count)
    lengths = np.clip(np.round(drawn), 1, most).astype(int)
    lengths[np.argmax(lengths)] = most
    scale = (mean * count - most) / (lengths.sum() - most)  # the mean is met with the longest one in
    lengths = np.where(lengths == most, most, np.maximum(1, np.round(lengths * scale)).astype(int))
    return lengths.tolist()
