"""Device info: the facts of a device on which the choice of a kernel depends, as plain values."""

from __future__ import annotations

from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class DeviceInfo:
    """A device type and, for CUDA, its capability. Given by hand, it answers for a device that is not present."""

    type: str
    sm: int = 0  # the compute capability as NVIDIA writes it, such as 80 or 90; 0 where there is none
    has_flash: bool = True  # this build of torch contains FlashAttention

    @staticmethod
    def of(device: torch.device) -> DeviceInfo:
        """The facts of a device of this machine."""
        if device.type != "cuda" or not torch.cuda.is_available() or torch.version.hip:  # ROCm has no capabilities
            return DeviceInfo(device.type)
        major, minor = torch.cuda.get_device_capability(device)
        return DeviceInfo("cuda", 10 * major + minor, torch.backends.cuda.is_flash_attention_available())
