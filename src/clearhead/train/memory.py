"""Memory: what a process frees stays with it while it trains, so that no step waits for pages it had before.

The gradient of an embedding alone is dozens of megabytes, made and freed in every step. glibc gives such blocks back to
the system at once, and asks for them again, page by page, which takes ten times as long as to fill them. What is kept
falls into pieces over time, so that every so often all that lies idle is given back.
"""

from __future__ import annotations

import ctypes
from collections.abc import Generator
from contextlib import contextmanager

TRIM, MMAP_MOST, MMAP_FROM = -1, -4, -3  # glibc's numbers of its settings
NEVER = -1  # as a threshold: more than there can be
TIDY = 50  # steps after which what lies idle is given back
# What glibc's own adjustment comes to in a process that frees large blocks.
USUAL = {MMAP_FROM: 2**25, TRIM: 2**26, MMAP_MOST: 65_536}


@contextmanager
def kept() -> Generator[None]:
    """Keep what is freed; where there is no glibc, nothing changes."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        yield
        return
    mallopt(MMAP_MOST, 0)
    mallopt(TRIM, NEVER)
    try:
        yield
    finally:
        for setting, value in USUAL.items():
            mallopt(setting, value)


def tidy() -> None:
    """Give back what lies idle at this moment."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
