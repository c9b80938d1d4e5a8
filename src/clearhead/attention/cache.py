"""Cache: keys and values of tokens already seen, kept in blocks so that beams share them and requests free them.

All layers hold the same tokens, so one table of blocks serves all. A step is: `extend` by the new tokens,
`write` in each layer, read what is now held with `layout`. `select` keeps, reorders or doubles sequences
(beam search); full blocks are shared between copies, and a block that is still being filled is copied when
somebody writes to it. `free` gives a sequence's blocks back.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from clearhead.attention.layout import Layout


class Store(Protocol):
    """Where an attention keeps keys and values between calls: a `Cache`, or the slots of a search."""

    @property
    def layout(self) -> Layout:
        """The layout of all that is held."""
        ...

    def holds(self, layer: int) -> bool:
        """Is there anything new enough to `read` in this layer?"""
        ...

    def read(self, layer: int) -> tuple[Tensor, Tensor]:
        """All keys and values, (M, G, K) each."""
        ...

    def write(self, layer: int, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """Add new ones; returns all."""
        ...


@dataclass(frozen=True)
class CacheConfig:
    """The size of a cache."""

    num_layers: int
    num_kv_heads: int
    head_dim: int
    block_size: int = 16
    max_blocks: int | None = None  # None: it grows as needed

    def __post_init__(self) -> None:
        for name in ("num_layers", "num_kv_heads", "head_dim", "block_size"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}: it must be at least 1")


class OutOfBlocks(RuntimeError):
    """A bounded cache has no block left."""


class Cache:
    """Keys and values of a changing set of sequences, for all layers of one model."""

    def __init__(
        self,
        config: CacheConfig,
        num_sequences: int,
        *,
        dtype: torch.dtype = torch.float32,
        device: torch.device | str = "cpu",
    ) -> None:
        self.config = config
        self._dtype, self._device = dtype, torch.device(device)
        self._pools: list[Tensor | None] = [None] * config.num_layers  # each (blocks, 2, block_size, G, K)
        self._capacity = 0
        self._unused: list[int] = []
        self._owners: list[int] = []  # how many sequences use each block
        self._tables: list[list[int]] = [[] for _ in range(num_sequences)]
        self._lengths = [0] * num_sequences
        self._filled = [0] * config.num_layers  # layers written since the last extend see the new tokens
        self._new_rows = torch.zeros(0, dtype=torch.int64)
        self._version = 0
        self._layout = Layout.of(self._lengths)
        self._rows: Tensor | None = None

    @property
    def layout(self) -> Layout:
        """The layout of all held tokens, the new ones included."""
        return self._layout

    @property
    def num_sequences(self) -> int:
        return len(self._tables)

    @property
    def blocks_used(self) -> int:
        """Blocks that hold something."""
        return self._capacity - len(self._unused)

    def holds(self, layer: int) -> bool:
        """Has this layer been written since the cache last grew?"""
        return self._filled[layer] == self._version and self._version > 0

    def extend(self, new: Layout) -> Layout:
        """Make room for the new tokens of each sequence; returns their layout with the positions they really have."""
        if new.num_sequences != self.num_sequences:
            raise ValueError(f"{new.num_sequences} sequences to append, but the cache holds {self.num_sequences}")
        placed = Layout.of(new.sizes, self._lengths, device=self._device)
        rows: list[int] = []
        size = self.config.block_size
        for i, count in enumerate(new.sizes):
            table = self._tables[i]
            if count and self._lengths[i] % size:
                self._own(table)
            for position in range(self._lengths[i], self._lengths[i] + count):
                if position % size == 0:
                    table.append(self._take())
                rows.append(table[-1] * size + position % size)
            self._lengths[i] += count
        self._new_rows = torch.tensor(rows, dtype=torch.int64, device=self._device)
        self._changed()
        self._version += 1
        return placed

    def write(self, layer: int, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """Store the new tokens' keys and values (n, G, K); returns those of all held tokens, as `layout` says."""
        if k.shape[0] != len(self._new_rows):
            raise ValueError(f"{k.shape[0]} tokens written, but the cache was extended by {len(self._new_rows)}")
        pool = self._pool(layer)
        flat = pool.view(2, -1, *pool.shape[3:])  # (2, blocks block_size, G, K)
        flat[0].index_copy_(0, self._new_rows, k.detach().to(pool.dtype))
        flat[1].index_copy_(0, self._new_rows, v.detach().to(pool.dtype))
        self._filled[layer] = self._version
        return self.read(layer)

    def read(self, layer: int) -> tuple[Tensor, Tensor]:
        """Keys and values of all held tokens, (M, G, K) each."""
        if self._rows is None:
            size = self.config.block_size
            parts = [
                torch.tensor(table, dtype=torch.int64)
                .mul_(size)
                .unsqueeze(1)
                .add(torch.arange(size))
                .flatten()[:length]
                for table, length in zip(self._tables, self._lengths, strict=True)
            ]
            self._rows = (torch.cat(parts) if parts else torch.zeros(0, dtype=torch.int64)).to(self._device)
        pool = self._pool(layer)
        flat = pool.view(2, -1, *pool.shape[3:])
        return flat[0].index_select(0, self._rows), flat[1].index_select(0, self._rows)

    def select(self, sequences: Sequence[int]) -> None:
        """Keep these sequences, in this order; one that is named twice is doubled, one that is not is freed."""
        for i in sequences:
            if not 0 <= i < self.num_sequences:
                raise ValueError(f"there is no sequence {i}: the cache holds {self.num_sequences}")
        tables = [list(self._tables[i]) for i in sequences]
        for table in tables:
            for block in table:
                self._owners[block] += 1
        for table in self._tables:
            self._release(table)
        self._tables = tables
        self._lengths = [self._lengths[i] for i in sequences]
        self._changed()

    def free(self, sequence: int) -> None:
        """Drop one sequence and give its blocks back; the others keep their order."""
        self.select([i for i in range(self.num_sequences) if i != sequence])

    def add(self, count: int = 1) -> None:
        """Append `count` new, empty sequences (a request that joins)."""
        self._tables += [[] for _ in range(count)]
        self._lengths += [0] * count
        self._changed()

    def _changed(self) -> None:
        self._layout = Layout.of(self._lengths, device=self._device)
        self._rows = None

    def _release(self, table: list[int]) -> None:
        for block in table:
            self._owners[block] -= 1
            if self._owners[block] == 0:
                self._unused.append(block)

    def _own(self, table: list[int]) -> None:
        """Make the last, partly filled block of a sequence its own before it is written to."""
        shared = table[-1]
        if self._owners[shared] == 1:
            return
        table[-1] = self._take()
        self._owners[shared] -= 1
        for layer, held in enumerate(self._pools):
            if held is not None:
                pool = self._pool(layer)
                pool[:, table[-1]] = pool[:, shared]

    def _take(self) -> int:
        if not self._unused:
            self._grow()
        block = self._unused.pop()
        self._owners[block] = 1
        return block

    def _grow(self) -> None:
        limit = self.config.max_blocks
        wanted = max(16, self._capacity * 2) if limit is None else min(max(16, self._capacity * 2), limit)
        if wanted <= self._capacity:
            raise OutOfBlocks(
                f"all {limit} blocks of {self.config.block_size} tokens are in use: free sequences or raise max_blocks"
            )
        self._unused += range(wanted - 1, self._capacity - 1, -1)
        self._owners += [0] * (wanted - self._capacity)
        self._capacity = wanted

    def _pool(self, layer: int) -> Tensor:
        pool = self._pools[layer]
        if pool is None or pool.shape[1] < self._capacity:
            size, heads, width = self.config.block_size, self.config.num_kv_heads, self.config.head_dim
            larger = torch.zeros(2, self._capacity, size, heads, width, dtype=self._dtype, device=self._device)
            if pool is not None:
                larger[:, : pool.shape[1]] = pool
            self._pools[layer] = pool = larger
        return pool
