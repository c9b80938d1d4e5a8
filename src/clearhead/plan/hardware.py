"""What a processor can do at most: the constants of the roofline, as its vendor states them, or measured here."""

import os
import time
from dataclasses import dataclass

import torch

from clearhead.attention.device_info import DeviceInfo

GB = 10**9
ETHERNET_10G = 1.25 * GB  # bytes a second, of a CPU machine whose network is not known
MATMUL_WIDTH = 1024  # of the products that are timed
COPY_BYTES = 1 << 27
ROUNDS = 5


@dataclass(frozen=True, kw_only=True)
class Hardware:
    """The limits of one processor, in bytes and operations per second. Dense products; traffic in one direction."""

    title: str
    memory: int
    flops: dict[str, float]  # by the dtype of the products
    bandwidth: float  # of the memory
    link: float  # to the other processors of a machine
    network: float  # of one processor, to other machines
    per_machine: int  # processors
    device: DeviceInfo  # for the choice of attention kernels
    source: str


HARDWARE: dict[str, Hardware] = {
    "a100-80": Hardware(
        title="NVIDIA A100 SXM 80 GB",
        memory=80 * GB,
        flops={"bfloat16": 312e12, "float32": 19.5e12},
        bandwidth=2039 * GB,
        link=300 * GB,
        network=25 * GB,
        per_machine=8,
        device=DeviceInfo("cuda", 80),
        source="NVIDIA A100 data sheet; DGX A100: 8 network cards of 200 Gb/s for 8 GPUs",
    ),
    "h100": Hardware(
        title="NVIDIA H100 SXM 80 GB",
        memory=80 * GB,
        flops={"bfloat16": 989e12, "float32": 67e12},
        bandwidth=3350 * GB,
        link=450 * GB,
        network=50 * GB,
        per_machine=8,
        device=DeviceInfo("cuda", 90),
        source="NVIDIA H100 data sheet; DGX H100: 8 network cards of 400 Gb/s for 8 GPUs",
    ),
}
"""The processors that a plan knows, by name; `cpu` is measured by `find_hardware`."""


def find_hardware(name: str) -> Hardware:
    """Return the hardware of this name; `cpu` is this machine, measured now with the threads of torch."""
    if name == "cpu":
        return measure_cpu()
    if name not in HARDWARE:
        raise ValueError(f"--gpu is {name!r}: choose from {', '.join(HARDWARE)}, cpu")
    return HARDWARE[name]


def measure_cpu() -> Hardware:
    """Measure products and copies on this machine; one process is taken to use all of it."""
    flops = {str(dtype).removeprefix("torch."): _matmul(dtype) for dtype in (torch.float32, torch.bfloat16)}
    source, target = torch.ones(COPY_BYTES, dtype=torch.uint8), torch.zeros(COPY_BYTES, dtype=torch.uint8)
    copying = _best(lambda: target.copy_(source))
    return Hardware(
        title=f"this machine's CPU, {torch.get_num_threads()} threads",
        memory=os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        flops=flops,
        bandwidth=2 * COPY_BYTES / copying,
        link=ETHERNET_10G,
        network=ETHERNET_10G,
        per_machine=1,
        device=DeviceInfo("cpu"),
        source="products and copies measured now; a network of 10 Gb/s is assumed",
    )


def _matmul(dtype: torch.dtype) -> float:
    """Return the operations per second of square products in this dtype."""
    a = torch.ones(MATMUL_WIDTH, MATMUL_WIDTH, dtype=dtype)
    return 2 * MATMUL_WIDTH**3 / _best(lambda: a @ a)


def _best(work: object) -> float:
    assert callable(work)
    best = float("inf")
    for _ in range(ROUNDS):
        start = time.perf_counter()
        work()
        best = min(best, time.perf_counter() - start)
    return best
