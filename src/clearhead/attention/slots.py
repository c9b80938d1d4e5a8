"""Slots: keys and values of growing hypotheses, so laid out that beam search never moves one of them.

The hypotheses of a sequence are several queries of that sequence. Each step writes the keys of all of them side by
side, and a table says which of the keys written so far belong to which hypothesis: choosing parents changes the table
alone. A sequence that leaves gives its place to the last one, so that a place is copied and not the cache.
"""

from __future__ import annotations

import torch
from torch import Tensor

from clearhead.attention.biases import Written
from clearhead.attention.layout import Layout

STEPS = 8  # steps that there is room for at first, and at least when room is added


class _Rectangles:
    """Keys and values of each layer as (B, S, G, K), of which a prefix of the B is in use."""

    def __init__(self, num_layers: int, num_sequences: int) -> None:
        self.num_sequences = num_sequences
        self.length = 0  # S
        self._held: list[tuple[Tensor, Tensor] | None] = [None] * num_layers
        self._layout: Layout | None = None

    @property
    def layout(self) -> Layout:
        """The layout of all places, used or not: what may be seen of them is what `table` says."""
        device = next((pair[0].device for pair in self._held if pair is not None), None)
        if self._layout is None:
            self._layout = Layout.equal(self.num_sequences, self.length, device)
        return self._layout

    def holds(self, layer: int) -> bool:
        """Has anything been written in this layer?"""
        return self._held[layer] is not None

    def read(self, layer: int) -> tuple[Tensor, Tensor]:
        """Keys and values of all places, (B S, G, K) each, as `layout` says."""
        pair = self._held[layer]
        assert pair is not None, f"layer {layer} was read before it was written"
        k, v = (x[: self.num_sequences].flatten(0, 1) for x in pair)  # a prefix: no copy
        return k, v

    def _keep(self, sequences: Tensor) -> None:
        """Bring the places of these sequences to the front."""
        moved = (sequences != torch.arange(len(sequences), device=sequences.device)).nonzero().flatten()
        if len(moved):
            for pair in self._held:
                for x in pair or ():
                    x.index_copy_(0, moved, x.index_select(0, sequences[moved]))
        if len(sequences) != self.num_sequences:
            self.num_sequences, self._layout = len(sequences), None


class Memory(_Rectangles):
    """A context that every hypothesis of a sequence sees whole: written once, read at each step, never doubled."""

    def __init__(self, num_layers: int, layout: Layout, dtype: torch.dtype) -> None:
        super().__init__(num_layers, layout.num_sequences)
        self._ragged = layout
        self.length = layout.max_len
        beyond = torch.arange(self.length, device=layout.device) >= layout.lengths.unsqueeze(1)  # (B, S)
        self._table = beyond.new_zeros(beyond.shape, dtype=dtype).masked_fill_(beyond, float("-inf"))

    def bias(self, num_heads: int) -> Written:
        """What hides the places that hold nothing."""
        return Written(self._table.view(self.num_sequences, 1, 1, -1), num_heads)

    def write(self, layer: int, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """Store the context's keys and values (M, G, K); returns those of all places."""
        self._held[layer] = self._ragged.pad(k), self._ragged.pad(v)
        return self.read(layer)

    def select(self, sequences: Tensor) -> None:
        """Keep these sequences, in this order."""
        self._keep(sequences)
        self._table = self._table.index_select(0, sequences)


class Slots(_Rectangles):
    """What each hypothesis has read so far: a prompt that they share, then one token a step."""

    def __init__(self, num_layers: int, num_sequences: int, *, dtype: torch.dtype, device: torch.device | str) -> None:
        super().__init__(num_layers, num_sequences)
        self.lengths = torch.zeros(num_sequences, dtype=torch.int64, device=device)  # (B,) tokens of each hypothesis
        self.positions = torch.zeros(num_sequences, 0, dtype=torch.int64, device=device)  # (B, S) of the tokens held
        self._table = torch.zeros(num_sequences, 1, 0, dtype=dtype, device=device)  # (B, W, S): 0 seen, -inf not
        self._used = self._new = 0

    @property
    def width(self) -> int:
        """W, the hypotheses of each sequence."""
        return self._table.shape[1]

    @property
    def table(self) -> Tensor:
        """What is added to the scores of each hypothesis, (B, W, S): 0 for its own tokens, -inf for all others."""
        return self._table

    def fill(self, layout: Layout) -> None:
        """Make room for prompts of this layout, before anything else; `put` their keys and values in each layer."""
        assert not self._used, "a prompt comes before the first step"
        self._grow(layout.max_len + STEPS)
        held = torch.arange(layout.max_len, device=self.lengths.device) < layout.lengths.unsqueeze(1)  # (B, P)
        self._table[:, :, : layout.max_len].masked_fill_(held.unsqueeze(1), 0.0)
        self.positions[:, : layout.max_len] = torch.arange(layout.max_len, device=self.lengths.device)
        self.lengths, self._used = layout.lengths.clone(), layout.max_len

    def put(self, layer: int, layout: Layout, k: Tensor, v: Tensor) -> None:
        """The keys and values of the prompts, (M, G, K) each."""
        for held, new in zip(self._room(layer, k, v), (k, v), strict=True):
            held[:, : layout.max_len] = layout.pad(new)

    def open(self) -> Tensor:
        """Begin a step: a place for the next token of every hypothesis; returns its position in each sequence, (B,)."""
        width, begin = self.width, self._used
        if begin + width > self.length:
            self._grow(max(begin // 2, STEPS * width))
        self._table[:, :, begin : begin + width].diagonal(dim1=1, dim2=2).fill_(0.0)
        at = self.lengths
        self.positions[:, begin : begin + width] = at.unsqueeze(1)
        self._used, self._new, self.lengths = begin + width, begin, at + 1
        return at

    def write(self, layer: int, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """Store the new tokens' keys and values (B W, G, K); returns those of all places."""
        for held, new in zip(self._room(layer, k, v), (k, v), strict=True):
            held[: self.num_sequences, self._new : self._used] = new.unflatten(0, (self.num_sequences, -1))
        return self.read(layer)

    def select(self, sequences: Tensor, parents: Tensor) -> None:
        """Go on with these sequences (B',), and in each with hypotheses that continue `parents` (B', W')."""
        self._keep(sequences)
        self.lengths = self.lengths.index_select(0, sequences)
        self.positions = self.positions.index_select(0, sequences)
        self._table = self._table[sequences.unsqueeze(1), parents]

    def _room(self, layer: int, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """The places of a layer, as many as there are now."""
        pair = self._held[layer]
        if pair is None or pair[0].shape[1] < self.length:
            count = self.num_sequences
            larger = tuple(x.new_zeros(count, self.length, *x.shape[1:]) for x in (k, v))
            if pair is not None:
                for old, new in zip(pair, larger, strict=True):
                    new[:, : old.shape[1]] = old[:count]
            self._held[layer] = pair = larger[0], larger[1]
        return pair

    def _grow(self, count: int) -> None:
        """Make room for at least so many tokens more, a multiple of 16 in all: the fused kernel likes that."""
        wanted = -(-(self.length + count) // 16) * 16
        table = self._table.new_full((*self._table.shape[:2], wanted), float("-inf"))
        table[:, :, : self.length] = self._table
        positions = self.positions.new_zeros(self.num_sequences, wanted)
        positions[:, : self.length] = self.positions
        self._table, self.positions, self.length, self._layout = table, positions, wanted, None
