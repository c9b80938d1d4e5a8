"""The machine a benchmark runs on: what decides its figures, and a name for its kind."""

from __future__ import annotations

import os
import platform
import subprocess
from importlib import metadata
from pathlib import Path
from typing import Any

import torch

from clearhead.analysis.doctor_report import cpu_name

ROOT = Path(__file__).parents[1]
KINDS = {  # of a record, from the fastest matrix products to the slowest
    "amx": "with AMX", "avx512_bf16": "with bfloat16 units, without AMX", "avx512": "AVX-512, without bfloat16 units",
    "avx2": "AVX2", "other": "other processors",
}  # fmt: skip


def machine_kind() -> str:
    """Return the kind of this machine, a key of `KINDS`."""
    if torch.cpu._is_amx_tile_supported():
        return "amx"
    if torch.cpu._is_avx512_bf16_supported():
        return "avx512_bf16"
    capability = torch.backends.cpu.get_cpu_capability()
    return {"AVX512": "avx512", "AVX2": "avx2"}.get(capability, "other")


def machine_facts() -> dict[str, Any]:
    """Return the facts of this machine that decide a figure, with the load that other programs put on it."""
    return {
        "cpu": cpu_name(),
        "cpu_capability": torch.backends.cpu.get_cpu_capability(),
        "amx": torch.cpu._is_amx_tile_supported(),
        "bfloat16_units": torch.cpu._is_amx_tile_supported() or torch.cpu._is_avx512_bf16_supported(),
        "cores": os.cpu_count(),
        "cores_allowed": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "ram_gb": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        "system": f"{platform.system()} {platform.machine()}",
        "load_before": round(os.getloadavg()[0], 2),
    }


def versions(peers: tuple[str, ...]) -> dict[str, str]:
    """Return the versions of Python, torch, clearhead (with its commit in a clone) and the peers' distributions."""
    found = {"python": platform.python_version(), "torch": torch.__version__}
    found |= {name: metadata.version(name) for name in ("clearhead", *peers)}
    git = subprocess.run(
        ["git", "describe", "--always", "--dirty", "--abbrev=12"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if git.returncode == 0:
        found["commit"] = git.stdout.strip()
    return found
