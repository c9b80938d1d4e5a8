"""Precision: which number format a machine computes in at full speed."""

from __future__ import annotations

import torch

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16, "float64": torch.float64}


def has_bfloat16(device: torch.device | str = "cpu") -> bool:
    """Does the device multiply bfloat16 matrices itself, rather than by way of float32?"""
    kind = torch.device(device).type
    if kind == "cuda":
        return torch.cuda.is_available() and torch.cuda.is_bf16_supported(including_emulation=False)
    if kind == "cpu":
        return torch.cpu._is_amx_tile_supported() or torch.cpu._is_avx512_bf16_supported()
    return False


def choose_device(name: torch.device | str) -> torch.device:
    """A device by name, if this machine has it."""
    try:
        device = torch.device(name)
    except RuntimeError:
        raise ValueError(f"there is no device {name!r}: choose cpu, cuda, cuda:1 or mps") from None
    there = {"cpu": True, "cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    if not there.get(device.type, False):
        raise ValueError(f"device {str(name)!r}: torch {torch.__version__} finds no {device.type} here; use cpu")
    return device


def choose_dtype(name: str | torch.dtype | None, device: torch.device | str = "cpu") -> torch.dtype | None:
    """A dtype by name; "auto" is bfloat16 where the device has it, float32 elsewhere; None stays None."""
    if name is None or isinstance(name, torch.dtype):
        return name
    if name == "auto":
        return torch.bfloat16 if has_bfloat16(device) else torch.float32
    if name not in DTYPES:
        raise ValueError(f"there is no dtype {name!r}: choose auto, {', '.join(DTYPES)}")
    return DTYPES[name]
