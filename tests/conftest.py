import os

import pytest
import torch
from hypothesis import HealthCheck, settings

settings.register_profile(
    "house",
    deadline=None,
    max_examples=100,
    derandomize=True,  # the same examples everywhere; a failure on one machine is a failure on all
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.load_profile("house")


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(0)
    torch.set_num_threads(1 if "PYTEST_XDIST_WORKER" in os.environ else 2)
