"""Positions: how a model that sees a set of tokens learns their order.

Two kinds are added to the tokens (sinusoidal, learned), one turns queries and keys (rotary), two are added to
the scores (ALiBi, T5). Tables are computed in float64, so that they stay exact at any position.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from clearhead.attention import Layout, Relative


def _angles(max_len: int, width: int, base: float) -> Tensor:
    """Position / base^(2i / width), (max_len, width / 2), float64."""
    if width % 2:
        raise ValueError(f"width {width} is odd: sines and cosines come in pairs")
    frequencies = base ** (-torch.arange(0, width, 2, dtype=torch.float64) / width)
    return torch.arange(max_len, dtype=torch.float64).unsqueeze(1) * frequencies


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
        angles = _angles(max_len, width, base)
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


class Rotary(nn.Module):
    """Turns pairs of query and key coordinates by an angle that grows with the position (Su et al. 2021, section 3.2).

    A pair is coordinates i and i + K/2 (Llama), or neighbours where `interleaved` (the paper). Only the first
    `width` coordinates of a head turn. Call it with queries or keys (N, heads, K) and positions (N,).
    """

    cos: Tensor
    sin: Tensor

    def __init__(self, max_len: int, width: int, *, interleaved: bool = False, base: float = 10_000.0) -> None:
        super().__init__()
        self.width, self.interleaved = width, interleaved
        angles = _angles(max_len, width, base)
        self.register_buffer("cos", angles.cos().float(), persistent=False)
        self.register_buffer("sin", angles.sin().float(), persistent=False)

    def forward(self, x: Tensor, positions: Tensor) -> Tensor:
        """The same shape, turned."""
        cos = F.embedding(positions, self.cos).unsqueeze(1)  # (N, 1, width / 2)
        sin = F.embedding(positions, self.sin).unsqueeze(1)
        turning, still = x[..., : self.width].float(), x[..., self.width :]
        if self.interleaved:
            a, b = turning[..., 0::2], turning[..., 1::2]
            turned = torch.stack([a * cos - b * sin, b * cos + a * sin], dim=-1).flatten(-2)
        else:
            a, b = turning.chunk(2, dim=-1)
            turned = torch.cat([a * cos - b * sin, b * cos + a * sin], dim=-1)
        return torch.cat([turned.to(x.dtype), still], dim=-1) if still.shape[-1] else turned.to(x.dtype)

    def check(self, layout: Layout) -> None:
        """Refuse positions beyond the table."""
        _check(layout, self.cos.shape[0], "rotary")


class ALiBi(nn.Module):
    """A penalty that grows with distance, steeper for some heads than for others (Press et al. 2022, section 3)."""

    slopes: Tensor

    def __init__(self, num_heads: int) -> None:
        super().__init__()
        power = 2 ** math.floor(math.log2(num_heads))
        slopes = [2 ** (-8 * (i + 1) / power) for i in range(power)]
        slopes += [2 ** (-4 * (2 * i + 1) / power) for i in range(num_heads - power)]  # every other of the next power
        self.register_buffer("slopes", -torch.tensor(slopes), persistent=False)

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
        distance = torch.arange(-max_distance, max_distance + 1)
        self.register_buffer("buckets", _buckets(distance, num_buckets, max_distance, bidirectional), persistent=False)
        self.register_buffer("still", torch.zeros(num_heads), persistent=False)

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
