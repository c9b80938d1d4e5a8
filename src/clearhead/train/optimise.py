"""Optimisers, and the learning rate as a function of the step alone."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn

from clearhead.train.ranks import whole
from clearhead.train.recipe import Optimiser, Schedule


def make_optimiser(model: nn.Module, settings: Optimiser) -> torch.optim.Optimizer:
    """The optimiser of all parameters that are trained; only matrices decay, and lower layers may learn more slowly."""
    named = {name: p for name, p in model.named_parameters() if p.requires_grad}
    shares = layer_shares(named, settings.layer_decay)
    groups: list[dict[str, Any]] = []
    for share in sorted(set(shares.values()), reverse=True):
        chosen = [p for name, p in named.items() if shares[name] == share]
        for params, decay in (
            ([p for p in chosen if p.dim() > 1], settings.weight_decay),
            ([p for p in chosen if p.dim() <= 1], 0.0),
        ):
            if params:
                groups.append({"params": params, "weight_decay": decay, "share": share})
    if settings.kind == "sgd":
        return torch.optim.SGD(groups, lr=settings.lr, momentum=settings.momentum)
    return torch.optim.AdamW(groups, lr=settings.lr, betas=settings.betas, eps=settings.eps, fused=True)


_BLOCK = re.compile(r"\.blocks\.(\d+)\.")


def layer_shares(names: Iterable[str], decay: float) -> dict[str, float]:
    """The share of the learning rate of each parameter: 1 for the head, `decay` of it for each layer further down.

    What stands below all layers has the least (Howard and Ruder 2018).
    """
    names = list(names)
    layers = {name: int(found[1]) if (found := _BLOCK.search(name)) else None for name in names}
    top = max((layer for layer in layers.values() if layer is not None), default=-1)

    def depth(name: str) -> int:
        layer = layers[name]
        if layer is not None:
            return top + 1 - layer
        return top + 2 if ".embedding." in name else 0

    return {name: decay ** depth(name) for name in names}


def rate(step: int, steps: int, settings: Schedule) -> float:
    """The share of the learning rate for a step, counted from 1, of `steps`; 1 at its highest.

    Noam is 1 at the end of the warm-up and falls with the root of the step (Vaswani et al. 2017, section 5.3).
    """
    warmup = settings.warmup
    if step < warmup:
        return step / warmup
    if settings.kind == "noam":
        return max(math.sqrt(max(warmup, 1) / step), settings.final)
    done = min(1.0, (step - warmup) / max(1, steps - warmup))
    falls = {"cosine": (1 + math.cos(math.pi * done)) / 2, "linear": 1 - done, "constant": 1.0}
    return settings.final + (1 - settings.final) * falls[settings.kind]


def clip(model: nn.Module, limit: float) -> float:
    """The norm of the whole gradient, which is made smaller where it is above the limit."""
    grads = [p.grad for p in model.parameters() if p.grad is not None]
    if not all(type(g) is Tensor and g.device.type == "cpu" and g.is_contiguous() for g in grads):
        return float(whole(nn.utils.clip_grad_norm_(model.parameters(), limit)))
    norm = math.sqrt(sum(float(torch.dot(g.view(-1), g.view(-1))) for g in grads))  # a third of vector_norm's time
    if norm > limit:
        torch._foreach_mul_(grads, limit / (norm + 1e-6))  # type: ignore[attr-defined]
    return norm


def set_rate(optimiser: torch.optim.Optimizer, lr: float) -> None:
    """Use this learning rate from now on, or its share where a group has one."""
    for group in optimiser.param_groups:
        group["lr"] = lr * group.get("share", 1.0)
