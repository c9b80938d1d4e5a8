"""Slots: keys and values of growing hypotheses, so laid out that beam search never moves one of them.

The hypotheses of a sequence are several queries of that sequence. Each step writes the keys of all of them into free
places of the sequence, and a table says which places belong to which hypothesis: choosing parents changes the table
alone, and a place that belongs to nobody any more is free. So a sequence holds what its hypotheses share once. A
sequence that leaves gives its row to the last one: a row is copied and not the cache. One that joins takes the row
behind the last, for which there is room more often than not.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from clearhead.attention.biases import Written
from clearhead.attention.layout import Layout

ROUND = 16  # places are added by as many: the fused kernel likes multiples of it


class _Rectangles:
    """Keys and values of each layer as (B, G, S, K), the first rows of it, and their first places, in use."""

    def __init__(self, num_layers: int, num_sequences: int) -> None:
        self.num_sequences = num_sequences
        self.length = 0  # S
        self._held: list[tuple[Tensor, Tensor] | None] = [None] * num_layers
        self._layout: Layout | None = None

    @property
    def layout(self) -> Layout:
        """The layout of all places, used or not."""
        if self._layout is None:
            device = next((pair[0].device for pair in self._held if pair is not None), None)
            self._layout = Layout.equal(self.num_sequences, self.length, device)
        return self._layout

    def holds(self, layer: int) -> bool:
        """Has anything been written in this layer?"""
        return self._held[layer] is not None

    def places(self, layer: int) -> tuple[Tensor, Tensor]:
        """Keys and values of all places, (B, G, S, K) each, where they lie."""
        pair = self._held[layer]
        assert pair is not None, f"layer {layer} was read before it was written"
        if (len(pair[0]), pair[0].shape[2]) == (self.num_sequences, self.length):
            return pair
        return pair[0][: self.num_sequences, :, : self.length], pair[1][: self.num_sequences, :, : self.length]

    def read(self, layer: int) -> tuple[Tensor, Tensor]:
        """The same as `layout` says, (B S, G, K) each."""
        k, v = (x.transpose(1, 2).flatten(0, 1) for x in self.places(layer))
        return k, v

    def _keep(self, sequences: np.ndarray) -> None:
        """Bring the rows of these sequences to the front."""
        moved = np.flatnonzero(sequences != np.arange(len(sequences)))
        if len(moved):
            for pair in self._held:
                for x in pair or ():
                    to, source = (torch.from_numpy(i).to(x.device) for i in (moved, sequences[moved]))
                    x.index_copy_(0, to, x.index_select(0, source))
        if len(sequences) != self.num_sequences:
            self.num_sequences, self._layout = len(sequences), None

    def _append(self, other: _Rectangles) -> None:
        """Put the rows of another behind these."""
        count, total = self.num_sequences, self.num_sequences + other.num_sequences
        for layer, mine in enumerate(self._held):
            theirs = other.places(layer) if other.holds(layer) else None
            if (like := theirs or mine) is not None:
                for i, held in enumerate(self._roomy(layer, like, total)):
                    held[count:total] = 0.0  # what is hidden must be finite all the same
                    if theirs is not None:
                        held[count:total, :, : theirs[i].shape[2]] = theirs[i]
        self.num_sequences, self._layout = total, None

    def _roomy(self, layer: int, like: tuple[Tensor, Tensor], rows: int) -> tuple[Tensor, Tensor]:
        """A layer's keys and values with at least so many rows; half as many again where there are not enough."""
        pair = self._held[layer]
        if pair is not None and len(pair[0]) >= rows and pair[0].shape[2] >= self.length:
            return pair
        count = rows + rows // 2 if pair is None or len(pair[0]) < rows else len(pair[0])
        k, v = (x.new_zeros(count, x.shape[1], self.length, x.shape[3]) for x in like)
        if pair is not None:
            for old, new in zip(pair, (k, v), strict=True):
                width = min(old.shape[2], self.length)
                new[: self.num_sequences, :, :width] = old[: self.num_sequences, :, :width]
        self._held[layer] = k, v
        return k, v


class Memory(_Rectangles):
    """A context that every hypothesis of a sequence sees whole: written once, read at each step, never doubled."""

    def __init__(self, num_layers: int, layout: Layout, dtype: torch.dtype) -> None:
        super().__init__(num_layers, layout.num_sequences)
        self._ragged = layout
        self.length = layout.max_len
        beyond = torch.arange(self.length, device=layout.device) >= layout.lengths.unsqueeze(1)  # (B, S)
        self.table = beyond.new_zeros(beyond.shape, dtype=dtype).masked_fill_(beyond, float("-inf"))  # 0 or -inf

    def bias(self, num_heads: int) -> Written:
        """What hides the places that hold nothing."""
        return Written(self.table.view(self.num_sequences, 1, 1, -1), num_heads)

    def write(self, layer: int, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """Store the context's keys and values (M, G, K); returns those of all places."""
        self.put(layer, k, v)
        return self.read(layer)

    def put(self, layer: int, k: Tensor, v: Tensor) -> None:
        """Store them and return nothing."""
        k, v = (self._ragged.pad(x).transpose(1, 2).contiguous() for x in (k, v))
        self._held[layer] = k, v

    def select(self, sequences: np.ndarray) -> None:
        """Keep these sequences, in this order."""
        if len(sequences) != self.num_sequences or bool((sequences != np.arange(len(sequences))).any()):
            self._keep(sequences)
            self.table = self.table.index_select(0, torch.from_numpy(sequences).to(self.table.device))


class Slots(_Rectangles):
    """What each hypothesis has read so far: a prompt that they share, then one token a step."""

    def __init__(self, num_layers: int, num_sequences: int, *, dtype: torch.dtype, device: torch.device | str) -> None:
        super().__init__(num_layers, num_sequences)
        self._dtype, self._device = dtype, torch.device(device)
        self.lengths = np.zeros(num_sequences, dtype=np.int64)  # (B,) tokens of each hypothesis
        self.positions = np.zeros((num_sequences, 0), dtype=np.int64)  # (B, S) of the tokens held
        self.seen = np.zeros((num_sequences, 1, 0), dtype=bool)  # (B, W, S): which places belong to whom
        self._new = np.zeros((num_sequences, 1), dtype=np.int64)  # (B, W): the places of this step's tokens
        self._rows: Tensor | None = None
        self._same: int | None = None  # the place of this step's tokens, if it is the same in every sequence
        self.used: int | None = None  # how many places everybody sees, if all see just the first so many

    @property
    def width(self) -> int:
        """W, the hypotheses of each sequence."""
        return self.seen.shape[1]

    def table(self) -> Tensor:
        """What is added to the scores of each hypothesis, (B, W, S): 0 for its own tokens, -inf for all others."""
        return torch.from_numpy(np.where(self.seen, np.float32(0.0), np.float32("-inf"))).to(self._device, self._dtype)

    def fill(self, layout: Layout) -> None:
        """Make room for prompts of this layout, before anything else; `put` their keys and values in each layer."""
        self._grow(layout.max_len)
        at = np.arange(self.length)
        self.lengths = np.array(layout.sizes, dtype=np.int64)
        self.seen = (at < self.lengths[:, None])[:, None]  # (B, 1, S)
        self.positions[:] = at

    def put(self, layer: int, layout: Layout, k: Tensor, v: Tensor) -> None:
        """The keys and values of the prompts, (M, G, K) each."""
        for held, new in zip(self._room(layer, k, v), (k, v), strict=True):
            held[:, :, : layout.max_len] = layout.pad(new).transpose(1, 2)

    def open(self) -> np.ndarray:
        """Begin a step: a free place for the next token of every hypothesis; returns its position, (B,)."""
        B, W = self.num_sequences, self.width
        free = ~self.seen.any(1)  # (B, S)
        if not self.length or int(free.sum(1).min()) < W:
            self._grow(max(W, self.length // 2))
            free = ~self.seen.any(1)
        self._new = np.nonzero(free & (free.cumsum(1) <= W))[1].reshape(B, W)
        of = np.arange(B)[:, None]
        self.seen[of, np.arange(W), self._new] = True
        at = self.lengths
        self.positions[of, self._new] = at[:, None]
        self.lengths, self._rows = at + 1, None
        place, count = int(self._new[0, 0]), int(self.lengths[0])
        self._same = place if W == 1 and bool((self._new == place).all()) else None
        alike = self._same is not None and bool((self.lengths == count).all() and self.seen[:, 0, :count].all())
        self.used = count if alike else None
        return at

    def write(self, layer: int, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """Store the new tokens' keys and values (B W, G, K); returns those of all places."""
        self.set(layer, k, v)
        return self.read(layer)

    def set(self, layer: int, k: Tensor, v: Tensor) -> None:
        """Store them and return nothing."""
        held = self._room(layer, k, v)
        if self._same is not None:
            for x, new in zip(held, (k, v), strict=True):
                x[: self.num_sequences, :, self._same].copy_(new)
            return
        if self._rows is None:  # of (B G S, K), for each token and head
            B, (G, S) = np.arange(self.num_sequences)[:, None, None], held[0].shape[1:3]
            rows = (B * G + np.arange(G)) * S + self._new[:, :, None]  # (B, W, G)
            self._rows = torch.from_numpy(rows.reshape(-1)).to(self._device)
        for x, new in zip(held, (k, v), strict=True):
            x.view(-1, x.shape[3]).index_copy_(0, self._rows, new.reshape(-1, x.shape[3]))

    def select(self, sequences: np.ndarray, parents: np.ndarray) -> None:
        """Go on with these sequences (B',), and in each with hypotheses that continue `parents` (B', W')."""
        self._keep(sequences)
        self.lengths, self.positions = self.lengths[sequences], self.positions[sequences]
        self.seen = self.seen[sequences[:, None], parents]

    def join(self, other: Slots) -> None:
        """Add the sequences of another behind these; all have one hypothesis."""
        self._trim()
        other._trim()
        self._grow(max(0, other.length - self.length))
        other._grow(max(0, self.length - other.length))
        self._append(other)
        self.lengths = np.concatenate([self.lengths, other.lengths])
        self.positions = np.concatenate([self.positions, other.positions])
        self.seen = np.concatenate([self.seen, other.seen])

    def _trim(self) -> None:
        """Leave the places behind the longest sequence, which nobody sees since a longer one has left."""
        used = int(np.flatnonzero(self.seen.any((0, 1))).max(initial=-1)) + 1
        length = -(-used // ROUND) * ROUND
        if length < self.length:
            self.length, self._layout = length, None
            self.seen, self.positions = self.seen[:, :, :length], self.positions[:, :length]

    def _room(self, layer: int, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """The places of a layer, as many as there are now."""
        pair = self._held[layer]
        if pair is None or pair[0].shape[2] < self.length:
            count = self.num_sequences
            larger = tuple(x.new_zeros(count, x.shape[1], self.length, x.shape[2]) for x in (k, v))
            if pair is not None:
                for old, new in zip(pair, larger, strict=True):
                    new[:, :, : old.shape[2]] = old[:count]
            self._held[layer] = pair = larger[0], larger[1]
        return pair

    def _grow(self, count: int) -> None:
        """Add at least so many places."""
        more = -(-(self.length + count) // ROUND) * ROUND - self.length
        self.seen = np.concatenate([self.seen, np.zeros((*self.seen.shape[:2], more), dtype=bool)], axis=2)
        self.positions = np.concatenate([self.positions, np.zeros((self.num_sequences, more), dtype=np.int64)], axis=1)
        self.length, self._layout = self.length + more, None
