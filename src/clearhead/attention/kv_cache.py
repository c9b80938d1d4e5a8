"""KV cache: keys and values of the tokens read so far, for prefill, beam search and continuous batching alike.

The hypotheses of a sequence are several queries of that sequence. Each step writes their new keys into free slots of
the sequence, and a table records which slots each hypothesis sees: choosing parents changes only the table, and a slot
that no hypothesis sees is free again. So a sequence stores what its hypotheses share once. When a sequence leaves, the
last one takes its row: one row is copied, not the cache. A sequence that joins takes the row after the last.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from clearhead.attention.biases import DenseBias
from clearhead.attention.layout import Layout

SLOT_MULTIPLE = 16  # slots are allocated in multiples: the fused kernel is faster on them


class KeyValueStore(Protocol):
    """Where an attention keeps keys and values between calls."""

    @property
    def layout(self) -> Layout:
        """The layout of all that is stored, as `read` returns it."""
        ...

    def holds(self, layer: int) -> bool:
        """True if this layer has been written."""
        ...

    def read(self, layer: int) -> tuple[Tensor, Tensor]:
        """All keys and values, (M, G, K) each."""
        ...

    def write(self, layer: int, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """Store new keys and values; returns all."""
        ...


class _CacheBuffers:
    """Keys and values of each layer as (B, G, S, K) buffers, of which the first rows and slots are in use."""

    def __init__(self, num_layers: int, num_sequences: int) -> None:
        self.num_sequences = num_sequences
        self.length = 0  # S
        self._buffers: list[tuple[Tensor, Tensor] | None] = [None] * num_layers
        self._layout: Layout | None = None

    @property
    def layout(self) -> Layout:
        if self._layout is None:
            device = next((pair[0].device for pair in self._buffers if pair is not None), None)
            self._layout = Layout.uniform(self.num_sequences, self.length, device)
        return self._layout

    def holds(self, layer: int) -> bool:
        return self._buffers[layer] is not None

    def buffers(self, layer: int) -> tuple[Tensor, Tensor]:
        """Keys and values of all slots, (B, G, S, K) each, without a copy."""
        pair = self._buffers[layer]
        assert pair is not None, f"layer {layer} is read before it is written"
        if (len(pair[0]), pair[0].shape[2]) == (self.num_sequences, self.length):
            return pair
        return pair[0][: self.num_sequences, :, : self.length], pair[1][: self.num_sequences, :, : self.length]

    def read(self, layer: int) -> tuple[Tensor, Tensor]:
        """All slots as one token matrix, (B S, G, K) each."""
        k, v = (x.transpose(1, 2).flatten(0, 1) for x in self.buffers(layer))
        return k, v

    def _move_rows(self, sequences: np.ndarray) -> None:
        """Move the rows of these sequences to the front, in this order."""
        changed = np.flatnonzero(sequences != np.arange(len(sequences)))
        if len(changed):
            for pair in self._buffers:
                for x in pair or ():
                    to, source = (torch.from_numpy(i).to(x.device) for i in (changed, sequences[changed]))
                    x.index_copy_(0, to, x.index_select(0, source))
        if len(sequences) != self.num_sequences:
            self.num_sequences, self._layout = len(sequences), None

    def _append_rows(self, other: _CacheBuffers) -> None:
        count, total = self.num_sequences, self.num_sequences + other.num_sequences
        for layer, own in enumerate(self._buffers):
            new = other.buffers(layer) if other.holds(layer) else None
            if (like := new or own) is not None:
                for i, buffer in enumerate(self._with_rows(layer, like, total)):
                    buffer[count:total] = 0.0  # masked slots must be finite
                    if new is not None:
                        buffer[count:total, :, : new[i].shape[2]] = new[i]
        self.num_sequences, self._layout = total, None

    def _with_rows(self, layer: int, like: tuple[Tensor, Tensor], rows: int) -> tuple[Tensor, Tensor]:
        """The buffers of a layer with at least `rows` rows; they grow by half more than needed."""
        pair = self._buffers[layer]
        if pair is not None and len(pair[0]) >= rows and pair[0].shape[2] >= self.length:
            return pair
        count = rows + rows // 2 if pair is None or len(pair[0]) < rows else len(pair[0])
        k, v = (x.new_zeros(count, x.shape[1], self.length, x.shape[3]) for x in like)
        if pair is not None:
            for old, new in zip(pair, (k, v), strict=True):
                width = min(old.shape[2], self.length)
                new[: self.num_sequences, :, :width] = old[: self.num_sequences, :, :width]
        self._buffers[layer] = k, v
        return k, v


class CrossAttentionCache(_CacheBuffers):
    """Keys and values of a context that every hypothesis of a sequence reads: written once, never duplicated."""

    def __init__(self, num_layers: int, layout: Layout, dtype: torch.dtype) -> None:
        super().__init__(num_layers, layout.num_sequences)
        self._context_layout = layout
        self.length = layout.max_len
        padding = torch.arange(self.length, device=layout.device) >= layout.lengths.unsqueeze(1)  # (B, S)
        self.table = padding.new_zeros(padding.shape, dtype=dtype).masked_fill_(padding, float("-inf"))  # 0 or -inf

    def bias(self, num_heads: int) -> DenseBias:
        """The additive mask of the padding."""
        return DenseBias(self.table.view(self.num_sequences, 1, 1, -1), num_heads)

    def write(self, layer: int, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """Store the keys and values of the context (M, G, K); returns those of all slots."""
        self.put(layer, k, v)
        return self.read(layer)

    def put(self, layer: int, k: Tensor, v: Tensor) -> None:
        """Store the keys and values of the context (M, G, K)."""
        k, v = (self._context_layout.pad(x).transpose(1, 2).contiguous() for x in (k, v))
        self._buffers[layer] = k, v

    def select(self, sequences: np.ndarray) -> None:
        if len(sequences) != self.num_sequences or bool((sequences != np.arange(len(sequences))).any()):
            self._move_rows(sequences)
            self.table = self.table.index_select(0, torch.from_numpy(sequences).to(self.table.device))


class KVCache(_CacheBuffers):
    """Keys and values of a changing set of sequences with W hypotheses each.

    `extend` appends any number of tokens to each sequence (prompts, chunks), `begin_step` one token to each hypothesis;
    then each layer is written. After `extend`, `read` and `layout` are ragged; after `begin_step` they cover all slots,
    and `table` is the additive mask of what each hypothesis sees.
    """

    def __init__(
        self,
        num_layers: int,
        num_sequences: int,
        *,
        dtype: torch.dtype = torch.float32,
        device: torch.device | str = "cpu",
    ) -> None:
        super().__init__(num_layers, num_sequences)
        self._dtype, self._device = dtype, torch.device(device)
        self.lengths = np.zeros(num_sequences, dtype=np.int64)  # (B,) tokens of each hypothesis
        self.positions = np.zeros((num_sequences, 0), dtype=np.int64)  # (B, S) of the stored tokens
        self.visible = np.zeros((num_sequences, 1, 0), dtype=bool)  # (B, W, S): the slots that each hypothesis sees
        self.used: int | None = None  # the number of leading slots that all see, if all see exactly those
        self._chunk: Layout | None = None  # the tokens of the last `extend`; None in a step
        self._new = np.zeros((num_sequences, 1), dtype=np.int64)  # (B, W): the slots of this step's tokens
        self._rows: Tensor | None = None
        self._same: int | None = None  # the slot of this step's tokens, if it is equal in every sequence

    @property
    def width(self) -> int:
        """W, the hypotheses of each sequence."""
        return self.visible.shape[1]

    @property
    def layout(self) -> Layout:
        """The layout of all stored tokens after `extend`, of all slots in a step."""
        if self._layout is None and self._chunk is not None:
            self._layout = Layout.from_lengths(self.lengths.tolist(), device=self._device)
        return super().layout

    def table(self) -> Tensor:
        """The additive mask of each hypothesis, (B, W, S): 0 for its own tokens, -inf for all other slots."""
        mask = np.where(self.visible, np.float32(0.0), np.float32("-inf"))
        return torch.from_numpy(mask).to(self._device, self._dtype)

    def extend(self, new: Layout) -> Layout:
        """Allocate slots for new tokens of each sequence; returns their layout at the positions after the stored ones.

        Each sequence must have one hypothesis.
        """
        if new.num_sequences != self.num_sequences:
            raise ValueError(f"{new.num_sequences} sequences to append, but the cache has {self.num_sequences}")
        slots = np.arange(self.length)
        if self.width > 1 or not (self.visible[:, 0] == (slots < self.lengths[:, None])).all():
            raise ValueError("extend appends to sequences of one hypothesis: select one parent per sequence first")
        self._chunk = Layout.from_lengths(new.host_lengths, self.lengths.tolist(), device=self._device)
        self.lengths = self.lengths + np.array(new.host_lengths, dtype=np.int64)
        if (needed := int(self.lengths.max(initial=0)) - self.length) > 0:
            self._grow(needed)
        slots = np.arange(self.length)
        self.visible = (slots < self.lengths[:, None])[:, None]  # (B, 1, S)
        self.positions[:] = slots
        self._layout = None
        return self._chunk

    def begin_step(self) -> np.ndarray:
        """Allocate a slot for the next token of every hypothesis; returns its position, (B,)."""
        B, W = self.num_sequences, self.width
        free = ~self.visible.any(1)  # (B, S)
        if not self.length or int(free.sum(1).min()) < W:
            self._grow(max(W, self.length // 2))
            free = ~self.visible.any(1)
        self._new = np.nonzero(free & (free.cumsum(1) <= W))[1].reshape(B, W)
        row = np.arange(B)[:, None]
        self.visible[row, np.arange(W), self._new] = True
        position = self.lengths
        self.positions[row, self._new] = position[:, None]
        self.lengths, self._rows = position + 1, None
        slot, count = int(self._new[0, 0]), int(self.lengths[0])
        self._same = slot if W == 1 and bool((self._new == slot).all()) else None
        equal = self._same is not None and bool((self.lengths == count).all() and self.visible[:, 0, :count].all())
        self.used = count if equal else None
        if self._chunk is not None:
            self._chunk = self._layout = None
        return position

    def write(self, layer: int, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """Store the keys and values (n, G, K) of the new tokens; returns those of all tokens, as `layout` says."""
        if self._chunk is None:
            self.put(layer, k, v)
            return self.read(layer)
        if len(k) != self._chunk.num_tokens:
            raise ValueError(f"{len(k)} tokens written, but the cache was extended by {self._chunk.num_tokens}")
        for buffer, new in zip(self._slots(layer, k, v), (k, v), strict=True):
            buffer[self._chunk.sequence_ids, :, self._chunk.positions] = new.detach()
        is_prompt = self._chunk.num_tokens == self.layout.num_tokens
        return (k, v) if is_prompt else self.read(layer)

    def read(self, layer: int) -> tuple[Tensor, Tensor]:
        """Keys and values as `layout` says, (M, G, K) each."""
        if self._chunk is None:
            return super().read(layer)
        k, v = (x[self.layout.sequence_ids, :, self.layout.positions] for x in self.buffers(layer))
        return k, v

    def put(self, layer: int, k: Tensor, v: Tensor) -> None:
        """Store the keys and values (B W, G, K) of this step's tokens."""
        buffers = self._slots(layer, k, v)
        if self._same is not None:
            for x, new in zip(buffers, (k, v), strict=True):
                x[: self.num_sequences, :, self._same].copy_(new)
            return
        if self._rows is None:  # of (B G S, K), for each token and head
            B, (G, S) = np.arange(self.num_sequences)[:, None, None], buffers[0].shape[1:3]
            rows = (B * G + np.arange(G)) * S + self._new[:, :, None]  # (B, W, G)
            self._rows = torch.from_numpy(rows.reshape(-1)).to(self._device)
        for x, new in zip(buffers, (k, v), strict=True):
            x.view(-1, x.shape[3]).index_copy_(0, self._rows, new.reshape(-1, x.shape[3]))

    def select(self, sequences: np.ndarray, parents: np.ndarray) -> None:
        """Continue with these sequences (B',), and in each with hypotheses that extend `parents` (B', W')."""
        self._move_rows(sequences)
        self.lengths, self.positions = self.lengths[sequences], self.positions[sequences]
        self.visible = self.visible[sequences[:, None], parents]
        if self._chunk is not None:
            self._layout = None

    def join(self, other: KVCache) -> None:
        """Append the sequences of another cache; all have one hypothesis."""
        self._trim()
        other._trim()
        self._grow(max(0, other.length - self.length))
        other._grow(max(0, self.length - other.length))
        self._append_rows(other)
        self.lengths = np.concatenate([self.lengths, other.lengths])
        self.positions = np.concatenate([self.positions, other.positions])
        self.visible = np.concatenate([self.visible, other.visible])

    def _trim(self) -> None:
        """Drop the slots after the longest sequence, unused since a longer one left."""
        used = int(np.flatnonzero(self.visible.any((0, 1))).max(initial=-1)) + 1
        length = -(-used // SLOT_MULTIPLE) * SLOT_MULTIPLE
        if length < self.length:
            self.length, self._layout = length, None
            self.visible, self.positions = self.visible[:, :, :length], self.positions[:, :length]

    def _slots(self, layer: int, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """The buffers of a layer with the current number of slots."""
        pair = self._buffers[layer]
        if pair is None or pair[0].shape[2] < self.length:
            count = self.num_sequences
            larger = tuple(x.new_zeros(count, x.shape[1], self.length, x.shape[2]) for x in (k, v))
            if pair is not None:
                for old, new in zip(pair, larger, strict=True):
                    new[:, :, : old.shape[2]] = old[:count]
            self._buffers[layer] = pair = larger[0], larger[1]
        return pair

    def _grow(self, count: int) -> None:
        more = -(-(self.length + count) // SLOT_MULTIPLE) * SLOT_MULTIPLE - self.length
        self.visible = np.concatenate([self.visible, np.zeros((*self.visible.shape[:2], more), dtype=bool)], axis=2)
        new = np.zeros((self.num_sequences, more), dtype=np.int64)
        self.positions = np.concatenate([self.positions, new], axis=1)
        self.length, self._layout = self.length + more, None
