"""Random numbers as a pure function of seed, epoch and example: no state, so a resumed run draws the same."""

from collections.abc import Sequence

import numpy as np

_STEP = np.uint64(0x9E3779B97F4A7C15)


def _mix(x: np.ndarray) -> np.ndarray:
    """Return a hash of 64-bit numbers (splitmix64, Steele et al. 2014)."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def uniform(seed: int, epoch: int, examples: Sequence[int] | np.ndarray, count: int) -> np.ndarray:
    """Return `count` numbers from 0 to below 1 for each example, (examples, count).

    The n-th number of an example does not depend on how many are drawn, nor on the other examples.
    """
    with np.errstate(over="ignore"):  # hashes wrap around
        key = np.array([seed, epoch], dtype="i8").view("u8")
        base = _mix(_mix(key[:1] + _STEP) + key[1:] * _STEP)
        row = _mix(base + (np.asarray(examples, dtype="i8").view("u8") + np.uint64(1)) * _STEP)
        draws = _mix(row[:, None] + (np.arange(count, dtype="u8") + np.uint64(1)) * _STEP)
    return (draws >> np.uint64(11)).astype("f8") * 2.0**-53
