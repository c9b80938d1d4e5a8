"""Devices and dtypes: selection by name and hardware support."""

from contextlib import AbstractContextManager, nullcontext

import torch

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16, "float64": torch.float64}


def has_bfloat16(device: torch.device | str = "cpu") -> bool:
    """Returns whether the device multiplies bfloat16 matrices natively, without conversion to float32."""
    kind = torch.device(device).type
    if kind == "cuda":
        return torch.cuda.is_available() and torch.cuda.is_bf16_supported(including_emulation=False)
    if kind == "cpu":
        return torch.cpu._is_amx_tile_supported() or torch.cpu._is_avx512_bf16_supported()
    return False


def choose_device(name: torch.device | str) -> torch.device:
    """Returns a device by name; "auto" is CUDA, else MPS, else the CPU. ValueError if this machine lacks it."""
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else "cpu"
    try:
        device = torch.device(name)
    except RuntimeError:
        raise ValueError(f"there is no device {name!r}: choose auto, cpu, cuda, cuda:1 or mps") from None
    available = {"cpu": True, "cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    if not available.get(device.type, False):
        raise ValueError(
            f"device {str(name)!r}: torch {torch.__version__} finds no {device.type} on this machine; use cpu"
        )
    return device


def choose_dtype(name: str | torch.dtype | None, device: torch.device | str = "cpu") -> torch.dtype | None:
    """Returns a dtype by name; "auto" is bfloat16 if the device supports it natively, else float32; None stays None."""
    if name is None or isinstance(name, torch.dtype):
        return name
    if name == "auto":
        return torch.bfloat16 if has_bfloat16(device) else torch.float32
    if name not in DTYPES:
        raise ValueError(f"there is no dtype {name!r}: choose auto, {', '.join(DTYPES)}")
    return DTYPES[name]


def autocast(name: str, device: torch.device | str = "cpu") -> AbstractContextManager[object]:
    """Return a context for mixed precision: products in this dtype, sums and weights in float32."""
    dtype, kind = choose_dtype(name, device), torch.device(device).type
    return torch.autocast(kind, dtype) if dtype == torch.bfloat16 else nullcontext()
