"""More than one process: FSDP2, put on a model from outside through its blocks. The model knows nothing of it."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard, register_fsdp_forward_method
from torch.utils.checkpoint import checkpoint

from clearhead.models import Model
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


def shard(model: Model, settings: Training, ranks: Ranks) -> Model:
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
    fully_shard(model, mesh=mesh, mp_policy=reduce)
    register_fsdp_forward_method(model, "states")  # losses read the states, and the head's weight beside them
    return model


def _blocks(model: Model) -> list[nn.Module]:
    """The blocks of encoder and decoder, shared ones once."""
    stacks = [stack for stack in (model.encoder, model.decoder) if stack is not None]
    return list(dict.fromkeys(block for stack in stacks for block in stack.blocks))


def _recompute(block: nn.Module) -> None:
    """Forget what is inside a block until the backward pass needs it."""
    forward = block.forward

    def run(*args: Any, **options: Any) -> Any:
        return checkpoint(forward, *args, use_reentrant=False, **options)

    block.forward = run
