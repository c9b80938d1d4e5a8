"""Ranks: the processes of one run. A run in one process is the case of one rank, and takes no other path."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import Tensor, nn


@dataclass(frozen=True)
class Ranks:
    """Which process this is, of how many."""

    rank: int = 0
    size: int = 1
    patient: dist.ProcessGroup | None = None  # all of them, for waits without an end; None: those of a step

    @property
    def first(self) -> bool:
        """Is this the process that writes what is written once?"""
        return self.rank == 0

    def sum(self, values: Sequence[float]) -> list[float]:
        """Numbers added over all ranks."""
        if self.size == 1:
            return list(values)
        total = torch.tensor(values, dtype=torch.float64)
        dist.all_reduce(total)
        return total.tolist()

    def wait(self) -> None:
        """Go on when every rank is here, however long one of them has to work alone."""
        if self.size > 1:
            dist.barrier(self.patient)

    def told(self, value: str) -> str:
        """What the first rank says."""
        if self.size == 1:
            return value
        box = [value]
        dist.broadcast_object_list(box, group=self.patient)
        return box[0]


def launched() -> bool:
    """Was this process started by torchrun, or something that speaks like it?"""
    return int(os.environ.get("WORLD_SIZE", "1")) > 1


def own_device(name: str) -> str:
    """The device of this process: of several on one machine, each has the one of its number."""
    return f"cuda:{os.environ['LOCAL_RANK']}" if launched() and name == "cuda" else name


def whole(tensor: Tensor) -> Tensor:
    """A sharded tensor with all its parts; others as they are."""
    full = getattr(tensor, "full_tensor", None)
    return tensor if full is None else full()


def settle(model: nn.Module) -> None:
    """Let a sharded model hold its own parts again, which the optimiser knows.

    After a forward pass without a backward one FSDP2 leaves the weights it gathered in their place.
    """
    reshard = getattr(model, "reshard", None)
    if reshard is not None:
        reshard()
