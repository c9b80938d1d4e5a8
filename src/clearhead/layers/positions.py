"""Positions: how a model that sees a set of tokens learns their order.

Two kinds are added to the tokens (sinusoidal, learned), one turns queries and keys (rotary), two are added to
the scores (ALiBi, T5). Angles are computed in float64, so that they stay exact at any position; what is computed
and not learned is made on the CPU, also where a model is only sketched on the meta device.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from clearhead.attention import Layout, Relative

_TABLE = 2**25  # entries of a computed table: beyond any model of the field, below what a wrong size would take


def _frequencies(width: int, base: float) -> Tensor:
    """base^(-2i / width), (width / 2,), float64."""
    if width % 2:
        raise ValueError(f"width {width} is odd: sines and cosines come in pairs")
    return base ** (-torch.arange(0, width, 2, dtype=torch.float64, device="cpu") / width)


def _check(layout: Layout, max_len: int, what: str) -> None:
    if not torch.compiler.is_compiling() and layout.end > max_len:
        raise ValueError(
            f"a sequence reaches position {layout.end - 1}, but the {what} positions end at {max_len - 1}: "
            f"shorten it to {max_len} tokens, or build the model with a larger max_len"
        )


class Sinusoidal(nn.Module):
    """Sines and cosines of falling frequency (Vaswani et al. 2017, section 3.5).

    `interleaved` puts each sine beside its cosine, as the paper does; otherwise all sines come first (Marian).
    """

    table: Tensor

    def __init__(self, max_len: int, width: int, *, interleaved: bool = True, base: float = 10_000.0) -> None:
        super().__init__()
        if max_len * width > _TABLE:
            raise ValueError(f"a table of {max_len} sinusoidal positions of width {width} is too large: lower max_len")
        angles = torch.arange(max_len, dtype=torch.float64, device="cpu").unsqueeze(1) * _frequencies(width, base)
        both = torch.stack([angles.sin(), angles.cos()], dim=-1)  # (max_len, width / 2, 2)
        table = both.flatten(1) if interleaved else both.transpose(1, 2).flatten(1)
        self.register_buffer("table", table.float(), persistent=False)

    def forward(self, layout: Layout) -> Tensor:
        """(N, D)."""
        _check(layout, self.table.shape[0], "sinusoidal")
        return F.embedding(layout.positions, self.table)


class Learned(nn.Module):
    """One vector per position (BERT, GPT); `offset` shifts the table's rows (RoBERTa starts after its padding id)."""

    def __init__(self, max_len: int, width: int, *, offset: int = 0) -> None:
        super().__init__()
        self.max_len, self.offset = max_len, offset
        self.table = nn.Embedding(max_len + offset, width)
        nn.init.normal_(self.table.weight, std=0.02)

    def forward(self, layout: Layout) -> Tensor:
        """(N, D)."""
        _check(layout, self.max_len, "learned")
        return self.table(layout.positions + self.offset)


@dataclass(frozen=True)
class Stretch:
    """Rotary frequencies slowed down so that a model reads further than it was trained to.

    With `low` and `high` only slow frequencies are divided by `factor`, those that turn fewer than `low` times in
    `trained` positions; fast ones, above `high`, stay, and between the two the step is smooth (Llama 3.1). Without,
    all are divided (Chen et al. 2023, section 2.3).
    """

    factor: float
    low: float | None = None
    high: float | None = None
    trained: int | None = None

    def __call__(self, frequencies: Tensor) -> Tensor:
        if self.low is None or self.high is None or self.trained is None:
            return frequencies / self.factor
        turns = frequencies * self.trained / (2 * math.pi)
        kept = ((turns - self.low) / (self.high - self.low)).clamp(0, 1)
        return frequencies * (kept + (1 - kept) / self.factor)


class Rotary(nn.Module):
    """Turns pairs of query and key coordinates by an angle that grows with the position (Su et al. 2021, section 3.2).

    A pair is coordinates i and i + K/2 (Llama), or neighbours where `interleaved` (the paper). Only the first
    `width` coordinates of a head turn. Call it with positions (N,) for what turns the queries and keys there.
    """

    def __init__(
        self,
        max_len: int,
        width: int,
        *,
        interleaved: bool = False,
        base: float = 10_000.0,
        stretch: Stretch | None = None,
    ) -> None:
        super().__init__()
        self.max_len, self.interleaved = max_len, interleaved
        frequencies = _frequencies(width, base)
        # not a buffer: `model.to(torch.bfloat16)` must not round it
        self.frequencies = frequencies if stretch is None else stretch(frequencies)  # (width / 2,), float64

    def forward(self, positions: Tensor) -> Turn:
        """The turn of each token, from angles in float64: exact at any position."""
        angles = positions.unsqueeze(1) * self.frequencies.to(positions.device)  # (N, width / 2)
        return Turn(angles.cos().float(), angles.sin().float(), self.interleaved)

    def check(self, layout: Layout) -> None:
        """Refuse positions beyond those the model knows."""
        _check(layout, self.max_len, "rotary")


@dataclass(frozen=True, eq=False)
class Turn:
    """The rotation of each token of a batch."""

    cos: Tensor  # (N, width / 2)
    sin: Tensor
    interleaved: bool = False

    def __call__(self, x: Tensor) -> Tensor:
        """Queries or keys (N, heads, K), turned."""
        cos, sin, width = self.cos.unsqueeze(1), self.sin.unsqueeze(1), 2 * self.cos.shape[1]
        turning, still = x[..., :width].float(), x[..., width:]
        if self.interleaved:
            a, b = turning[..., 0::2], turning[..., 1::2]
            turned = torch.stack([a * cos - b * sin, b * cos + a * sin], dim=-1).flatten(-2)
        else:
            a, b = turning.chunk(2, dim=-1)
            turned = torch.cat([a * cos - b * sin, b * cos + a * sin], dim=-1)
        return torch.cat([turned.to(x.dtype), still], dim=-1) if still.shape[-1] else turned.to(x.dtype)


class ALiBi(nn.Module):
    """A penalty that grows with distance, steeper for some heads than for others (Press et al. 2022, section 3)."""

    slopes: Tensor

    def __init__(self, num_heads: int) -> None:
        super().__init__()
        power = 2 ** math.floor(math.log2(num_heads))
        slopes = [2 ** (-8 * (i + 1) / power) for i in range(power)]
        slopes += [2 ** (-4 * (2 * i + 1) / power) for i in range(num_heads - power)]  # every other of the next power
        self.register_buffer("slopes", -torch.tensor(slopes, device="cpu"), persistent=False)

    def forward(self) -> Relative:
        """The bias to attend with."""
        return Relative(self.slopes.new_zeros(len(self.slopes), 1), self.slopes)


class T5Relative(nn.Module):
    """A learned number per head for each bucket of distances, finer near than far (Raffel et al. 2020, section 2.1)."""

    buckets: Tensor
    still: Tensor

    def __init__(
        self, num_heads: int, num_buckets: int = 32, max_distance: int = 128, *, bidirectional: bool = True
    ) -> None:
        super().__init__()
        self.table = nn.Embedding(num_buckets, num_heads)
        nn.init.normal_(self.table.weight, std=0.02)
        distance = torch.arange(-max_distance, max_distance + 1, device="cpu")
        self.register_buffer("buckets", _buckets(distance, num_buckets, max_distance, bidirectional), persistent=False)
        self.register_buffer("still", torch.zeros(num_heads, device="cpu"), persistent=False)

    def forward(self) -> Relative:
        """The bias to attend with."""
        return Relative(self.table(self.buckets).T, self.still)  # (H, 2 max_distance + 1)


def _buckets(distance: Tensor, num_buckets: int, max_distance: int, bidirectional: bool) -> Tensor:
    """T5's bucket of each key-minus-query distance: half of them exact, half growing by a constant factor."""
    bucket = torch.zeros_like(distance)
    if bidirectional:
        num_buckets //= 2
        bucket += (distance > 0) * num_buckets
        far = distance.abs()
    else:
        far = (-distance).clamp_min(0)
    exact = num_buckets // 2
    growth = torch.log(far.clamp_min(1).float() / exact) / math.log(max_distance / exact)
    coarse = (exact + (growth * (num_buckets - exact)).long()).clamp_max(num_buckets - 1)
    return bucket + torch.where(far < exact, far, coarse)
