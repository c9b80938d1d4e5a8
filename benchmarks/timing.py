"""Timing against a peer on a noisy machine: interleaved, best of several rounds, as ratios."""

from __future__ import annotations

import ctypes
import multiprocessing
import time
from collections.abc import Callable
from typing import Literal, TypeVar

from clearhead.models.precision import has_bfloat16

Dtype = Literal["bfloat16", "float32"]
FAST: tuple[Dtype, ...] = ("bfloat16", "float32") if has_bfloat16() else ("float32",)  # dtypes with hardware support


def keep_memory() -> None:
    """Retain freed memory in this process, so that no run pays page faults for another (glibc only)."""
    try:
        libc = ctypes.CDLL("libc.so.6")
        libc.mallopt(-1, 2**31 - 1)  # M_TRIM_THRESHOLD
        libc.mallopt(-3, 2**31 - 1)  # M_MMAP_THRESHOLD
    except OSError:
        pass


def interleaved(works: dict[str, Callable[[], object]], rounds: int, *, budget: float = 60.0) -> dict[str, float]:
    """Return the best time of each function in seconds, interleaved; stops early when the budget is spent."""
    best = dict.fromkeys(works, float("inf"))
    for work in works.values():
        work()
    begin = time.perf_counter()
    for _ in range(rounds):
        for name, work in works.items():
            start = time.perf_counter()
            work()
            best[name] = min(best[name], time.perf_counter() - start)
        if time.perf_counter() - begin > budget:
            break
    return best


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
