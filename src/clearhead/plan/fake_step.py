"""One training step of one of many processes, on tensors without numbers: the real model, FSDP2 and kernels.

The process group is torch's fake one, in which every collective returns at once.
"""

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from unittest.mock import patch

import torch
import torch.distributed as dist
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.testing._internal.distributed.fake_pg import FakeStore

from clearhead.attention.device_info import DeviceInfo
from clearhead.distributed.ranks import Distributed, local
from clearhead.distributed.sharding import shard
from clearhead.models import ModelConfig, build
from clearhead.models.model import Model
from clearhead.models.precision import autocast
from clearhead.plan.hardware import Hardware
from clearhead.plan.step_meter import StepMeter
from clearhead.tasks import Task
from clearhead.tasks.task import Batch
from clearhead.train.init_model import freeze_unused
from clearhead.train.recipe import OptimizerConfig, TrainConfig

CPU = torch.device("cpu")


@dataclass(frozen=True)
class StaticMemory:
    """Bytes of one rank that stay from step to step, and the size of the model."""

    parameters: int  # of the whole model
    weights: int
    gradients: int
    optimizer: int


def run_fake_step(
    config: ModelConfig,
    task: Task,
    batches: Sequence[Batch],
    settings: TrainConfig,
    distributed: Distributed,
    hardware: Hardware,
) -> tuple[StaticMemory, StepMeter]:
    """Run forward and backward of the first rank on some parts of its batch."""
    with torch.device("meta"):
        model = freeze_unused(build(config), task)
    with _fake_ranks(distributed.size):
        shard(model, distributed, CPU, activation_checkpointing=settings.activation_checkpointing)
        static = _static_memory(model, settings.optimizer)
        meter = StepMeter(hardware, causal=config.encoder is None)
        with FakeTensorMode(allow_non_fake_inputs=True), _assume(hardware.device):
            model.to_empty(device=CPU).train()
            with meter:
                for batch in batches:
                    meter.phase = "activations"
                    with autocast(settings.dtype, CPU):
                        loss = task.loss(model, batch)
                    meter.phase = "gathers"  # of the backward pass: gradients of whole weights, and what they need
                    (loss * distributed.batch_ranks).backward()
                    del loss
    return static, meter


@contextmanager
def _fake_ranks(count: int) -> Generator[None]:
    """A process group of so many ranks, of which this process is the first; none for a single one."""
    if count == 1:
        yield
        return
    dist.init_process_group("fake", rank=0, world_size=count, store=FakeStore())
    try:
        yield
    finally:
        dist.destroy_process_group()


@contextmanager
def _assume(device: DeviceInfo) -> Generator[None]:
    """Context in which kernels are chosen as on a device that may not be present."""
    with patch.object(DeviceInfo, "of", lambda _: device):
        yield


def _static_memory(model: Model, optimizer: OptimizerConfig) -> StaticMemory:
    params = list(model.parameters())
    trained = [local(param) for param in params if param.requires_grad]
    gradients = sum(param.nbytes for param in trained)
    counters = 4 * len(trained)  # the step of each weight, a float32
    states = {"adamw": 2 * gradients + counters, "sgd": gradients}
    weights = sum(local(param).nbytes for param in params)
    return StaticMemory(sum(param.numel() for param in params), weights, gradients, states[optimizer.kind])
