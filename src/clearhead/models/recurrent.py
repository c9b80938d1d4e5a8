"""Recurrent encoders and decoders, with or without attention between them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Literal

import torch
from torch import Tensor, nn

from clearhead.attention import (
    Additive,
    AttentionCore,
    AttentionInputs,
    Dot,
    Full,
    General,
    KeyValueStore,
    Layout,
    Score,
)
from clearhead.attention.capture.look import no_capture
from clearhead.attention.hooks import is_observed, may_replace_output
from clearhead.attention.kernels.cached_step import attend_scored
from clearhead.layers import POOLINGS, Embedding
from clearhead.layers.dropout import Dropout
from clearhead.layers.product_dtype import product_dtype
from clearhead.layers.recurrent import NETS, CellKind, PackedOrder, Recurrent, States, reorder
from clearhead.models.transformer_config import TransformerConfig

Attention = Literal["none", "additive", "dot", "general"]


@dataclass(frozen=True, kw_only=True)
class RecurrentConfig:
    """The sizes and layer kinds of a recurrent encoder or decoder."""

    kind: CellKind = "gru"
    vocab_size: int
    width: int  # of the token vectors and of a decoder's output
    hidden_size: int  # of the states; an encoder's output concatenates both directions
    num_layers: int = 1
    bidirectional: bool = False  # encoders only
    attention: Attention = "none"  # from a decoder to the encoder output
    input_feeding: bool = False  # the attention context enters the recurrence (Bahdanau et al. 2015)
    dropout: float = 0.1

    def __post_init__(self) -> None:
        for name, choices in (("kind", NETS), ("attention", Attention.__args__)):
            if not isinstance(getattr(self, name), str) or getattr(self, name) not in choices:
                raise ValueError(f"{name} is {getattr(self, name)!r}: choose {', '.join(choices)}")
        for name, maximum in (("vocab_size", 2**31), ("width", 2**20), ("hidden_size", 2**20), ("num_layers", 1000)):
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= maximum:
                raise ValueError(f"{name} is {value!r}: it must be an integer from 1 to {maximum}")
        for field in fields(self):
            if field.type == "bool" and not isinstance(getattr(self, field.name), bool):
                raise ValueError(f"{field.name} is {getattr(self, field.name)!r}: it must be true or false")
        if isinstance(self.dropout, bool) or not isinstance(self.dropout, (int, float)) or not 0 <= self.dropout < 1:
            raise ValueError(f"dropout is {self.dropout!r}: it must be a probability from 0 up to, not including, 1")
        if self.input_feeding and self.attention == "none":
            raise ValueError("input_feeding needs attention: choose an attention, or set input_feeding=False")

    @property
    def max_positions(self) -> None:
        """None: a recurrent model has no positions."""
        return

    @property
    def encoded_width(self) -> int:
        """The width of an encoder's outputs."""
        return self.hidden_size * (2 if self.bidirectional else 1)


class RecurrentEncoder(nn.Module):
    """Token embeddings and recurrent layers. With a head, an acceptor or a transducer."""

    def __init__(self, config: RecurrentConfig) -> None:
        super().__init__()
        c = config
        check_roles(encoder=c)
        self.embedding = _embedding(c)
        sizes = c.kind, c.width, c.hidden_size, c.num_layers
        layers = Recurrent(*sizes, bidirectional=c.bidirectional, dropout=c.dropout)
        self.blocks = nn.ModuleList([layers])
        self.dropout = Dropout(c.dropout)

    def forward(self, ids: Tensor, layout: Layout, *, segments: Tensor | None = None) -> Tensor:
        """Maps token ids (N,) to the states of the last layer, (N, D) or (N, 2 D)."""
        _check_starts(layout)
        x, _ = self.blocks[0](self.embedding(ids, layout, segments), layout)
        return self.dropout(x)


class RecurrentDecoder(nn.Module):
    """Token embeddings and recurrent layers that start from an encoder output; without an encoder, a language model.

    The initial states come from the two ends of the encoder output, of an image from its mean; without attention they
    are the decoder's only view of the source. `forward` runs full sequences; `begin` and `step` run token by token.
    """

    def __init__(self, config: RecurrentConfig, encoder: RecurrentConfig | TransformerConfig | None = None) -> None:
        super().__init__()
        c = config
        check_roles(encoder=encoder, decoder=c)
        self.embedding = _embedding(c)
        self.start = None if encoder is None else DecoderStart(c, encoder)
        self.blocks = nn.ModuleList([RecurrentBlock(c, None if encoder is None else encoder.encoded_width)])

    def forward(
        self,
        ids: Tensor,
        layout: Layout,
        *,
        segments: Tensor | None = None,
        memory: Tensor | None = None,
        memory_layout: Layout | None = None,
        cache: KeyValueStore | None = None,
        memory_cache: KeyValueStore | None = None,
    ) -> Tensor:
        """Maps token ids (N,), and the encoder output if there is an encoder, to hidden states (N, D)."""
        if cache is not None or memory_cache is not None:
            raise ValueError("a recurrent decoder has no key-value cache: to decode stepwise, use `begin` and `step`")
        _check_starts(layout)
        x = self.embedding(ids, layout, segments)
        if self.start is None:
            return self._block(x, layout, self.begin_empty(layout.num_sequences), memory, memory_layout)
        if memory is None or memory_layout is None:
            raise ValueError("a decoder with an encoder needs `memory`, the encoder output, and its layout")
        return self._block(x, layout, self.start(memory, memory_layout), memory, memory_layout)

    def begin(self, memory: Tensor, memory_layout: Layout) -> States:
        """Returns the initial states, one row per source sequence, (B, L, D)."""
        if self.start is None:
            raise ValueError("this decoder is a language model without a source: use `begin_empty`")
        return self.start(memory, memory_layout)

    def begin_empty(self, count: int) -> States:
        """Returns a language model's initial states for `count` sequences, (count, L, D)."""
        if self.start is not None:
            raise ValueError("this decoder starts from an encoder output: use `begin` with it")
        return self._block.recurrent.zeros(count)

    def cache_keys(self, memory: Tensor) -> Tensor:
        """Returns the encoder output with its attention keys computed once for all steps, (M, ...).

        `begin`, `step` and `forward` accept either form; the rows are the source tokens in both.
        """
        cross = self._block.cross
        return memory if cross is None else cross.cache_keys(memory)

    def step(
        self, ids: Tensor, states: States, memory: Tensor | None, memory_layout: Layout | None, rows: Layout
    ) -> tuple[Tensor, States]:
        """Runs one token of each of R sequences, ids (R,); returns hidden states (R, D) and the new states.

        `rows` gives the number of sequences per source sequence: hypotheses of one source are adjacent.
        """
        return self._block.step(self.embedding(ids, rows), states, memory, memory_layout, rows)

    @property
    def _block(self) -> RecurrentBlock:
        block = self.blocks[0]
        assert isinstance(block, RecurrentBlock)
        return block


class RecurrentBlock(nn.Module):
    """Recurrent layers, attention over an encoder output if there is one, and the layer that combines them."""

    def __init__(self, config: RecurrentConfig, memory_width: int | None) -> None:
        super().__init__()
        c = config
        fed = memory_width if c.input_feeding and memory_width is not None else 0
        self.fed = fed  # input columns that hold the attention context
        self.recurrent = Recurrent(c.kind, c.width + fed, c.hidden_size, c.num_layers, dropout=c.dropout)
        self.cross = None
        self.output = None
        if c.attention != "none" and memory_width is not None:
            self.cross = CrossAttention(c.attention, c.hidden_size, memory_width, c.width)
        elif c.hidden_size != c.width:
            self.output = nn.Linear(c.hidden_size, c.width)
        self.dropout = Dropout(c.dropout)

    def forward(
        self, x: Tensor, layout: Layout, states: States, memory: Tensor | None, memory_layout: Layout | None
    ) -> Tensor:
        """Maps embedded tokens (N, D) of full sequences to (N, D)."""
        if self.cross is None:
            return self._combine(self.recurrent(x, layout, states)[0], None)
        assert memory is not None and memory_layout is not None
        keys, values = self.cross.split_keys(memory)
        if self.fed:
            return self._combine(*self._run_steps(x, layout, states, keys, values, memory_layout))
        x, _ = self.recurrent(x, layout, states)
        return self._combine(x, self.cross(self.cross.query(x), keys, values, layout, memory_layout))

    def step(
        self, x: Tensor, states: States, memory: Tensor | None, memory_layout: Layout | None, rows: Layout
    ) -> tuple[Tensor, States]:
        """Runs one token of each of R sequences, (R, D); returns the output (R, D) and the new states."""
        cells = self.recurrent.cells()
        if self.cross is None:
            states = cells.step(x, states)
            return self._combine(states[0][:, -1], None), states
        if memory is None or memory_layout is None:
            raise ValueError("a decoder with attention needs `memory`, the encoder output, and its layout")
        keys, values = self.cross.split_keys(memory)
        if self.fed:
            context = self.cross(self.cross.query(states[0][:, -1]), keys, values, rows, memory_layout)
            states = cells.step(torch.cat([x, context.to(x.dtype)], 1), states)
        else:
            states = cells.step(x, states)
            context = self.cross(self.cross.query(states[0][:, -1]), keys, values, rows, memory_layout)
        return self._combine(states[0][:, -1], context), states

    def _run_steps(
        self, x: Tensor, layout: Layout, states: States, keys: Tensor, values: Tensor, memory_layout: Layout
    ) -> tuple[Tensor, Tensor]:
        """Returns states (N, D) and contexts (N, D') if each step needs the last context (Bahdanau et al. 2015).

        What does not depend on the previous step is computed for all steps at once: keys, and the tokens' part of the
        input.
        """
        assert self.cross is not None
        steps, cells = PackedOrder.of(layout), self.recurrent.cells(self.fed)
        shared = cells.share(reorder(x, steps.rows, steps.back))  # (N, gates D), time-major
        states = tuple(s.index_select(0, steps.order) for s in states)
        read = self.cross.reader(keys, values, memory_layout, steps.order)
        alive = steps.alive.tolist()
        queries, contexts, outputs = ([x.new_zeros(0, 1, keys.shape[2])], [values[:0, 0]], [states[0][:0, -1]])
        for count, part in zip(alive, shared.split(alive), strict=True):
            if count < states[0].shape[0]:
                states = tuple(s[:count] for s in states)
            queries.append(self.cross.query(states[0][:, -1]))  # (R, 1, K)
            contexts.append(read(queries[-1]))  # (R, D')
            states = cells.step(contexts[-1], states, part)
            outputs.append(states[0][:, -1])
        q, context, out = (reorder(torch.cat(parts), steps.back, steps.rows) for parts in (queries, contexts, outputs))
        if is_observed(self.cross.core):  # a hook listens: pass all steps as one call
            inputs = self.cross.inputs(q, keys, values, layout, memory_layout)
            with torch.no_grad():
                self.cross.core(inputs)
        return out, context

    def _combine(self, state: Tensor, context: Tensor | None) -> Tensor:
        """Returns the output (N, D) of the states, or of contexts and states (Luong et al. 2015, equation 5)."""
        if self.cross is not None and context is not None:
            return self.dropout(torch.tanh(self.cross.output(torch.cat([context, state.to(context.dtype)], 1))))
        return self.dropout(state if self.output is None else self.output(state))


class CrossAttention(nn.Module):
    """Single-head attention from decoder states to an encoder output, which is both keys and values."""

    def __init__(self, kind: Attention, hidden_size: int, memory_width: int, width: int) -> None:
        super().__init__()
        scores: dict[str, Callable[[], Score]] = {
            "additive": lambda: Additive(1, hidden_size, memory_width, hidden_size),
            "dot": Dot,
            "general": lambda: General(1, hidden_size, memory_width),
        }
        self.memory_width = memory_width
        self.core = AttentionCore("cross", scores[kind]())
        self.output = nn.Linear(memory_width + hidden_size, width)  # of context and state, concatenated

    def query(self, states: Tensor) -> Tensor:
        q = states.unsqueeze(1)
        return self.core.score.prepare(q, q.new_zeros(0, 1, self.memory_width))[0]

    def cache_keys(self, memory: Tensor) -> Tensor:
        """Returns the encoder output (M, D') preceded by its keys, (M, K + D'), if the score computes keys."""
        keys, values = self.split_keys(memory)
        return memory if keys is values else torch.cat([keys, values], 2).squeeze(1)

    def split_keys(self, memory: Tensor) -> tuple[Tensor, Tensor]:
        """Returns keys (M, 1, K) and values (M, 1, D') of an encoder output or of the result of `cache_keys`."""
        memory = memory.unsqueeze(1)
        key_width = memory.shape[2] - self.memory_width
        if key_width:
            return memory[..., :key_width], memory[..., key_width:]
        if not isinstance(self.core.score, Additive):
            return memory, memory
        return self.core.score.prepare(memory.new_zeros(0, 1, self.core.score.query.shape[1]), memory)[1], memory

    def forward(self, q: Tensor, keys: Tensor, values: Tensor, layout: Layout, memory_layout: Layout) -> Tensor:
        return self.core(self.inputs(q, keys, values, layout, memory_layout)).squeeze(1)

    def inputs(self, q: Tensor, keys: Tensor, values: Tensor, layout: Layout, memory_layout: Layout) -> AttentionInputs:
        dtype = product_dtype(q)
        q, keys, values = q.to(dtype), keys.to(dtype), values.to(dtype)
        return AttentionInputs(q, keys, values, layout, memory_layout, Full(), self.core.score)

    def reader(self, keys: Tensor, values: Tensor, layout: Layout, order: Tensor) -> Callable[[Tensor], Tensor]:
        """Returns a function that maps one query of each sequence, (R, 1, K), to its context (R, D'), step by step.

        Sequences are in this order; a step reads the first R, never more than the previous step. Keys and values are
        padded once, so that a step takes four operations.
        """
        if may_replace_output(self.core):  # hooks change the output: call the core itself
            ordered, tokens = layout.select(order.tolist()), layout.row_indices(order.tolist())
            k, v, count = keys.index_select(0, tokens), values.index_select(0, tokens), layout.num_sequences

            def call_core(q: Tensor) -> Tensor:
                rows = Layout.from_lengths([1] * len(q) + [0] * (count - len(q)), device=q.device)
                with no_capture():  # capture records all steps at once, after the loop
                    return self(q, k, v, rows, ordered)

            return call_core
        lengths = layout.lengths.index_select(0, order).view(-1, 1, 1, 1)
        # an empty source gives 0
        is_padding = torch.arange(layout.max_len, device=order.device) >= lengths.clamp_min(1)
        k, v = (layout.pad(x).index_select(0, order).transpose(1, 2) for x in (keys, values))  # (B, 1, S, K)
        cached = [k, v, torch.zeros_like(is_padding, dtype=k.dtype).masked_fill_(is_padding, float("-inf"))]

        def read(q: Tensor) -> Tensor:
            if len(q) < len(cached[0]):
                cached[:] = [x[: len(q)] for x in cached]
            k, v, additive_mask = cached
            return attend_scored(self.core.score, q, k, v, additive_mask)

        return read


class DecoderStart(nn.Module):
    """A decoder's initial states: tanh of a linear map of both ends of the source (Bahdanau et al. 2015, A.2.2).

    A Transformer encoder reads an image, which has no ends: of its output the mean is taken (Xu et al. 2015, 3.1.2).
    """

    def __init__(self, config: RecurrentConfig, encoder: RecurrentConfig | TransformerConfig) -> None:
        super().__init__()
        c = config
        if isinstance(encoder, RecurrentConfig):
            self.pool = POOLINGS["bidirectional_last" if encoder.bidirectional else "last"]
        else:
            self.pool = POOLINGS["mean"]
        self.num_layers, self.memory_width = c.num_layers, encoder.encoded_width
        self.maps = nn.ModuleList(  # an LSTM has one for its cell states too
            nn.Linear(self.memory_width, c.num_layers * c.hidden_size) for _ in range(2 if c.kind == "lstm" else 1)
        )

    def forward(self, memory: Tensor, layout: Layout) -> States:
        """Maps the encoder output (M, D'), or the result of `cache_keys`, to states (B, L, D)."""
        whole = self.pool(memory[:, memory.shape[1] - self.memory_width :], layout)  # (B, D')
        return tuple(torch.tanh(m(whole)).unflatten(1, (self.num_layers, -1)) for m in self.maps)


def check_roles(
    *, encoder: RecurrentConfig | TransformerConfig | None = None, decoder: RecurrentConfig | None = None
) -> None:
    """Raises ValueError for settings that an encoder, a decoder or their combination cannot have."""
    if isinstance(encoder, RecurrentConfig) and encoder.attention != "none":
        raise ValueError(
            f"an encoder with {encoder.attention} attention: only decoders attend; set attention='none' for the encoder"
        )
    if decoder is None:
        return
    if decoder.bidirectional:
        raise ValueError("a bidirectional decoder would read the tokens it is to predict: set bidirectional=False")
    if decoder.attention != "none" and encoder is None:
        raise ValueError(
            f"a language model with {decoder.attention} attention has no source to attend to: set attention='none'"
        )
    if decoder.attention == "dot" and encoder is not None and decoder.hidden_size != encoder.encoded_width:
        raise ValueError(
            f"dot attention needs equal widths, but the decoder's states have width {decoder.hidden_size} and the "
            f"encoder's output {encoder.encoded_width}: set hidden_size={encoder.encoded_width}, or use 'general'"
        )


def _embedding(c: RecurrentConfig) -> Embedding:
    tokens = nn.Embedding(c.vocab_size, c.width)
    nn.init.normal_(tokens.weight, std=c.width**-0.5)  # a tied output layer then starts with small logits
    return Embedding(tokens, dropout=c.dropout, scale=True)


def _check_starts(layout: Layout) -> None:
    if any(layout.host_starts):
        raise ValueError(
            f"a sequence starts at position {max(layout.host_starts)}, but a recurrent net reads from the first token: "
            "give full sequences, or use `step`"
        )
