"""The mean of the weights of several checkpoints: a little better than the last of them, for nothing."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor, nn

from clearhead.files import verify
from clearhead.train.checkpoint import read_tensors, tensors_of


@torch.no_grad()
def average(model: nn.Module, checkpoints: Sequence[Path]) -> None:
    """Fill a model with the mean of its weights in these checkpoints, summed in float64."""
    sums: dict[str, Tensor] = {}
    for folder in checkpoints:
        verify(folder)
        read_tensors(folder, tensors_of(model))
        for name, param in model.named_parameters():
            sums[name] = param.double() + sums[name] if name in sums else param.double()
    for name, param in model.named_parameters():
        param.copy_(sums[name] / len(checkpoints))
