"""Position encodings.

Two are added to token vectors (sinusoidal, learned), one rotates queries and keys (rotary), two are added to attention
scores (ALiBi, T5). Angles are computed in float64, so they stay exact at any position. Computed tables are created on
the CPU, even if the model is built on the meta device.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from clearhead.attention import Layout, RelativeBias

_MAX_TABLE_ENTRIES = 2**25  # larger than any known model needs; stops a wrong size before it takes memory


def _frequencies(width: int, base: float) -> Tensor:
    """Returns base^(-2i / width), (width / 2,), float64."""
    if width % 2:
        raise ValueError(f"width {width} is odd: it must be even, because sines and cosines come in pairs")
    return base ** (-torch.arange(0, width, 2, dtype=torch.float64, device="cpu") / width)


def _check(layout: Layout, max_len: int, kind: str) -> None:
    if not torch.compiler.is_compiling() and layout.end > max_len:
        raise ValueError(
            f"a sequence reaches position {layout.end - 1}, but the {kind} positions end at {max_len - 1}: "
            f"shorten it to {max_len} tokens, or build the model with a larger max_len"
        )


class SinusoidalPositions(nn.Module):
    """Sinusoidal positions: sines and cosines of decreasing frequency (Vaswani et al. 2017, section 3.5).

    `interleaved` alternates sines and cosines, as in the paper; otherwise all sines come first (Marian). The
    first position has the number `offset`.
    """

    table: Tensor

    def __init__(
        self, max_len: int, width: int, *, interleaved: bool = True, base: float = 10_000.0, offset: int = 0
    ) -> None:
        super().__init__()
        if max_len * width > _MAX_TABLE_ENTRIES:
            raise ValueError(f"a table of {max_len} sinusoidal positions of width {width} is too large: lower max_len")
        positions = torch.arange(offset, offset + max_len, dtype=torch.float64, device="cpu")
        angles = positions.unsqueeze(1) * _frequencies(width, base)
        pairs = torch.stack([angles.sin(), angles.cos()], dim=-1)  # (max_len, width / 2, 2)
        table = pairs.flatten(1) if interleaved else pairs.transpose(1, 2).flatten(1)
        self.register_buffer("table", table.float(), persistent=False)

    def forward(self, layout: Layout) -> Tensor:
        _check(layout, self.table.shape[0], "sinusoidal")
        return F.embedding(layout.positions, self.table)


class LearnedPositions(nn.Module):
    """A learned vector per position (BERT, GPT); `offset` skips table rows (RoBERTa: up to its padding id)."""

    def __init__(self, max_len: int, width: int, *, offset: int = 0) -> None:
        super().__init__()
        self.max_len, self.offset = max_len, offset
        self.table = nn.Embedding(max_len + offset, width)
        nn.init.normal_(self.table.weight, std=0.02)

    def forward(self, layout: Layout) -> Tensor:
        _check(layout, self.max_len, "learned")
        return self.table(layout.positions + self.offset)


class AxialPositions(nn.Module):
    """A learned vector for each row and each column of a grid that positions fill row by row (Kitaev et al. 2020).

    The vector of a position is the two, one after the other. `axes` has the count and the width of both.
    """

    def __init__(self, axes: tuple[tuple[int, int], tuple[int, int]]) -> None:
        super().__init__()
        (rows, row_width), (columns, column_width) = axes
        self.max_len = rows * columns
        self.rows = nn.Parameter(torch.randn(rows, 1, row_width) * 0.02)
        self.columns = nn.Parameter(torch.randn(1, columns, column_width) * 0.02)

    def forward(self, layout: Layout) -> Tensor:
        _check(layout, self.max_len, "axial")
        row, column = layout.positions // self.columns.shape[1], layout.positions % self.columns.shape[1]
        return torch.cat([F.embedding(row, self.rows[:, 0]), F.embedding(column, self.columns[0])], dim=1)


@dataclass(frozen=True)
class RopeScaling:
    """Scales rotary frequencies down so that a model reads longer texts than it was trained on.

    With `low` and `high`, frequencies below `low` rotations per `trained` positions are divided by `factor`, those
    above `high` are unchanged, and those between are interpolated (Llama 3.1). Without, all are divided by `factor`
    (Chen et al. 2023, section 2.3).
    """

    factor: float
    low: float | None = None
    high: float | None = None
    trained: int | None = None

    def __call__(self, frequencies: Tensor) -> Tensor:
        if self.low is None or self.high is None or self.trained is None:
            return frequencies / self.factor
        rotations = frequencies * self.trained / (2 * math.pi)
        unscaled = ((rotations - self.low) / (self.high - self.low)).clamp(0, 1)
        return frequencies * (unscaled + (1 - unscaled) / self.factor)


class Rotary(nn.Module):
    """Rotary positions: rotates pairs of query and key coordinates by the position (Su et al. 2021, section 3.2).

    A pair is coordinates i and i + K/2 (Llama), or 2i and 2i + 1 if `interleaved` (the paper). Only the first `width`
    coordinates of a head are rotated.
    """

    def __init__(
        self,
        max_len: int,
        width: int,
        *,
        interleaved: bool = False,
        base: float = 10_000.0,
        scaling: RopeScaling | None = None,
    ) -> None:
        super().__init__()
        self.max_len, self.interleaved = max_len, interleaved
        frequencies = _frequencies(width, base)
        # not a buffer: `model.to(torch.bfloat16)` must not round it
        self.frequencies = frequencies if scaling is None else scaling(frequencies)  # (width / 2,), float64

    def forward(self, positions: Tensor) -> Rotation:
        """Returns the rotation of the tokens at `positions` (N,); angles are computed in float64."""
        angles = positions.unsqueeze(1) * self.frequencies.to(positions.device)  # (N, width / 2)
        return Rotation(angles.cos().float(), angles.sin().float(), self.interleaved)

    def check(self, layout: Layout) -> None:
        _check(layout, self.max_len, "rotary")


@dataclass(frozen=True, eq=False)
class Rotation:
    """The rotation angles of each token of a batch."""

    cos: Tensor  # (N, width / 2)
    sin: Tensor
    interleaved: bool = False

    def __call__(self, x: Tensor) -> Tensor:
        """Rotates queries or keys (N, heads, K)."""
        cos, sin, width = self.cos.unsqueeze(1), self.sin.unsqueeze(1), 2 * self.cos.shape[1]
        rotated, rest = x[..., :width].float(), x[..., width:]
        if self.interleaved:
            a, b = rotated[..., 0::2], rotated[..., 1::2]
            rotated = torch.stack([a * cos - b * sin, b * cos + a * sin], dim=-1).flatten(-2)
        else:
            a, b = rotated.chunk(2, dim=-1)
            rotated = torch.cat([a * cos - b * sin, b * cos + a * sin], dim=-1)
        return torch.cat([rotated.to(x.dtype), rest], dim=-1) if rest.shape[-1] else rotated.to(x.dtype)


class ALiBi(nn.Module):
    """A penalty proportional to distance, with one slope per head (Press et al. 2022, section 3)."""

    slopes: Tensor

    def __init__(self, num_heads: int) -> None:
        super().__init__()
        power = 2 ** math.floor(math.log2(num_heads))
        slopes = [2 ** (-8 * (i + 1) / power) for i in range(power)]
        # every second slope of the next power of 2
        slopes += [2 ** (-4 * (2 * i + 1) / power) for i in range(num_heads - power)]
        self.register_buffer("slopes", -torch.tensor(slopes, device="cpu"), persistent=False)

    def forward(self) -> RelativeBias:
        return RelativeBias(self.slopes.new_zeros(len(self.slopes), 1), self.slopes)


class T5Relative(nn.Module):
    """A learned bias per head and distance bucket; buckets widen with distance (Raffel et al. 2020, section 2.1)."""

    buckets: Tensor
    slopes: Tensor

    def __init__(
        self, num_heads: int, num_buckets: int = 32, max_distance: int = 128, *, bidirectional: bool = True
    ) -> None:
        super().__init__()
        self.table = nn.Embedding(num_buckets, num_heads)
        nn.init.normal_(self.table.weight, std=0.02)
        distance = torch.arange(-max_distance, max_distance + 1, device="cpu")
        self.register_buffer("buckets", _buckets(distance, num_buckets, max_distance, bidirectional), persistent=False)
        self.register_buffer("slopes", torch.zeros(num_heads, device="cpu"), persistent=False)

    def forward(self) -> RelativeBias:
        return RelativeBias(self.table(self.buckets).T, self.slopes)  # (H, 2 max_distance + 1)


def _buckets(distance: Tensor, num_buckets: int, max_distance: int, bidirectional: bool) -> Tensor:
    """Returns T5's bucket of each key-minus-query distance: half of the buckets are exact, half grow geometrically."""
    bucket = torch.zeros_like(distance)
    if bidirectional:
        num_buckets //= 2
        bucket += (distance > 0) * num_buckets
        magnitude = distance.abs()
    else:
        magnitude = (-distance).clamp_min(0)
    exact = num_buckets // 2
    fraction = torch.log(magnitude.clamp_min(1).float() / exact) / math.log(max_distance / exact)
    coarse = (exact + (fraction * (num_buckets - exact)).long()).clamp_max(num_buckets - 1)
    return bucket + torch.where(magnitude < exact, magnitude, coarse)
