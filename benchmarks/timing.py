"""Timing against a peer on a noisy machine: the sides take turns, and every round is kept."""

from __future__ import annotations

import ctypes
import multiprocessing
import time
from collections.abc import Callable, Mapping
from typing import Literal, TypeVar

from clearhead.models.precision import has_bfloat16

Dtype = Literal["bfloat16", "float32"]
# dtypes that a side may choose: without units for it, bfloat16 is emulated, ten times slower than float32
FAST: tuple[Dtype, ...] = ("bfloat16", "float32") if has_bfloat16() else ("float32",)


def keep_memory() -> None:
    """Retain freed memory in this process, so that no run pays page faults for another (glibc only)."""
    try:
        libc = ctypes.CDLL("libc.so.6")
        libc.mallopt(-1, 2**31 - 1)  # M_TRIM_THRESHOLD
        libc.mallopt(-3, 2**31 - 1)  # M_MMAP_THRESHOLD
    except OSError:
        pass


def interleaved(
    works: Mapping[str, Callable[[], object]], rounds: int, *, budget: float = 60.0
) -> dict[str, list[float]]:
    """Return the seconds of every round of each function; one round before them warms up and does not count."""
    times: dict[str, list[float]] = {name: [] for name in works}
    for work in works.values():
        work()
    begin = time.perf_counter()
    for _ in range(rounds):
        for name, work in works.items():
            start = time.perf_counter()
            work()
            times[name].append(time.perf_counter() - start)
        if time.perf_counter() - begin > budget:
            break
    return times


Result = TypeVar("Result")


def alone(work: Callable[[], Result]) -> Result:
    """Return the result of a function in a separate process, so that no side warms another's memory."""
    there, here = multiprocessing.Pipe()

    def run() -> None:
        import torch

        torch.set_num_threads(2)
        there.send(work())

    process = multiprocessing.get_context("fork").Process(target=run)
    process.start()
    there.close()
    found = here.recv()
    process.join()
    return found
