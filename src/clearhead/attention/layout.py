"""Layout: where each sequence of a ragged batch starts, and the position of its first token."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor

T = TypeVar("T")

MAX_MEMOIZED = 32  # plans stored on a layout before they are dropped


@dataclass(frozen=True, eq=False, repr=False)
class Layout:
    """The sequences of a token matrix `x: (N, ...)`, concatenated without padding.

    `offsets[i] : offsets[i + 1]` are the rows of sequence `i`; `starts[i]` is the position of its first token, so that
    chunks and cached steps align by position, never by shape. Create one with `Layout.from_lengths(lengths)` or
    `Layout.uniform(count, length)`; it is immutable.

    Traced models read the tensors. `host_lengths` and `host_starts` are the same values on the host, for planning;
    traced code must not use them, or every batch shape would compile a new graph.
    """

    offsets: Tensor  # (B + 1,) int64
    starts: Tensor  # (B,) int64
    positions: Tensor  # (N,) int64: starts[i], starts[i] + 1, ... for each sequence
    sequence_ids: Tensor  # (N,) int64: which sequence a row belongs to
    length: int | None = None  # set when every sequence is known to have this length
    unpadded: Layout | None = None  # without the padding sequences at the end; None: there are none

    @staticmethod
    def from_lengths(
        lengths: Sequence[int] | Tensor,
        starts: Sequence[int] | Tensor | None = None,
        device: torch.device | str | None = None,
    ) -> Layout:
        """The layout of sequences with these lengths, whose positions count from `starts` (default: 0)."""
        sizes = tuple(int(n) for n in (lengths.tolist() if isinstance(lengths, Tensor) else lengths))
        firsts = (
            (0,) * len(sizes)
            if starts is None
            else tuple(int(n) for n in (starts.tolist() if isinstance(starts, Tensor) else starts))
        )
        if any(n < 0 for n in sizes):
            raise ValueError(f"a sequence cannot have length {min(sizes)}: lengths are 0 or more")
        if len(firsts) != len(sizes):
            raise ValueError(f"{len(sizes)} lengths but {len(firsts)} starts: give one start per sequence, or none")
        if any(n < 0 for n in firsts):
            raise ValueError(f"a sequence cannot start at position {min(firsts)}: positions count from 0")
        # NumPy: torch would start its threads for a few thousand integers
        count, start = np.array(sizes, dtype=np.int64), np.array(firsts, dtype=np.int64)
        offsets = np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(count)])
        ids = np.repeat(np.arange(len(sizes)), count)
        positions = np.arange(len(ids)) + np.repeat(start - offsets[:-1], count)
        length = max(sizes, default=0) if len(set(sizes)) <= 1 else None
        begin, first, place, sequence = (torch.from_numpy(x).to(device) for x in (offsets, start, positions, ids))
        layout = Layout(begin, first, place, sequence, length)
        layout.__dict__["host_lengths"] = sizes  # known here: saves a device synchronization
        layout.__dict__["host_starts"] = firsts
        return layout

    @staticmethod
    def uniform(count: int, length: int, device: torch.device | str | None = None) -> Layout:
        """`count` sequences of one `length`. Traceable: both may be symbolic under `torch.export`."""
        rows = torch.arange(length, device=device).expand(count, length)
        numbers = torch.arange(count, device=device).unsqueeze(1).expand(count, length)
        layout = Layout(
            offsets=torch.arange(count + 1, device=device) * length,
            starts=torch.zeros(count, dtype=torch.int64, device=device),
            positions=rows.reshape(-1),
            sequence_ids=numbers.reshape(-1),
            length=length,
        )
        if not torch.compiler.is_compiling() and type(count) is int and type(length) is int:
            layout.__dict__["host_lengths"] = (length,) * count  # known here: saves a device synchronization
            layout.__dict__["host_starts"] = (0,) * count
        return layout

    @property
    def num_tokens(self) -> int:
        """N, the rows of the token matrix."""
        return self.positions.shape[0]

    @property
    def num_sequences(self) -> int:
        """B, the sequences in the batch."""
        return self.starts.shape[0]

    @property
    def lengths(self) -> Tensor:
        """The length of each sequence, (B,)."""
        return self.offsets[1:] - self.offsets[:-1]

    @property
    def device(self) -> torch.device:
        return self.offsets.device

    @cached_property
    def host_lengths(self) -> tuple[int, ...]:
        """The length of each sequence, as Python integers."""
        return tuple(self.lengths.tolist())

    @cached_property
    def host_starts(self) -> tuple[int, ...]:
        """The position of each sequence's first token, as Python integers."""
        return tuple(self.starts.tolist())

    @cached_property
    def host_offsets(self) -> tuple[int, ...]:
        """The first row of each sequence, and behind the last, the number of rows."""
        return (0, *accumulate(self.host_lengths))

    @property
    def max_len(self) -> int:
        """The longest sequence; 0 when there is none."""
        return max(self.host_lengths, default=0)

    @property
    def end(self) -> int:
        """One past the highest position any sequence reaches."""
        return max((s + n for s, n in zip(self.host_starts, self.host_lengths, strict=True) if n), default=0)

    def memoize(self, key: Any, make: Callable[[], T]) -> T:
        """Compute once per batch what all layers share: `make()` is stored under `key`."""
        cached: dict[Any, Any] = self.__dict__.setdefault("_memo", {})
        if key not in cached:
            if len(cached) >= MAX_MEMOIZED:
                cached.clear()
            cached[key] = make()
        return cached[key]

    def rows(self, sequence: int) -> slice:
        """The rows of one sequence in the token matrix."""
        if not -self.num_sequences <= sequence < self.num_sequences:
            raise ValueError(f"there is no sequence {sequence}: the batch has {self.num_sequences}")
        return slice(*self.host_offsets[sequence % self.num_sequences :][:2])

    def split(self, x: Tensor) -> tuple[Tensor, ...]:
        """The token matrix as one view per sequence, (T_i, ...) each."""
        return x.split(list(self.host_lengths))

    def select(self, sequences: Sequence[int]) -> Layout:
        """The layout of only these sequences, in this order (repeats allowed)."""
        lengths, starts = self.host_lengths, self.host_starts
        picked = Layout.from_lengths([lengths[i] for i in sequences], [starts[i] for i in sequences])
        return picked.to(self.device)

    def with_padding(self, lengths: Sequence[int]) -> Layout:
        """The layout with padding sequences of these lengths at the end."""
        starts = (*self.host_starts, *(0,) * len(lengths))
        longer = Layout.from_lengths((*self.host_lengths, *lengths), starts, self.device)
        longer.__dict__["unpadded"] = self
        return longer

    def row_indices(self, sequences: Sequence[int]) -> Tensor:
        """The row indices of these sequences, in this order: `x[layout.row_indices(s)]` matches `select(s)`."""
        offsets = self.host_offsets
        parts = [torch.arange(offsets[i], offsets[i + 1]) for i in sequences]
        return torch.cat(parts).to(self.device) if parts else torch.zeros(0, dtype=torch.int64, device=self.device)

    def pad(self, x: Tensor, value: float = 0.0) -> Tensor:
        """Token matrix (N, ...) to a padded (B, T, ...), for tools that need padding."""
        dense = x.new_full((self.num_sequences, self.max_len, *x.shape[1:]), value)
        dense[self.sequence_ids, self.positions - self.starts[self.sequence_ids]] = x
        return dense

    def unpad(self, dense: Tensor) -> Tensor:
        """A padded (B, T, ...) back to the token matrix (N, ...)."""
        return dense[self.sequence_ids, self.positions - self.starts[self.sequence_ids]]

    def to(self, device: torch.device | str | None) -> Layout:
        """The layout on a device; pinned tensors are copied while the device computes."""
        if device is None or torch.device(device) == self.device:
            return self
        return self._each(lambda x: x.to(device, non_blocking=self.device.type == "cpu"))

    def pin(self) -> Layout:
        """The layout in page-locked memory."""
        return self._each(Tensor.pin_memory)

    def _each(self, change: Callable[[Tensor], Tensor]) -> Layout:
        copy = Layout(
            change(self.offsets), change(self.starts), change(self.positions), change(self.sequence_ids), self.length
        )  # fmt: skip
        copy.__dict__.update({k: v for k, v in self.__dict__.items() if k in ("host_lengths", "host_starts")})
        return copy

    def __repr__(self) -> str:
        sizes = ", ".join(map(str, self.host_lengths[:6])) + (", ..." if self.num_sequences > 6 else "")
        starts_text = f", starts={list(self.host_starts[:6])}" if any(self.host_starts) else ""
        return f"Layout({self.num_tokens} tokens in {self.num_sequences} sequences: {sizes}{starts_text})"


def each_head(layout_q: Layout, layout_k: Layout, num_heads: int) -> Iterator[tuple[int, int, slice, slice]]:
    """Each head of each sequence that has queries and keys: sequence, head, and the rows of both."""
    for sequence in range(layout_q.num_sequences):
        if layout_q.host_lengths[sequence] and layout_k.host_lengths[sequence]:
            rows = layout_q.rows(sequence), layout_k.rows(sequence)
            yield from ((sequence, head, *rows) for head in range(num_heads))
