"""Batches: which texts are written together. Of like length, so that little is waited for and little is padded."""

from __future__ import annotations

from collections.abc import Sequence

WINDOW = 2048  # texts that are sorted together
BUDGET = 4096  # tokens read in a batch
ROWS = 512  # hypotheses of a batch


def batches(sizes: Sequence[int], beam: int, budget: int = BUDGET) -> list[list[int]]:
    """The numbers of the texts of each batch, long texts first: what takes most memory is met at once."""
    if budget < 1:
        raise ValueError(f"a budget of {budget} tokens: give at least 1")
    most = max(1, ROWS // beam)
    out: list[list[int]] = []
    total = 0
    for i in sorted(range(len(sizes)), key=lambda i: (-sizes[i], i)):
        if not out or len(out[-1]) >= most or total + sizes[i] > budget:
            out.append([])
            total = 0
        out[-1].append(i)
        total += sizes[i]
    return out
