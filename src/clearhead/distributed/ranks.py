"""The processes of one run. A run in a single process has one rank and takes the same code path."""

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

import torch
import torch.distributed as dist
from torch import Tensor, nn

from clearhead.models.precision import choose_device


@dataclass(frozen=True)
class Distributed:
    """The rank of this process and the number of processes."""

    rank: int = 0
    size: int = 1
    patient: dist.ProcessGroup | None = None  # all ranks, with a long timeout; None: the default group
    background: dist.ProcessGroup | None = None  # the same, for the thread that writes checkpoints
    copies: int = 1  # of the model; the ranks of each share its weights
    tensor: int = 1  # neighboring ranks that divide each block, and compute the same examples

    @property
    def is_main(self) -> bool:
        """Whether this is rank 0, which writes what is written once."""
        return self.rank == 0

    @property
    def batch_rank(self) -> int:
        """Which part of a batch this rank computes, of `batch_ranks`."""
        return self.rank // self.tensor

    @property
    def batch_ranks(self) -> int:
        """The number of parts that a batch is split into."""
        return self.size // self.tensor

    def sum(self, values: Sequence[float]) -> list[float]:
        """Return the sums over the parts of a batch; ranks that compute the same part have the same values."""
        if self.size == 1:
            return list(values)
        if self.rank % self.tensor:
            values = [0.0] * len(values)
        total = torch.tensor(values, dtype=torch.float64)
        dist.all_reduce(total)
        return total.tolist()

    def in_background(self) -> Self:
        """Return the same ranks for another thread, whose collectives must not mix with those of the main thread."""
        return replace(self, patient=self.background)

    def gather(self, value: str) -> list[str]:
        """Return the values of all ranks, on every rank."""
        if self.size == 1:
            return [value]
        values = [value] * self.size
        dist.all_gather_object(values, value, group=self.patient)
        return values

    def barrier(self) -> None:
        """Wait for every rank, however long one of them works alone."""
        if self.size > 1:
            dist.barrier(self.patient)

    def broadcast(self, value: str) -> str:
        """Return the value of rank 0."""
        if self.size == 1:
            return value
        values = [value]
        dist.broadcast_object_list(values, group=self.patient)
        return values[0]


def launched() -> bool:
    """Return whether this process was started by torchrun or a compatible launcher."""
    return int(os.environ.get("WORLD_SIZE", "1")) > 1


def is_first_here() -> bool:
    """Return whether this is the first of the processes on its machine."""
    return os.environ.get("LOCAL_RANK", "0") == "0"


def own_device(name: str) -> str:
    """Return the device of this process: with several processes on a machine, each uses the GPU of its local rank."""
    name = str(choose_device(name))
    return f"cuda:{os.environ['LOCAL_RANK']}" if launched() and name == "cuda" else name


def full_tensor(tensor: Tensor) -> Tensor:
    """Return a sharded tensor gathered from all ranks; other tensors unchanged."""
    full = getattr(tensor, "full_tensor", None)
    return tensor if full is None else full()


def local(tensor: Tensor) -> Tensor:
    """Return the part of a sharded tensor that this rank holds; other tensors unchanged."""
    to_local = getattr(tensor, "to_local", None)
    return tensor if to_local is None else to_local()


def reshard(model: nn.Module) -> None:
    """Return a sharded model to its own shards, which the optimizer holds.

    After a forward pass without a backward pass FSDP2 leaves the gathered weights in place.
    """
    reshard = getattr(model, "reshard", None)
    if reshard is not None:
        reshard()
