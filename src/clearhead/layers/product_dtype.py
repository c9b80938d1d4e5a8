"""The dtype of products inside autocast, for operations that autocast does not know."""

import torch
from torch import Tensor


def product_dtype(x: Tensor) -> torch.dtype:
    """The dtype in which autocast multiplies matrices; outside of it, and on the meta device, that of `x`."""
    kind = x.device.type
    return torch.get_autocast_dtype(kind) if not x.is_meta and torch.is_autocast_enabled(kind) else x.dtype
