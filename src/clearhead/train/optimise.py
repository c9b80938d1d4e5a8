"""Optimisers, and the learning rate as a function of the step alone."""

from __future__ import annotations

import math

import torch
from torch import nn

from clearhead.train.recipe import Optimiser, Schedule


def make_optimiser(model: nn.Module, settings: Optimiser) -> torch.optim.Optimizer:
    """The optimiser of all parameters that are trained; only matrices decay."""
    params = [p for p in model.parameters() if p.requires_grad]
    groups = [
        {"params": [p for p in params if p.dim() > 1], "weight_decay": settings.weight_decay},
        {"params": [p for p in params if p.dim() <= 1], "weight_decay": 0.0},
    ]
    groups = [group for group in groups if group["params"]]
    if settings.kind == "sgd":
        return torch.optim.SGD(groups, lr=settings.lr, momentum=settings.momentum)
    return torch.optim.AdamW(groups, lr=settings.lr, betas=settings.betas, eps=settings.eps, fused=True)


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


def set_rate(optimiser: torch.optim.Optimizer, lr: float) -> None:
    """Use this learning rate from now on."""
    for group in optimiser.param_groups:
        group["lr"] = lr
