"""Sequence lengths as in real text."""

from __future__ import annotations

import numpy as np


def text_lengths(count: int = 64, mean: float = 50.0, most: int = 512, seed: int = 0) -> list[int]:
    """Return log-normal lengths with this mean, at least one of them the maximum, in random order."""
    sigma = 1.0
    drawn = np.random.default_rng(seed).lognormal(np.log(mean) - sigma**2 / 2, sigma, count)
    lengths = np.clip(np.round(drawn), 1, most).astype(int)
    lengths[np.argmax(lengths)] = most
    scale = (mean * count - most) / (lengths.sum() - most)  # so that the mean includes the longest one
    lengths = np.where(lengths == most, most, np.maximum(1, np.round(lengths * scale)).astype(int))
    return lengths.tolist()
