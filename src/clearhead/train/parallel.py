"""More than one process: FSDP2, put on a model from outside through its blocks. The model knows nothing of it."""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, cast

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed import DistError
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard, register_fsdp_forward_method
from torch.distributed.rendezvous import rendezvous
from torch.utils.checkpoint import checkpoint

from clearhead.models import Model
from clearhead.train.heartbeat import Heartbeat
from clearhead.train.ranks import Ranks, launched, settle, whole
from clearhead.train.recipe import Training

STUCK = timedelta(minutes=10)  # a collective that takes so long though everybody lives will never end
PATIENCE = timedelta(days=7)  # for work that one rank does while the others wait


class Lost(Exception):
    """Another process of the run has gone, and this one cannot go on without it."""


@contextmanager
def joined() -> Generator[Ranks]:
    """The ranks of this run: those that torchrun started, or this process alone."""
    if not launched():
        yield Ranks()
        return
    store, rank, size = next(rendezvous("env://", timeout=STUCK))
    machine = int(os.environ.get("LOCAL_WORLD_SIZE", "1"))  # ranks on this machine
    first = rank - int(os.environ.get("LOCAL_RANK", "0"))
    neighbours = {(rank + 1) % size, first + (rank - first + 1) % machine}
    with Heartbeat(store, rank, neighbours, range(first, first + machine)):
        dist.init_process_group(store=store, rank=rank, world_size=size, timeout=STUCK)
        try:
            yield Ranks(rank, size, cast(Any, dist.new_group(backend="gloo", timeout=PATIENCE)))
        except RuntimeError as error:
            if isinstance(error, DistError) or "gloo" in str(error):
                raise Lost(f"rank {rank} has lost another process of this run") from error
            raise
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
    device = next(model.parameters()).device.type
    mesh = init_device_mesh(device, (ranks.size,), mesh_dim_names=("data",))
    reduce = MixedPrecisionPolicy(reduce_dtype=torch.float32)
    for block in _blocks(model):
        fully_shard(block, mesh=mesh, mp_policy=reduce)
    fully_shard(model, mesh=mesh, mp_policy=reduce)
    register_fsdp_forward_method(model, "states")  # losses read the states, and the head's weight beside them
    return model


@torch.no_grad()
def gather(model: nn.Module, into: Model) -> Model:
    """Fill a model that is not sharded with the weights of one that is; every rank calls this, and gets the whole."""
    settle(model)
    for part, param in zip(model.parameters(), into.parameters(), strict=True):
        param.copy_(whole(part))
    return into


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
