"""More than one process: FSDP2, put on a model from outside through its blocks. The model knows nothing of it."""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.utils.checkpoint import checkpoint

from clearhead.layers import Block
from clearhead.models.precision import choose_dtype
from clearhead.train.ranks import Ranks, launched
from clearhead.train.recipe import Training

TIMEOUT = timedelta(seconds=20)  # a process that does not answer for so long is lost, and torchrun begins anew


@contextmanager
def joined() -> Generator[Ranks]:
    """The ranks of this run: those that torchrun started, or this process alone."""
    if not launched():
        yield Ranks()
        return
    backend = "nccl" if torch.cuda.is_available() else "gloo"
    dist.init_process_group(backend, timeout=TIMEOUT)
    try:
        yield Ranks(dist.get_rank(), dist.get_world_size())
    finally:
        dist.destroy_process_group()


def shard(model: nn.Module, settings: Training, ranks: Ranks) -> nn.Module:
    """Each rank keeps a part of every weight, and of what the optimiser keeps for it; blocks are gathered in turn.

    A run of one process is left as it is. Weights stay float32, so that every world size trains the same model;
    products run in the recipe's dtype inside autocast.
    """
    if settings.recompute:
        for block in _blocks(model):
            _recompute(block)
    if ranks.size == 1:
        return model
    device = "cuda" if torch.cuda.is_available() else "cpu"
    mesh = init_device_mesh(device, (ranks.size,), mesh_dim_names=("data",))
    reduce = MixedPrecisionPolicy(reduce_dtype=torch.float32)
    for block in _blocks(model):
        fully_shard(block, mesh=mesh, mp_policy=reduce)
    return fully_shard(model, mesh=mesh, mp_policy=reduce)


def _blocks(model: nn.Module) -> Iterator[Block]:
    """Every block once, shared ones too."""
    return iter(dict.fromkeys(module for module in model.modules() if isinstance(module, Block)))


def _recompute(block: Block) -> None:
    """Forget what is inside a block until the backward pass needs it."""
    forward = block.forward

    def run(*args: object, **options: object) -> object:
        return checkpoint(forward, *args, use_reentrant=False, **options)

    block.forward = run  # type: ignore[method-assign]
