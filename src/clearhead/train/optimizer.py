"""Optimizers, gradient clipping, and the learning rate as a function of the step."""

import math
import re
from collections.abc import Iterable
from typing import Any, cast

import torch
import torch.distributed as dist
from torch import Tensor, nn

from clearhead.distributed.ranks import Distributed, local
from clearhead.distributed.torch_private import multiply_
from clearhead.train.recipe import OptimizerConfig, ScheduleConfig


def make_optimizer(model: nn.Module, settings: OptimizerConfig) -> torch.optim.Optimizer:
    """Return the optimizer of all trainable parameters; weight decay applies to matrices only."""
    named = {name: p for name, p in model.named_parameters() if p.requires_grad}
    shares = layer_shares(named, settings.layer_decay)
    groups: list[dict[str, Any]] = []
    for share in sorted(set(shares.values()), reverse=True):
        chosen = [p for name, p in named.items() if shares[name] == share]
        for is_matrix, decay in ((True, settings.weight_decay), (False, 0.0)):
            for params in by_mesh(p for p in chosen if (p.dim() > 1) == is_matrix):
                groups.append({"params": params, "weight_decay": decay, "share": share})
    if settings.kind == "sgd":
        return torch.optim.SGD(groups, lr=settings.lr, momentum=settings.momentum)
    return torch.optim.AdamW(groups, lr=settings.lr, betas=settings.betas, eps=settings.eps, fused=True)


_BLOCK = re.compile(r"\.blocks\.(\d+)\.")


def layer_shares(names: Iterable[str], decay: float) -> dict[str, float]:
    """Return the learning-rate factor of each parameter: 1 for the head, times `decay` for each layer below it.

    Embeddings are below all layers and have the smallest factor (Howard and Ruder 2018).
    """
    names = list(names)
    layers = {name: int(match[1]) if (match := _BLOCK.search(name)) else None for name in names}
    top = max((layer for layer in layers.values() if layer is not None), default=-1)

    def depth(name: str) -> int:
        layer = layers[name]
        if layer is not None:
            return top + 1 - layer
        return top + 2 if ".embedding." in name else 0

    return {name: decay ** depth(name) for name in names}


def lr_factor(step: int, steps: int, settings: ScheduleConfig) -> float:
    """Return the learning-rate factor of a step, counted from 1, of `steps`; its maximum is 1.

    Noam is 1 at the end of the warmup and falls with the root of the step (Vaswani et al. 2017, section 5.3).
    """
    warmup = settings.warmup
    if step < warmup:
        return step / warmup
    if settings.kind == "noam":
        return max(math.sqrt(max(warmup, 1) / step), settings.final)
    done = min(1.0, (step - warmup) / max(1, steps - warmup))
    decay = {"cosine": (1 + math.cos(math.pi * done)) / 2, "linear": 1 - done, "constant": 1.0}
    return settings.final + (1 - settings.final) * decay[settings.kind]


def clip(model: nn.Module, limit: float, distributed: Distributed | None = None) -> float:
    """Return the norm of the full gradient and scale the gradient down to the limit where it is above."""
    grads = [p.grad for p in model.parameters() if p.grad is not None]
    squares = sum(_squares(local(g)) / _copies(g, distributed) for g in grads)
    if distributed is not None and distributed.size > 1:
        total = torch.tensor(squares, dtype=torch.float64)
        dist.all_reduce(total)
        squares = float(total)
    norm = math.sqrt(squares)
    if norm > limit:
        multiply_([local(g) for g in grads], limit / (norm + 1e-6))
    return norm


def _squares(x: Tensor) -> float:
    """Return the sum of squares."""
    if x.device.type == "cpu" and x.is_contiguous():
        return float(torch.dot(x.view(-1), x.view(-1)))  # a third of the time of vector_norm
    return float(torch.linalg.vector_norm(x)) ** 2


def _copies(x: Tensor, distributed: Distributed | None) -> int:
    """Return how many ranks hold the same part of a tensor."""
    placements = getattr(x, "placements", None)  # of a DTensor
    if placements is None or distributed is None:
        return 1
    mesh = cast(Any, x).device_mesh
    parts = math.prod(mesh.size(i) for i, place in enumerate(placements) if not place.is_replicate())
    return distributed.size // parts


def by_mesh(tensors: Iterable[Tensor]) -> list[list[Tensor]]:
    """Group tensors by the mesh they are sharded over; torch's operations on many tensors take one mesh at a time."""
    groups: dict[Any, list[Tensor]] = {}
    for x in tensors:
        groups.setdefault(getattr(x, "device_mesh", None), []).append(x)
    return list(groups.values())


def set_rate(optimizer: torch.optim.Optimizer, lr: float) -> None:
    for group in optimizer.param_groups:
        group["lr"] = lr * group.get("share", 1.0)
