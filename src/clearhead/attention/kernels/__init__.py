"""Kernels: ways to compute the same attention, in one dict, and the dispatcher that chooses among them."""

from typing import Protocol

from torch import Tensor

from clearhead.attention.device_info import DeviceInfo
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
from clearhead.attention.kernels.routing import routes
from clearhead.attention.weights import Which


class Kernel(Protocol):
    """The functions of a kernel module."""

    @staticmethod
    def unsupported_reason(inputs: AttentionInputs, dropout: float, device: DeviceInfo) -> str | None:
        """Why this kernel cannot compute these inputs on this device; None if it can."""
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
"""The kernels by name: each computes the same attention, and `choose` selects one."""


PER_HEAD = ("reference", "block_sparse")  # kernels that take masks whose heads differ


def unsupported_reason(
    kernel: str, inputs: AttentionInputs, dropout: float, device: DeviceInfo | None = None
) -> str | None:
    """Why the kernel of this name cannot compute these inputs; None if it can."""
    if inputs.mask.per_head and kernel not in PER_HEAD:
        return "the heads of this mask differ"
    return KERNELS[kernel].unsupported_reason(inputs, dropout, device or DeviceInfo.of(inputs.q.device))


def choose(inputs: AttentionInputs, dropout: float, kernel: str = "auto", device: DeviceInfo | None = None) -> str:
    """The name of the kernel that runs these inputs: the named one, or the first of the routing table that can.

    `device` defaults to the device of the inputs; another one answers for a machine that is not here.
    """
    device = device or DeviceInfo.of(inputs.q.device)
    if kernel == "auto":
        for name, condition in routes(device):
            if unsupported_reason(name, inputs, dropout, device) is None and condition(inputs, dropout, device):
                return name
        raise AssertionError("the reference kernel supports everything")
    if kernel not in KERNELS:
        raise ValueError(f"there is no kernel {kernel!r}: choose auto, {', '.join(KERNELS)}")
    if reason := unsupported_reason(kernel, inputs, dropout, device):
        raise ValueError(f"the {kernel} kernel cannot run this: {reason}; kernel='auto' finds one that can")
    return kernel
