from __future__ import annotations

import pytest
import torch


@pytest.fixture(autouse=True)
def _one_thread(_seed) -> None:
    torch.set_num_threads(1)  # such small models are slower in two
