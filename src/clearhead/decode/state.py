"""State: what a decoder remembers while it writes, one token of every hypothesis at a time.

A search knows nothing of models. It asks a state for the scores of the next token, and says which hypotheses go on:
some sequences, and in each of them the hypotheses that continue `parents`. All sequences have equally many.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Protocol, Self

import numpy as np
import torch
from torch import Tensor

from clearhead.attention import Cache, CacheConfig, Causal, Layout, MultiHead
from clearhead.attention.biases import Written
from clearhead.attention.slots import Memory, Slots
from clearhead.decode.quick import Quick, refuse
from clearhead.layers import Around, Block
from clearhead.models.heads import Vocabulary
from clearhead.models.model import Model
from clearhead.models.recurrent import RecurrentDecoder
from clearhead.models.rounding import widened
from clearhead.models.transformer import Stack

APART = "translations begin together: only what a language model writes can be joined by more"


class State(Protocol):
    """B sequences of W hypotheses each: rows 0 to W - 1 are the first sequence's. It begins with W = 1."""

    def step(self, ids: Tensor) -> Tensor:
        """Read one token of every hypothesis (B W,); returns the scores of the next, (B W, V)."""
        ...

    def select(self, sequences: np.ndarray, parents: np.ndarray) -> None:
        """Go on with these sequences (B',), and in each with hypotheses that continue `parents` (B', W')."""
        ...

    def another(self, ids: Tensor, layout: Layout) -> Self:
        """What `start` gives for these, with what was made of the model's weights already."""
        ...

    def join(self, other: Self) -> None:
        """Add the sequences of another state of this language model behind these; all have one hypothesis."""
        ...


def start(model: Model, ids: Tensor, layout: Layout) -> State:
    """The state of a decoder before it writes.

    Of an encoder-decoder, ids (N,) are the source. Of a language model they are the prompts without their last token,
    which is what the first step reads.
    """
    if not isinstance(model.head, Vocabulary) or model.decoder is None:
        kind = "no decoder" if model.decoder is None else "no head that scores words"
        raise ValueError(f"this model cannot write: it has {kind}; load a language model or a translator")
    if model.training:
        raise ValueError("the model is in training mode, where dropout falsifies what it writes: call `model.eval()`")
    if isinstance(model.decoder, RecurrentDecoder):
        return RecurrentState(model, model.decoder, model.head, ids, layout)
    return TransformerState(model, model.decoder, model.head, ids, layout)


def stay(ready: np.ndarray) -> np.ndarray:
    """The places that go on: each that falls empty is taken by the last, so that few move."""
    alive = np.flatnonzero(~ready)
    count = len(alive)
    places = np.arange(count)
    places[ready[:count]] = alive[alive >= count]
    return places


class TransformerState:
    """Keys and values of all that was read, in places that no choice of parents moves."""

    def __init__(
        self, model: Model, decoder: Stack, head: Vocabulary, ids: Tensor, layout: Layout, quick: Quick | None = None
    ) -> None:
        if not isinstance(decoder.mask, Causal):
            raise ValueError(f"a decoder writes from left to right, but this one's mask is {decoder.mask}")
        self._model, self._decoder, self._head = model, decoder, head
        first = next(iter(decoder.parameters()))
        layers = len(decoder.blocks)
        self._slots = Slots(layers, layout.num_sequences, dtype=first.dtype, device=first.device)
        self._quick: Quick | None = None
        if refuse(decoder, head, first.dtype, first.device) is None:
            self._quick = Quick(decoder, head, max(layout.num_sequences, 16)) if quick is None else quick
        self._context: tuple[Tensor, Layout, Memory] | None = None
        if model.encoder is not None:
            memory = model.encoder(ids, layout)
            self._context = memory, layout, Memory(layers, layout, memory.dtype)
        elif layout.num_tokens:
            self._read(ids, layout)

    def step(self, ids: Tensor) -> Tensor:
        stack, slots = self._decoder, self._slots
        places = torch.from_numpy(np.repeat(slots.open(), slots.width)).to(ids.device)  # (B W,)
        tokens = _tokens(places)
        if stack.rotary is not None:
            stack.rotary.check(tokens)
        x = stack.embedding(ids, tokens)
        return self._by_modules(x, places) if self._quick is None else self._by_quick(self._quick, x, places)

    def select(self, sequences: np.ndarray, parents: np.ndarray) -> None:
        self._slots.select(sequences, parents)
        if self._context is not None:
            self._context[2].select(sequences)

    def another(self, ids: Tensor, layout: Layout) -> TransformerState:
        return TransformerState(self._model, self._decoder, self._head, ids, layout, self._quick)

    def join(self, other: TransformerState) -> None:
        if self._context is not None:
            raise ValueError(APART)
        self._slots.join(other._slots)

    def _by_modules(self, x: Tensor, places: Tensor) -> Tensor:
        """The decoder's own blocks, as in any other call."""
        stack, slots = self._decoder, self._slots
        around = Around(
            Layout.equal(slots.num_sequences, slots.width, x.device),
            rotate=None if stack.rotary is None else stack.rotary(places),
            bias=Written(self._table(), self._num_heads),
            cache=slots,
        )
        if self._context is not None:
            memory, layout, held = self._context
            around = replace(
                around, memory=memory, memory_layout=layout, memory_cache=held, memory_bias=held.bias(self._num_heads)
            )
            self._context = memory[:0], layout, held  # each layer makes its keys and values of it at the first step
        near = around
        if stack.local is not None:
            rotate = around.rotate if stack.local.rotary is None else stack.local.rotary(places)
            near = replace(around, bias=Written(self._near(self._table()), self._num_heads), rotate=rotate)
        return self._head(stack.run(x, around, near), around.layout)

    def _by_quick(self, quick: Quick, x: Tensor, places: Tensor) -> Tensor:
        """The same in fewer operations."""
        stack, slots = self._decoder, self._slots
        first = quick.layers[0]
        rotate = turn = None if stack.rotary is None else stack.rotary(places)
        plain = slots.used is not None and stack.bias is None and stack.local is None
        table = near = None if plain else first.attention.spread(self._table())
        if stack.local is not None:
            near = first.attention.spread(self._near(self._table()))
            turn = rotate if stack.local.rotary is None else stack.local.rotary(places)
        context = None
        if self._context is not None and first.cross is not None:
            memory, layout, held = self._context
            if len(memory):
                for number, layer in enumerate(quick.layers):
                    assert layer.cross is not None
                    layer.cross.remember(number, memory, held)
                self._context = memory[:0], layout, held
            context = held, first.cross.spread(held.table.view(slots.num_sequences, 1, 1, -1), slots.width)
        rows, x = len(x), widened(x)
        for number, layer in enumerate(quick.layers):
            local = stack.local is not None and number in stack.local.layers
            x = layer.step(x, number, slots, near if local else table, turn if local else rotate, context)
        return quick.logits(x)[:rows]

    def _read(self, ids: Tensor, layout: Layout) -> None:
        """Take in the prompts, all tokens at once."""
        attention = self._first
        heads = attention.key.out_features // attention.head_dim
        config = CacheConfig(len(self._decoder.blocks), heads, attention.head_dim)
        dtype = next(iter(self._decoder.parameters())).dtype
        cache = Cache(config, layout.num_sequences, dtype=dtype, device=ids.device)
        self._decoder(ids, cache.extend(layout), cache=cache)
        self._slots.fill(layout)
        for layer in range(len(self._decoder.blocks)):
            self._slots.put(layer, layout, *cache.read(layer))

    @property
    def _first(self) -> MultiHead:
        block = self._decoder.blocks[0]
        assert isinstance(block, Block)
        return block.attention

    @property
    def _num_heads(self) -> int:
        return self._first.query.out_features // self._first.head_dim

    def _table(self) -> Tensor:
        """What is added to the scores of each hypothesis: -inf for what is not its own, and the stack's bias."""
        table = self._slots.table().unsqueeze(1)  # (B, 1, W, S)
        if self._decoder.bias is None:
            return table
        return table + self._decoder.bias()(*self._positions()).to(table.dtype)  # (B, H, W, S)

    def _near(self, table: Tensor) -> Tensor:
        """The same for local layers, which do not see far tokens."""
        assert self._decoder.local is not None
        far = ~self._decoder.local.mask.allows(*self._positions()).unsqueeze(1)  # (B, 1, 1, S)
        return table.masked_fill(far, float("-inf"))

    def _positions(self) -> tuple[Tensor, Tensor, Tensor]:
        """Of sequences (B, 1, 1), of this step's queries (B, 1, 1) and of the keys (B, 1, S)."""
        slots, device = self._slots, next(iter(self._decoder.parameters())).device
        query = torch.from_numpy(slots.lengths - 1).to(device).view(-1, 1, 1)
        return torch.zeros_like(query), query, torch.from_numpy(slots.positions).to(device).unsqueeze(1)


class RecurrentState:
    """The states of recurrent layers after all that was read, a row for each hypothesis."""

    def __init__(self, model: Model, decoder: RecurrentDecoder, head: Vocabulary, ids: Tensor, layout: Layout) -> None:
        self._model, self._decoder, self._head = model, decoder, head
        self._memory: Tensor | None = None
        self._memory_layout: Layout | None = None
        if model.encoder is not None:
            memory = decoder.remember(model.encoder(ids, layout))
            self._memory, self._memory_layout = memory, layout
            self._states = decoder.begin(memory, layout)  # (B, ...) each
        else:
            self._states = decoder.begin_empty(layout.num_sequences)
            self._read(ids, layout)
        self._rows = Layout.equal(layout.num_sequences, 1, ids.device)

    def step(self, ids: Tensor) -> Tensor:
        x, self._states = self._decoder.step(ids, self._states, self._memory, self._memory_layout, self._rows)
        return self._head(x, self._rows)

    def select(self, sequences: np.ndarray, parents: np.ndarray) -> None:
        (count, width), had, device = parents.shape, self._rows.length or 1, self._states[0].device
        rows = torch.from_numpy((sequences[:, None] * had + parents).reshape(-1)).to(device)  # (B' W',)
        self._states = tuple(s.index_select(0, rows) for s in self._states)
        kept = sequences.tolist()
        moved = kept != list(range(self._rows.num_sequences))
        if moved and self._memory is not None and self._memory_layout is not None:
            self._memory = self._memory.index_select(0, self._memory_layout.tokens(kept))
            self._memory_layout = self._memory_layout.select(kept)
        self._rows = Layout.equal(count, width, device)

    def another(self, ids: Tensor, layout: Layout) -> RecurrentState:
        return RecurrentState(self._model, self._decoder, self._head, ids, layout)

    def join(self, other: RecurrentState) -> None:
        if self._memory is not None:
            raise ValueError(APART)
        self._states = tuple(torch.cat(pair) for pair in zip(self._states, other._states, strict=True))
        self._rows = Layout.equal(len(self._states[0]), 1, self._states[0].device)

    def _read(self, ids: Tensor, layout: Layout) -> None:
        """Take in the prompts, a token of each at a time."""
        for at in range(layout.max_len):
            rows = (layout.lengths > at).nonzero().flatten()
            some = tuple(s.index_select(0, rows) for s in self._states)
            tokens = ids[layout.offsets[:-1].index_select(0, rows) + at]
            _, new = self._decoder.step(tokens, some, None, None, Layout.equal(len(rows), 1, ids.device))
            self._states = tuple(s.index_copy(0, rows, n) for s, n in zip(self._states, new, strict=True))


def _tokens(places: Tensor) -> Layout:
    """The layout of single tokens at these positions."""
    count = len(places)
    rows = torch.arange(count + 1, device=places.device)
    layout = Layout(rows, places, places, rows[:-1], 1)
    layout.__dict__["sizes"] = (1,) * count
    return layout
