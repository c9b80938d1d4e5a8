"""glibc malloc settings for training: freed memory stays with the process instead of returning to the system.

The gradient of an embedding alone is dozens of megabytes, allocated and freed in every step. By default glibc returns
such blocks to the system at once and requests them again page by page, which takes ten times as long as filling them.
Retained memory fragments over time, so unused memory is returned every TRIM_EVERY_STEPS steps.
"""

import ctypes
from collections.abc import Generator
from contextlib import contextmanager

M_TRIM_THRESHOLD, M_MMAP_MAX, M_MMAP_THRESHOLD = -1, -4, -3  # parameters of mallopt, from malloc.h
NEVER = -1  # as a threshold: the maximum
TRIM_EVERY_STEPS = 50
# Where glibc's dynamic adjustment ends in a process that frees large blocks.
DEFAULTS = {M_MMAP_THRESHOLD: 2**25, M_TRIM_THRESHOLD: 2**26, M_MMAP_MAX: 65_536}


@contextmanager
def retain_freed() -> Generator[None]:
    """Keep freed memory in the process; without glibc nothing changes."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        yield
        return
    mallopt(M_MMAP_MAX, 0)
    mallopt(M_TRIM_THRESHOLD, NEVER)
    try:
        yield
    finally:
        for setting, value in DEFAULTS.items():
            mallopt(setting, value)


def trim() -> None:
    """Return unused memory to the system."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
