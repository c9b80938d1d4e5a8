"""Patterns: sparse attention whose pairs depend on positions alone."""

from __future__ import annotations

import math
from collections.abc import Hashable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from clearhead.attention.inputs import AttentionInputs
from clearhead.attention.masks import Causal, Global, Mask, Window
from clearhead.attention.method import SparseMethod, at_least
from clearhead.attention.scores import Dot
from clearhead.efficient.block_mask import BlockMask


class BigBird(SparseMethod):
    """Neighbouring, first and random blocks of keys (Zaheer et al. 2020, section 2).

    A query attends to the `window` blocks around its own, to the first `global_blocks`, and to `random` blocks, which
    differ by head; the queries of global blocks attend to all. Random blocks of causal attention are drawn among
    earlier blocks, and do not change as the text grows. A block drawn twice counts once. With `last_global`, the last
    block of a text is global too. For queries outside of global blocks, each key of the first block counts
    `first_counts` times: `transformers` does so in place of random blocks, unless it trains.
    """

    kind = "bigbird"

    def __init__(
        self,
        *,
        window: int = 3,
        global_blocks: int = 2,
        random: int = 3,
        block: int = 64,
        seed: int = 0,
        last_global: bool = False,
        first_counts: int = 1,
    ) -> None:
        super().__init__()
        at_least(1, window=window, block=block, first_counts=first_counts)
        at_least(0, global_blocks=global_blocks, random=random, seed=seed)
        if window % 2 == 0:
            raise ValueError(f"window is {window}: it must be odd, a block and as many blocks on each side")
        self.window, self.global_blocks, self.random, self.block, self.seed = window, global_blocks, random, block, seed
        self.last_global, self.first_counts = last_global, first_counts

    def exact_inputs(self, inputs: AttentionInputs) -> AttentionInputs:
        exact = super().exact_inputs(inputs)
        return exact if self.first_counts == 1 else self._counted(exact)

    def mask(self, inputs: AttentionInputs) -> Mask:
        causal, heads = inputs.mask.band[1] == 0, inputs.num_heads
        if causal and self.last_global:
            raise ValueError(
                "with causal attention no last block is global: it is not known yet. Set last_global=False"
            )
        key = "bigbird", *self.options.values(), causal, heads, id(inputs.layout_k)
        # the layout is kept alive: the key holds its id
        return inputs.layout_q.memoize(key, lambda: (inputs.layout_k, self._make(inputs, causal, heads, key)))[1]

    def _make(self, inputs: AttentionInputs, causal: bool, heads: int, name: Hashable) -> BlockMask:
        layouts = (inputs.layout_q, inputs.layout_k)
        ends = [[s + n for s, n in zip(x.host_starts, x.host_lengths, strict=True)] for x in layouts]
        n, m = (max(1, -(-max(end, default=0) // self.block)) for end in ends)
        # sequences of as many blocks share a table
        counts = {-(-k // self.block) for k in ends[1]} if not causal else {m}
        tables = {count: self._table(n, m, count, causal, heads if self.random else 1) for count in counts}
        if len(tables) == 1:
            return BlockMask(next(iter(tables.values())).unsqueeze(0), self.block, name=name)
        return BlockMask(torch.stack([tables[-(-k // self.block)] for k in ends[1]]), self.block, name=name)

    def _table(self, n: int, m: int, count: int, causal: bool, heads: int) -> Tensor:
        """Which blocks are allowed, (heads, n, m), in a sequence of `count` blocks of keys."""
        i, j = torch.arange(n, dtype=torch.int32).unsqueeze(1), torch.arange(m, dtype=torch.int32)
        table = ((i - j).abs() <= self.window // 2) | (j < self.global_blocks) | (i < self.global_blocks)
        if self.last_global:
            table = table | (j == count - 1) | (i == count - 1)
        table = table.expand(heads, n, m).clone()
        if self.random:
            draws = _uniform(self.seed, heads, n, self.random)  # (heads, n, random)
            among = i.view(1, n, 1).clamp(min=1) if causal else torch.tensor(max(count, 1))
            table.scatter_(2, (draws * among).long().clamp(max=m - 1), True)
        return table

    def _counted(self, inputs: AttentionInputs) -> AttentionInputs:
        """The same inputs with log(first_counts) added to scores of the first block: one more column of q and k."""
        scale = inputs.require_dot_products("bigbird")
        layout = inputs.layout_q
        block = layout.positions // self.block  # (N,)
        is_local = block >= self.global_blocks
        if self.last_global:
            ends = (layout.starts + layout.lengths - 1) // self.block
            is_local &= block < ends[layout.sequence_ids]
        is_first = inputs.layout_k.positions < self.block

        def with_column(x: Tensor, marked: Tensor, value: float) -> Tensor:
            column = marked.to(x.dtype) * value  # (N,)
            return torch.cat([x, column.view(-1, 1, 1).expand(-1, x.shape[1], 1)], dim=2)

        q, k = (
            with_column(inputs.q * scale, is_local, 1.0),
            with_column(inputs.k, is_first, math.log(self.first_counts)),
        )
        return replace(inputs, q=q, k=k, score=Dot())


def _uniform(seed: int, *shape: int) -> Tensor:
    """Numbers in [0, 1) by their indices: a longer table begins with a shorter one (SplitMix64)."""
    index = np.zeros(shape, dtype=np.uint64)
    with np.errstate(over="ignore"):
        for axis, size in enumerate(shape):
            step = np.arange(size, dtype=np.uint64).reshape([-1 if a == axis else 1 for a in range(len(shape))])
            index = _mix(index + step * np.uint64(0x9E3779B97F4A7C15) + np.uint64(seed + axis + 1))
    return torch.from_numpy((index >> np.uint64(11)).astype(np.float64) / 2**53)


def _mix(x: np.ndarray) -> np.ndarray:
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


class Longformer(SparseMethod):
    """A window around each token, and a few first tokens that attend to all and are visible to all.

    Beltagy et al. 2020, section 3.1. `window` counts the neighbours of both sides. With `global_until`, the id of a
    token, all tokens before its first one are global in place of `global_tokens`: the question of a reader.
    """

    kind = "longformer"

    def __init__(self, *, window: int = 512, global_tokens: int = 1, global_until: int | None = None) -> None:
        super().__init__()
        at_least(0, window=window, global_tokens=global_tokens, global_until=global_until or 0)
        self.window, self.global_tokens, self.global_until = window, global_tokens, global_until

    def mask(self, inputs: AttentionInputs) -> Mask:
        window = Window(self.window // 2, self.window // 2)
        count = self.global_tokens if inputs.global_tokens is None else inputs.global_tokens
        return window | Global(count) if isinstance(count, Tensor) or count else window


class SinkWindow(SparseMethod):
    """The last `window` tokens and the first few, the sinks (Xiao et al. 2023): causal, for streams."""

    kind = "sink_window"

    def __init__(self, *, window: int = 1024, sinks: int = 4) -> None:
        super().__init__()
        at_least(1, window=window)
        at_least(0, sinks=sinks)
        self.window, self.sinks = window, sinks

    def mask(self, inputs: AttentionInputs) -> Mask:
        window = Window(self.window - 1, 0)
        return Causal() & (window | Global(self.sinks)) if self.sinks else window


class Strided(SparseMethod):
    """The tokens of the last stride, and before them every token at a multiple of the stride (Child et al. 2019).

    Without a causal mask it is symmetric. Blocks with such a token are computed whole: it is fast where the stride is
    several blocks wide.
    """

    kind = "strided"

    def __init__(self, *, stride: int = 512) -> None:
        super().__init__()
        at_least(1, stride=stride)
        self.stride = stride

    def mask(self, inputs: AttentionInputs) -> Mask:
        return Window(self.stride - 1, self.stride - 1) | _Multiples(self.stride)


@dataclass(frozen=True, eq=False)
class _Multiples(Mask):
    """Distances that are multiples of the stride."""

    stride: int

    def allows(self, sequence: Tensor, query: Tensor, key: Tensor) -> Tensor:
        return ((query - key) % self.stride == 0) & (sequence == sequence)

    def all_allowed(self, q_lo: Any, q_hi: Any, k_lo: Any, k_hi: Any) -> Any:
        single = (q_hi - q_lo == 1) & (k_hi - k_lo == 1)
        return (single & ((q_lo - k_lo) % self.stride == 0)) | (torch.as_tensor(q_lo == q_lo) & (self.stride == 1))

    def any_allowed(self, q_lo: Any, q_hi: Any, k_lo: Any, k_hi: Any) -> Any:
        least, most = q_lo - k_hi + 1, q_hi - 1 - k_lo  # distances of the rectangle
        return most // self.stride * self.stride >= least

    @property
    def key(self) -> Hashable:
        return "multiples", self.stride
