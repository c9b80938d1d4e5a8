"""Kernels: ways to compute one and the same attention. A plain dict; a kernel is a file with three functions."""

from __future__ import annotations

from typing import Protocol

from torch import Tensor

from clearhead.attention.call import Call
from clearhead.attention.kernels import dense, flex, grouped, reference, varlen


class Kernel(Protocol):
    """What a kernel file holds."""

    @staticmethod
    def refuse(call: Call, dropout: float) -> str | None:
        """Why this kernel cannot run the call, or None if it can. Asked before anything runs."""
        ...

    @staticmethod
    def run(call: Call, dropout: float) -> Tensor:
        """The output, (N, H, V)."""
        ...

    @staticmethod
    def rows(call: Call, sequence: int, head: int, queries: slice) -> Tensor:
        """The weights this kernel really used for some queries of one head, (len, S)."""
        ...


KERNELS: dict[str, Kernel] = {
    "reference": reference,
    "grouped": grouped,
    "flex": flex,
    "dense": dense,
    "varlen": varlen,
}

# What `auto` tries, in order, by device type; the last one takes everything.
PREFERENCE: dict[str, tuple[str, ...]] = {
    "cuda": ("varlen", "flex", "grouped", "reference"),
    "cpu": ("grouped", "reference"),
}


def choose(call: Call, dropout: float) -> str:
    """The name of the kernel that `auto` takes: the first one preferred on this device that can run the call."""
    for name in PREFERENCE.get(call.q.device.type, PREFERENCE["cpu"]):
        if KERNELS[name].refuse(call, dropout) is None:
            return name
    raise AssertionError("the reference kernel refuses nothing")
