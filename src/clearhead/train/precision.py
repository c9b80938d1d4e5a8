"""Precision: in which numbers a step computes."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

import torch

from clearhead.models.precision import choose_dtype


def precision(name: str, device: torch.device | str = "cpu") -> AbstractContextManager[object]:
    """Products in this dtype, sums and weights in float32; "auto" is bfloat16 where the device has it."""
    dtype, kind = choose_dtype(name, device), torch.device(device).type
    return torch.autocast(kind, dtype) if dtype == torch.bfloat16 else nullcontext()
