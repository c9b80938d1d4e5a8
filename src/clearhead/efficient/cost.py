"""Cost: the time and memory of a method on random tokens of a given length, on this machine."""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from math import log
from typing import Any

import torch

from clearhead.attention.attend import dispatch
from clearhead.attention.inputs import AttentionInputs
from clearhead.attention.layout import Layout
from clearhead.attention.masks import Causal, Full
from clearhead.attention.scores import ScaledDot
from clearhead.efficient.methods import make_method

CLEAR_REFS = "/proc/self/clear_refs"  # Linux: resets the peak of a process; not writable in every container

Options = Mapping[str, Any] | None  # of a method; None: exact attention


def random_inputs(length: int, heads: int, head_dim: int, *, causal: bool = False) -> AttentionInputs:
    """Self-attention of one text of random queries, keys and values."""
    generator = torch.Generator().manual_seed(0)
    q, k, v = (torch.randn(length, heads, head_dim, generator=generator) for _ in range(3))
    layout = Layout.from_lengths([length])
    return AttentionInputs(q, k, v, layout, layout, Causal() if causal else Full(), ScaledDot())


@torch.no_grad()
def seconds(options: Options, inputs: AttentionInputs, repeats: int = 3) -> float:
    """The shortest time of several runs forward."""
    method = None if options is None else make_method(options, head_dim=inputs.q.shape[2], max_len=len(inputs.q))
    best = float("inf")
    for _ in range(repeats):
        begin = time.perf_counter()
        dispatch(inputs) if method is None else method(inputs)
        best = min(best, time.perf_counter() - begin)
    return best


def peak_megabytes(options: Options, length: int, heads: int, head_dim: int, *, causal: bool = False) -> float:
    """The most memory in use while a method runs forward, with its inputs and output, in a process of its own.

    It reads the peak that Linux keeps for a process, after it has been reset.
    """
    context = multiprocessing.get_context("spawn")
    there, here = context.Pipe()
    process = context.Process(target=_measure_peak, args=(there, options, length, heads, head_dim, causal))
    process.start()
    there.close()
    try:
        return here.recv()
    finally:
        process.join()


def _measure_peak(pipe: Any, options: Options, length: int, heads: int, head_dim: int, causal: bool) -> None:
    small = random_inputs(min(length, 2048), heads, head_dim, causal=causal)
    seconds(options, small, 1)  # what is allocated once, and stays
    with process_peak() as megabytes:
        inputs = random_inputs(length, heads, head_dim, causal=causal)
        seconds(options, inputs, 1)
        pipe.send(megabytes())


@contextmanager
def process_peak() -> Generator[Callable[[], float]]:
    """Reset the peak that Linux keeps for a process, and yield a function that returns it, above what is in use now."""

    def resident(key: str) -> float:
        with open("/proc/self/status", encoding="ascii") as file:
            return next(int(line.split()[1]) / 1024 for line in file if line.startswith(key))

    before = resident("VmRSS")
    with open(CLEAR_REFS, "w", encoding="ascii") as file:
        file.write("5")
    yield lambda: resident("VmHWM") - before


def slope(times: Mapping[int, float]) -> float:
    """The slope of log time against log length, by least squares: 1 is linear, 2 quadratic."""
    points = [(log(n), log(t)) for n, t in times.items()]
    x, y = (sum(p[i] for p in points) / len(points) for i in (0, 1))
    return sum((a - x) * (b - y) for a, b in points) / sum((a - x) ** 2 for a, _ in points)
