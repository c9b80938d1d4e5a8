"""Copies of a run's tensors in host memory, which are written to a checkpoint while training changes the originals."""

from collections.abc import Mapping
from typing import Any, cast

import torch
from torch import Tensor


class HostCopies:
    """Copies of named tensors, sharded ones with their shards. The memory is kept for the next copy.

    Fresh memory is given page by page by the system, which takes many times as long as the copy.
    """

    def __init__(self) -> None:
        self._copies: dict[str, Tensor] = {}

    @torch.no_grad()
    def reserve(self, tensors: Mapping[str, Tensor]) -> None:
        """Allocate the memory for copies of these tensors, which are not read."""
        if {name: _kind(t) for name, t in tensors.items()} != {name: _kind(t) for name, t in self._copies.items()}:
            self._copies = {name: torch.empty_like(t, device="cpu") for name, t in tensors.items()}
            for copy in self._copies.values():
                _local(copy).zero_()

    @torch.no_grad()
    def update(self, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Return copies of these tensors; those of an earlier call are overwritten."""
        self.reserve(tensors)
        for name, tensor in tensors.items():
            _local(self._copies[name]).copy_(_local(tensor))
        return dict(self._copies)


def _kind(tensor: Tensor) -> tuple[object, ...]:
    return tensor.shape, tensor.dtype, getattr(tensor, "placements", None)


def _local(tensor: Tensor) -> Tensor:
    """Return the shard of this process, or a tensor that is not sharded itself."""
    local = getattr(cast(Any, tensor), "to_local", None)
    return tensor if local is None else local()
