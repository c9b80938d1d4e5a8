"""Kernels: ways to compute the same attention, in one dict, and the dispatcher that chooses among them."""

from typing import Protocol

from torch import Tensor

from clearhead.attention.inputs import AttentionInputs
from clearhead.attention.kernels import (
    autograd,
    block_sparse,
    bucketed,
    cached_step,
    dense,
    flex,
    grouped,
    reference,
    sdpa,
    varlen,
)
from clearhead.attention.weights import Which


class Kernel(Protocol):
    """The functions of a kernel module."""

    @staticmethod
    def unsupported_reason(inputs: AttentionInputs, dropout: float) -> str | None:
        """Why this kernel cannot compute these inputs; None if it can."""
        ...

    @staticmethod
    def is_preferred(inputs: AttentionInputs, dropout: float) -> bool:
        """True if `auto` takes this kernel for supported inputs rather than the next one in its order."""
        ...

    @staticmethod
    def run(inputs: AttentionInputs, dropout: float) -> Tensor:
        """The output, (N, H, V)."""
        ...

    @staticmethod
    def rows(inputs: AttentionInputs, sequence: int, head: int, queries: Which) -> Tensor:
        """The weights this kernel used for some queries of one head, (len, S)."""
        ...


KERNELS: dict[str, Kernel] = {
    "reference": reference,
    "sdpa": sdpa,
    "bucketed": bucketed,
    "block_sparse": block_sparse,
    "grouped": grouped,
    "autograd": autograd,
    "cached_step": cached_step,
    "flex": flex,
    "dense": dense,
    "varlen": varlen,
}

# The order in which `auto` tries kernels, by device type; the last one supports everything.
PREFERENCE: dict[str, tuple[str, ...]] = {
    "cuda": ("varlen", "flex", "sdpa", "grouped", "autograd", "reference"),
    "cpu": ("sdpa", "bucketed", "block_sparse", "grouped", "autograd", "reference"),
}

PER_HEAD = ("reference", "block_sparse")  # kernels that take masks whose heads differ


def unsupported_reason(kernel: str, inputs: AttentionInputs, dropout: float) -> str | None:
    """Why the kernel of this name cannot compute these inputs; None if it can."""
    if inputs.mask.per_head and kernel not in PER_HEAD:
        return "the heads of this mask differ"
    return KERNELS[kernel].unsupported_reason(inputs, dropout)


def choose(inputs: AttentionInputs, dropout: float, kernel: str = "auto") -> str:
    """The name of the kernel that runs these inputs: the named one, or the first preferred one that supports them."""
    if kernel == "auto":
        for name in PREFERENCE.get(inputs.q.device.type, PREFERENCE["cpu"]):
            if unsupported_reason(name, inputs, dropout) is None and KERNELS[name].is_preferred(inputs, dropout):
                return name
        raise AssertionError("the reference kernel supports everything")
    if kernel not in KERNELS:
        raise ValueError(f"there is no kernel {kernel!r}: choose auto, {', '.join(KERNELS)}")
    if reason := unsupported_reason(kernel, inputs, dropout):
        raise ValueError(f"the {kernel} kernel cannot run this: {reason}; kernel='auto' finds one that can")
    return kernel
