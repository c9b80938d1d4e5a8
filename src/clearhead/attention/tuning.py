"""Tuning: the measured thresholds that choose between kernels and cut their work, all in one place.

The defaults were measured on 2-core x86 machines. `python benchmarks/tune.py --out FILE` measures them on another
machine; set `CLEARHEAD_TUNING` to that file to use them. Thresholds change speed and the last bits of results.
"""

from __future__ import annotations

import json
import os
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields
from pathlib import Path

import torch

VARIABLE = "CLEARHEAD_TUNING"


@dataclass(kw_only=True)
class Tuning:
    """Thresholds in tokens, sequences, or query-key pairs of one sequence."""

    # torch's fused attention against plain batched matmuls
    fused_backward_float32_gap: tuple[int, int] = (32 * 32, 192 * 192)  # pairs of a single sequence: matmuls win inside
    fused_forward_bfloat16_pairs: int = 12 * 12  # the fused kernel wins from here
    fused_backward_bfloat16_pairs: int = 2048 * 2048
    float32_backward_below: int = 448  # shorter bfloat16 sequences run backward in float32: oneDNN compiles each shape

    # the bucketed kernel
    bucket_min_sequences: int = 12
    bucket_max_len: int = 64
    bucket_max_len_dropout: int = 512  # the fused kernel has no dropout
    bucket_multiple: int = 16  # bucket lengths up to bucket_max_len
    bucket_multiple_long: int = 32  # and beyond

    # the grouped kernel
    gather_below: int = 48  # tokens: the cost of one call equals the copy of this many rows
    padding_pairs: int = 1024  # query-key pairs of padding that cost as much as one call
    key_multiple: int = 16  # the fused forward is up to twice as fast at multiples of it
    key_multiple_max: int = 400  # beyond this many keys it is not
    block_scores: int = 2**20  # scores that plain matmuls hold at once: the L2 caches of two cores in float32
    strip_queries: int = 512  # queries at a time where a mask covers part of a long sequence
    cache_masks_below: int = 4096  # tokens: masks of longer sequences are built per tile and not cached

    # the block_sparse kernel
    sparse_block: int = 64  # queries and keys of a block
    sparse_tile_scores: int = 2**19  # scores computed at once
    sparse_from: int = 1024  # tokens of the longest sequence
    sparse_fraction: int = 4  # chosen if the mask touches at most 1 / this of all pairs

    # attention weights on request
    weight_block_scores: int = 2**20  # scores computed at once, 4 MB in float32

    # padding rows behind ragged batches, so that matrix shapes repeat (oneDNN compiles a kernel for every new shape)
    row_padding_fraction: int = 16  # at most 1 / this of the rows is added
    row_multiple_min: int = 16  # the number of rows is rounded up to a multiple in this range
    row_multiple_max: int = 256

    def fused_is_faster(self, dtype: torch.dtype, count: int, T: int, S: int, backward: bool) -> bool:
        """True if torch's fused kernel beats plain matmuls on `count` sequences of T queries and S keys."""
        pairs = T * S
        if dtype in (torch.float32, torch.float64):
            low, high = self.fused_backward_float32_gap
            return not (backward and count == 1 and low < pairs < high)
        if dtype == torch.bfloat16:
            return pairs >= (self.fused_backward_bfloat16_pairs if backward else self.fused_forward_bfloat16_pairs)
        return False


def write_tuning(tuning: Tuning, path: Path) -> None:
    path.write_text(json.dumps(asdict(tuning), indent=1) + "\n", encoding="utf-8")


def read_tuning(path: Path) -> Tuning:
    """Read thresholds that `write_tuning` wrote; missing fields keep their defaults."""
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ValueError(f"{VARIABLE}={path} cannot be read ({error}): unset it, or use `write_tuning`") from None
    names = {field.name: field.type for field in fields(Tuning)}
    if not isinstance(values, dict) or not values.keys() <= names.keys():
        unknown = ", ".join(sorted(set(values) - set(names))) if isinstance(values, dict) else type(values).__name__
        raise ValueError(f"{path} has unknown thresholds ({unknown}): write the file with `write_tuning`")
    gap = tuple(values.pop("fused_backward_float32_gap", Tuning.fused_backward_float32_gap))
    numbers = (*gap, *values.values())
    if len(gap) != 2 or not all(isinstance(n, int) and not isinstance(n, bool) and n > 0 for n in numbers):
        raise ValueError(f"{path}: thresholds are positive whole numbers; write the file with `write_tuning`")
    return Tuning(fused_backward_float32_gap=(gap[0], gap[1]), **values)


@contextmanager
def use_tuning(**thresholds: int | tuple[int, int]) -> Generator[None]:
    """Run a block with other thresholds. Layouts made before it keep the plans that they have cached."""
    before = {name: getattr(TUNING, name) for name in thresholds}
    try:
        for name, value in thresholds.items():
            setattr(TUNING, name, value)
        yield
    finally:
        for name, value in before.items():
            setattr(TUNING, name, value)


TUNING = read_tuning(Path(os.environ[VARIABLE])) if os.environ.get(VARIABLE) else Tuning()
