"""Decoder state: the cached keys and values, or recurrent states, of all hypotheses.

A search does not depend on the model. It asks a state for the scores of the next token, and selects the hypotheses that
continue: some sequences, and in each of them hypotheses with these `parents`. All sequences have equally many.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Protocol, Self

import numpy as np
import torch
from torch import Tensor

from clearhead.attention import Causal, Layout, MultiHead
from clearhead.attention.biases import DenseBias
from clearhead.attention.kv_cache import CrossAttentionCache, KVCache
from clearhead.decode.fused_decoder import FusedDecoder, unsupported_reason
from clearhead.layers import Block, BlockContext
from clearhead.models.heads import LMHead
from clearhead.models.model import Model
from clearhead.models.recurrent import RecurrentDecoder
from clearhead.models.transformer import TransformerStack

CANNOT_JOIN = "sequences of an encoder-decoder start together: only a language model supports continuous batching"


class DecoderState(Protocol):
    """B sequences of W hypotheses each: rows 0 to W - 1 belong to the first sequence. W is 1 at first."""

    def step(self, ids: Tensor) -> Tensor:
        """Read one token of every hypothesis (B W,), and return the scores of the next, (B W, V)."""
        ...

    def select(self, sequences: np.ndarray, parents: np.ndarray) -> None:
        """Keep these sequences (B',), and in each the hypotheses that continue `parents` (B', W')."""
        ...

    def prefill(self, ids: Tensor, layout: Layout) -> Self:
        """Return `initial_state` for these, reusing the packed weights."""
        ...

    def join(self, other: Self) -> None:
        """Append the sequences of another state of the same language model; all have one hypothesis."""
        ...


def initial_state(model: Model, ids: Tensor, layout: Layout) -> DecoderState:
    """Return the state of a decoder before the first token.

    For an encoder-decoder, ids (N,) are the source. For a language model they are the prompts without their last token,
    which the first step reads.
    """
    if not isinstance(model.head, LMHead) or model.decoder is None:
        kind = "no decoder" if model.decoder is None else "no language-model head"
        raise ValueError(f"this model cannot generate text: it has {kind}; load a language or translation model")
    if model.training:
        raise ValueError("the model is in training mode, where dropout changes its output: call `model.eval()`")
    if isinstance(model.decoder, RecurrentDecoder):
        return RecurrentState(model, model.decoder, model.head, ids, layout)
    return TransformerState(model, model.decoder, model.head, ids, layout)


def compact(ready: np.ndarray) -> np.ndarray:
    """Return the places to keep: a finished one is filled by the last, so that few rows move."""
    alive = np.flatnonzero(~ready)
    count = len(alive)
    places = np.arange(count)
    places[ready[:count]] = alive[alive >= count]
    return places


class TransformerState:
    """Keys and values of all tokens read; selecting parents does not move them."""

    def __init__(
        self,
        model: Model,
        decoder: TransformerStack,
        head: LMHead,
        ids: Tensor,
        layout: Layout,
        fused: FusedDecoder | None = None,
    ) -> None:
        if not isinstance(decoder.mask, Causal):
            raise ValueError(f"the decoder's mask is {decoder.mask}: generation requires a causal mask")
        self._model, self._decoder, self._head = model, decoder, head
        first = next(iter(decoder.parameters()))
        layers = len(decoder.blocks)
        self._slots = KVCache(layers, layout.num_sequences, dtype=first.dtype, device=first.device)
        self._fused: FusedDecoder | None = None
        if unsupported_reason(decoder, head, first.dtype, first.device) is None:
            self._fused = FusedDecoder(decoder, head, max(layout.num_sequences, 16)) if fused is None else fused
        self._context: tuple[Tensor, Layout, CrossAttentionCache] | None = None
        if model.encoder is not None:
            memory = model.encode(ids, layout)
            self._context = memory, layout, CrossAttentionCache(layers, layout, memory.dtype)
        elif layout.num_tokens:
            self._read(ids, layout)

    def step(self, ids: Tensor) -> Tensor:
        stack, slots = self._decoder, self._slots
        places = torch.from_numpy(np.repeat(slots.begin_step(), slots.width)).to(ids.device)  # (B W,)
        tokens = _tokens(places)
        if stack.rotary is not None:
            stack.rotary.check(tokens)
        x = stack.embedding(ids, tokens)
        return self._step_modules(x, places) if self._fused is None else self._step_fused(self._fused, x, places)

    def select(self, sequences: np.ndarray, parents: np.ndarray) -> None:
        self._slots.select(sequences, parents)
        if self._context is not None:
            self._context[2].select(sequences)

    def prefill(self, ids: Tensor, layout: Layout) -> TransformerState:
        return TransformerState(self._model, self._decoder, self._head, ids, layout, self._fused)

    def join(self, other: TransformerState) -> None:
        if self._context is not None:
            raise ValueError(CANNOT_JOIN)
        self._slots.join(other._slots)

    def _step_modules(self, x: Tensor, places: Tensor) -> Tensor:
        stack, slots = self._decoder, self._slots
        context = BlockContext(
            Layout.uniform(slots.num_sequences, slots.width, x.device),
            rotate=None if stack.rotary is None else stack.rotary(places),
            bias=DenseBias(self._table(), self._num_heads),
            cache=slots,
        )
        if self._context is not None:
            memory, layout, cached = self._context
            bias = cached.bias(self._num_heads)
            context = replace(context, memory=memory, memory_layout=layout, memory_cache=cached, memory_bias=bias)
            self._context = memory[:0], layout, cached  # each layer caches its keys and values at the first step
        near = context
        if stack.local is not None:
            rotate = context.rotate if stack.local.rotary is None else stack.local.rotary(places)
            near = replace(context, bias=DenseBias(self._near(self._table()), self._num_heads), rotate=rotate)
        return self._head(stack.run(x, context, near), context.layout)

    def _step_fused(self, fused: FusedDecoder, x: Tensor, places: Tensor) -> Tensor:
        """Run the fused decoder, with the same result in fewer operations."""
        stack, slots = self._decoder, self._slots
        first = fused.layers[0]
        rotate = local_rotate = None if stack.rotary is None else stack.rotary(places)
        plain = slots.used is not None and stack.bias is None and stack.local is None
        table = near = None if plain else first.attention.spread(self._table())
        if stack.local is not None:
            near = first.attention.spread(self._near(self._table()))
            local_rotate = rotate if stack.local.rotary is None else stack.local.rotary(places)
        context = None
        if self._context is not None and first.cross is not None:
            memory, layout, cached = self._context
            if len(memory):
                for number, layer in enumerate(fused.layers):
                    assert layer.cross is not None
                    layer.cross.cache_context(number, memory, cached)
                self._context = memory[:0], layout, cached
            context = cached, first.cross.spread(cached.table.view(slots.num_sequences, 1, 1, -1), slots.width)
        rows, x = len(x), fused.pad(x)
        for number, layer in enumerate(fused.layers):
            local = stack.local is not None and number in stack.local.layers
            x = layer.step(x, number, slots, near if local else table, local_rotate if local else rotate, context)
        return fused.logits(x)[:rows]

    def _read(self, ids: Tensor, layout: Layout) -> None:
        self._decoder(ids, self._slots.extend(layout), cache=self._slots)

    @property
    def _first(self) -> MultiHead:
        block = self._decoder.blocks[0]
        assert isinstance(block, Block)
        return block.attention

    @property
    def _num_heads(self) -> int:
        return self._first.query.out_features // self._first.head_dim

    def _table(self) -> Tensor:
        """Return the attention bias of each hypothesis: -inf for keys of others, plus the stack's bias."""
        table = self._slots.table().unsqueeze(1)  # (B, 1, W, S)
        if self._decoder.bias is None:
            return table
        return table + self._decoder.bias()(*self._positions()).to(table.dtype)  # (B, H, W, S)

    def _near(self, table: Tensor) -> Tensor:
        assert self._decoder.local is not None
        far = ~self._decoder.local.mask.allows(*self._positions()).unsqueeze(1)  # (B, 1, 1, S)
        return table.masked_fill(far, float("-inf"))

    def _positions(self) -> tuple[Tensor, Tensor, Tensor]:
        """Return the positions of sequences (B, 1, 1), of this step's queries (B, 1, 1) and of the keys (B, 1, S)."""
        slots, device = self._slots, next(iter(self._decoder.parameters())).device
        query = torch.from_numpy(slots.lengths - 1).to(device).view(-1, 1, 1)
        return torch.zeros_like(query), query, torch.from_numpy(slots.positions).to(device).unsqueeze(1)


class RecurrentState:
    """The states of recurrent layers, a row for each hypothesis."""

    def __init__(self, model: Model, decoder: RecurrentDecoder, head: LMHead, ids: Tensor, layout: Layout) -> None:
        self._model, self._decoder, self._head = model, decoder, head
        self._memory: Tensor | None = None
        self._memory_layout: Layout | None = None
        if model.encoder is not None:
            memory = decoder.cache_keys(model.encode(ids, layout))
            self._memory, self._memory_layout = memory, layout
            self._states = decoder.begin(memory, layout)  # (B, ...) each
        else:
            self._states = decoder.begin_empty(layout.num_sequences)
            self._read(ids, layout)
        self._rows = Layout.uniform(layout.num_sequences, 1, ids.device)

    def step(self, ids: Tensor) -> Tensor:
        x, self._states = self._decoder.step(ids, self._states, self._memory, self._memory_layout, self._rows)
        return self._head(x, self._rows)

    def select(self, sequences: np.ndarray, parents: np.ndarray) -> None:
        (count, width), had, device = parents.shape, self._rows.length or 1, self._states[0].device
        rows = torch.from_numpy((sequences[:, None] * had + parents).reshape(-1)).to(device)  # (B' W',)
        self._states = tuple(s.index_select(0, rows) for s in self._states)
        chosen = sequences.tolist()
        moved = chosen != list(range(self._rows.num_sequences))
        if moved and self._memory is not None and self._memory_layout is not None:
            self._memory = self._memory.index_select(0, self._memory_layout.row_indices(chosen))
            self._memory_layout = self._memory_layout.select(chosen)
        self._rows = Layout.uniform(count, width, device)

    def prefill(self, ids: Tensor, layout: Layout) -> RecurrentState:
        return RecurrentState(self._model, self._decoder, self._head, ids, layout)

    def join(self, other: RecurrentState) -> None:
        if self._memory is not None:
            raise ValueError(CANNOT_JOIN)
        self._states = tuple(torch.cat(pair) for pair in zip(self._states, other._states, strict=True))
        self._rows = Layout.uniform(len(self._states[0]), 1, self._states[0].device)

    def _read(self, ids: Tensor, layout: Layout) -> None:
        for at in range(layout.max_len):
            rows = (layout.lengths > at).nonzero().flatten()
            some = tuple(s.index_select(0, rows) for s in self._states)
            tokens = ids[layout.offsets[:-1].index_select(0, rows) + at]
            _, new = self._decoder.step(tokens, some, None, None, Layout.uniform(len(rows), 1, ids.device))
            self._states = tuple(s.index_copy(0, rows, n) for s, n in zip(self._states, new, strict=True))


def _tokens(places: Tensor) -> Layout:
    """Return the layout of single tokens at these positions."""
    count = len(places)
    rows = torch.arange(count + 1, device=places.device)
    layout = Layout(rows, places, places, rows[:-1], 1)
    layout.__dict__["host_lengths"] = (1,) * count
    return layout
