"""glibc malloc settings for training: freed memory stays with the process instead of returning to the system.

The gradient of an embedding alone is dozens of megabytes, allocated and freed in every step. By default glibc returns
such blocks to the system at once and requests them again page by page, which takes ten times as long as filling them.
Retained memory fragments over time, as every ragged batch has other sizes: when the process has grown by half, or by
MIN_GROWTH if that is more, unused memory is returned.
"""

import ctypes
import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

M_TRIM_THRESHOLD, M_MMAP_MAX, M_MMAP_THRESHOLD = -1, -4, -3  # parameters of mallopt, from malloc.h
NEVER = -1  # as a threshold: the maximum
MIN_GROWTH = 2**30  # bytes
# Where glibc's dynamic adjustment ends in a process that frees large blocks.
DEFAULTS = {M_MMAP_THRESHOLD: 2**25, M_TRIM_THRESHOLD: 2**26, M_MMAP_MAX: 65_536}


class RetainedMemory:
    """Returns unused memory to the system when the process has grown since the first step after the last time."""

    def __init__(self) -> None:
        self._first: int | None = None

    def after_step(self) -> None:
        """Compare the memory of the process with that after the first step."""
        now = resident_bytes()
        if self._first is None:
            self._first = now
        elif now > self._first + max(self._first // 2, MIN_GROWTH):
            trim()
            self._first = None


@contextmanager
def retain_freed() -> Generator[RetainedMemory]:
    """Keep freed memory in the process; without glibc nothing changes."""
    memory = RetainedMemory()
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        yield memory
        return
    mallopt(M_MMAP_MAX, 0)
    mallopt(M_TRIM_THRESHOLD, NEVER)
    try:
        yield memory
    finally:
        for setting, value in DEFAULTS.items():
            mallopt(setting, value)


def resident_bytes() -> int:
    """Return the memory of this process that is in RAM; 0 where Linux does not tell."""
    path = Path("/proc/self/statm")
    return int(path.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") if path.exists() else 0


def trim() -> None:
    """Return unused memory to the system."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
