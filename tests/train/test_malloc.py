"""Memory that is kept: blocks that are freed come back without new pages."""

from __future__ import annotations

import subprocess
import sys

import psutil
import pytest
import torch

from clearhead.train import malloc
from clearhead.train.malloc import retain_freed

PAGES = 48 * 2**20 // 4096

# In a process of its own: where a block lies depends on all that the process did before.
FAULTS = """
import resource, torch
from clearhead.train.malloc import retain_freed

def faults(times):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(times):
        torch.zeros(12 * 2**20)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

print(faults(8))
with retain_freed():
    print(faults(8))
"""


@pytest.mark.skipif(not hasattr(__import__("ctypes").CDLL(None), "mallopt"), reason="glibc only")
def test_a_large_block_is_not_paged_in_each_time():
    done = subprocess.run([sys.executable, "-c", FAULTS], capture_output=True, text=True, check=True)
    before, during = map(int, done.stdout.split())
    assert before > 7 * PAGES  # each time anew
    assert during < 6 * PAGES  # a few times, until there is a hole of that size


@pytest.mark.skipif(not hasattr(__import__("ctypes").CDLL(None), "malloc_trim"), reason="glibc only")
def test_what_lies_idle_is_given_back_when_the_process_has_grown(monkeypatch):
    """A block that is freed below one that is in use stays with the process until half as much has come."""
    process = psutil.Process()
    with retain_freed() as memory:
        memory.after_step()
        before = process.memory_info().rss
        monkeypatch.setattr(malloc, "MIN_GROWTH", 0)
        low, high = torch.ones(before // 4), torch.ones(2**20)  # as much again
        del low
        held = process.memory_info().rss
        assert held > 1.9 * before
        monkeypatch.setattr(malloc, "MIN_GROWTH", 2**40)
        memory.after_step()
        assert process.memory_info().rss > 0.95 * held  # not enough
        monkeypatch.setattr(malloc, "MIN_GROWTH", 0)
        memory.after_step()
        assert process.memory_info().rss < held - 0.4 * before
        assert float(high[0]) == 1.0
