"""Memory that is kept: blocks that are freed come back without new pages."""

from __future__ import annotations

import resource

import pytest
import torch

from clearhead.train.memory import kept

PAGES = 48 * 2**20 // 4096


def faults(times: int) -> int:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(times):
        torch.zeros(12 * 2**20)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before


@pytest.mark.skipif(not hasattr(__import__("ctypes").CDLL(None), "mallopt"), reason="glibc only")
def test_a_large_block_is_paged_in_once():
    assert faults(3) > 2 * PAGES * 0.9  # each time anew
    with kept():
        faults(1)
        assert faults(5) < PAGES / 10
