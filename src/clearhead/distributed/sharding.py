"""Training in several processes: FSDP2 and tensor parallelism, applied to a model from outside."""

import os
from collections.abc import Callable, Generator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, cast

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard, register_fsdp_forward_method
from torch.distributed.tensor import DTensor, distribute_tensor
from torch.utils.checkpoint import checkpoint

from clearhead.distributed.deferred_init import InitRecorder
from clearhead.distributed.heartbeat import Heartbeat
from clearhead.distributed.ranks import Distributed, full_tensor, launched, reshard
from clearhead.distributed.tensor_parallel import split_blocks
from clearhead.distributed.torch_private import is_peer_failure, rendezvous_from_env
from clearhead.models import Model

COLLECTIVE_TIMEOUT = timedelta(minutes=10)  # a collective of live ranks that takes longer never ends
WAIT_TIMEOUT = timedelta(days=7)  # for work that one rank does while the others wait


class PeerLost(Exception):
    """Another process of the run is gone, and this one cannot continue without it."""


@contextmanager
def init_distributed() -> Generator[Distributed]:
    """Join the ranks that torchrun or Ray Train started; without a launcher, yield a single rank."""
    if not launched():
        yield Distributed()
        return
    store, rank, size = rendezvous_from_env(COLLECTIVE_TIMEOUT)
    local_size = int(os.environ.get("LOCAL_WORLD_SIZE", "1"))  # ranks on this machine
    first = rank - int(os.environ.get("LOCAL_RANK", "0"))
    neighbors = {(rank + 1) % size, first + (rank - first + 1) % local_size}
    connected = dist.is_initialized()  # by the launcher, which also disconnects the ranks
    with Heartbeat(store, rank, neighbors, range(first, first + local_size)):
        if not connected:
            dist.init_process_group(store=store, rank=rank, world_size=size, timeout=COLLECTIVE_TIMEOUT)
        try:
            groups = [cast(Any, dist.new_group(backend="gloo", timeout=WAIT_TIMEOUT)) for _ in range(2)]
            yield Distributed(rank, size, patient=groups[0], background=groups[1])
        except RuntimeError as error:
            if is_peer_failure(error):
                raise PeerLost(f"rank {rank} has lost another process of this run") from error
            raise
        finally:
            if not connected:
                dist.destroy_process_group()


def shard(
    model: Model,
    distributed: Distributed,
    device: torch.device | None = None,
    *,
    activation_checkpointing: bool = False,
) -> Model:
    """Shard every weight and its optimizer state over the ranks; blocks are gathered one after the other.

    With copies of the model, each copy is sharded; with tensor parallelism, what is left of a block on each rank.

    The model of a single process is returned unchanged. Weights stay float32, so that every world size trains the same
    model; matrix products run in the dtype of the recipe inside autocast. A model on the meta device needs the `device`
    that its shards will be on.
    """
    if activation_checkpointing:
        for block in _blocks(model):
            _checkpoint_activations(block)
    if distributed.size == 1:
        return model
    device = device or next(model.parameters()).device
    mesh = _mesh(distributed, device.type)
    if distributed.tensor > 1:
        split_blocks(model, mesh["tensor"])
    mesh = mesh["data", "shard"] if distributed.copies > 1 else mesh["shard"]
    reduce = MixedPrecisionPolicy(reduce_dtype=torch.float32)
    for block in _blocks(model):
        fully_shard(block, mesh=mesh, mp_policy=reduce)
    fully_shard(model, mesh=mesh, mp_policy=reduce)
    register_fsdp_forward_method(model, "hidden_states")  # losses use hidden states and the weight of the head
    return model


@torch.no_grad()
def initialize_shards(
    make: Callable[[], Model],
    distributed: Distributed,
    device: torch.device,
    *,
    activation_checkpointing: bool = False,
) -> Model:
    """Build a model and shard it; no rank holds more than one weight of it whole.

    Every rank draws all numbers, so that the weights are those of a single process, to the bit.
    """
    with InitRecorder() as recorder:
        model = make()
    whole, buffers = recorder.parameters(model), dict(model.named_buffers())  # buffers are on the CPU
    shard(model, distributed, device, activation_checkpointing=activation_checkpointing).to_empty(device=device)
    shards = {name: cast(DTensor, param) for name, param in model.named_parameters()}
    recorder.replay(whole, lambda name, value: _fill(shards.pop(name), value))
    for name, buffer in model.named_buffers():
        buffer.copy_(buffers[name])
    return model


@torch.no_grad()
def share_weights(
    whole: Model | None,
    model: Model,
    distributed: Distributed,
    device: torch.device,
    *,
    activation_checkpointing: bool = False,
) -> Model:
    """Shard a model on the meta device with the weights of one that only the main rank gives; it sends them in turn."""
    shard(model, distributed, device, activation_checkpointing=activation_checkpointing).to_empty(device=device)
    sources = {} if whole is None else {**dict(whole.named_parameters()), **dict(whole.named_buffers())}
    for name, part in [*model.named_parameters(), *model.named_buffers()]:
        value = torch.empty(part.shape, dtype=part.dtype, device=device)
        if distributed.is_main:
            value.copy_(sources[name])
        dist.broadcast(value, 0)
        _fill(part, value)
    return model


def _fill(part: Tensor, value: Tensor) -> None:
    """Copy a whole tensor, or this rank's part of it."""
    if isinstance(part, DTensor):
        own = distribute_tensor(value.to(part.device), part.device_mesh, part.placements, src_data_rank=None)
        part.to_local().copy_(own.to_local())
    else:
        part.copy_(value)


@torch.no_grad()
def gather(model: nn.Module, into: Model | None) -> None:
    """Copy the weights of a sharded model into one that is not, on ranks that give one; the others hold one at a time.

    Every rank must call this.
    """
    reshard(model)
    targets = [None for _ in model.parameters()] if into is None else list(into.parameters())
    for part, param in zip(model.parameters(), targets, strict=True):
        value = full_tensor(part)
        if param is not None:
            param.copy_(value)


def _mesh(distributed: Distributed, device_type: str) -> DeviceMesh:
    """Return the mesh `data` x `shard` x `tensor` of the ranks; those of `tensor`, which talk most, are neighbors."""
    shards = distributed.size // (distributed.copies * distributed.tensor)
    sizes = distributed.copies, shards, distributed.tensor
    return init_device_mesh(device_type, sizes, mesh_dim_names=("data", "shard", "tensor"))


def _blocks(model: Model) -> list[nn.Module]:
    stacks = [stack for stack in (model.encoder, model.decoder) if stack is not None]
    return list(dict.fromkeys(block for stack in stacks for block in stack.blocks))


def _checkpoint_activations(block: nn.Module) -> None:
    """Recompute the activations inside a block in the backward pass instead of storing them."""
    forward = block.forward

    def run(*args: Any, **options: Any) -> Any:
        return checkpoint(forward, *args, use_reentrant=False, **options)

    block.forward = run
