"""Recurrent nets: an encoder, a decoder, and between them one vector or attention, as it was before the Transformer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Literal

import torch
from torch import Tensor, nn

from clearhead.attention import Additive, Cache, Call, Core, Dot, Full, General, Layout, Score
from clearhead.attention.look import unseen
from clearhead.layers import POOLINGS, Embedding
from clearhead.layers.dropout import Dropout
from clearhead.layers.recurrent import NETS, Kind, Recurrent, States, Steps, reorder

Attention = Literal["none", "additive", "dot", "general"]


@dataclass(frozen=True, kw_only=True)
class RecurrentConfig:
    """The sizes and kinds of bricks of a recurrent encoder or decoder."""

    kind: Kind = "gru"
    vocab_size: int
    width: int  # of the token vectors, and of what a decoder gives
    hidden: int  # of the states; an encoder gives them as they are, both directions side by side
    num_layers: int = 1
    bidirectional: bool = False  # an encoder's only
    attention: Attention = "none"  # a decoder's, to the encoder's output
    feed: bool = False  # what attention gathered enters the recurrence (Bahdanau et al. 2015), not only its output
    dropout: float = 0.1

    def __post_init__(self) -> None:
        for name, choices in (("kind", NETS), ("attention", Attention.__args__)):  # type: ignore[attr-defined]
            if not isinstance(getattr(self, name), str) or getattr(self, name) not in choices:
                raise ValueError(f"{name} is {getattr(self, name)!r}: choose {', '.join(choices)}")
        for name, most in (("vocab_size", 2**31), ("width", 2**20), ("hidden", 2**20), ("num_layers", 1000)):
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= most:
                raise ValueError(f"{name} is {value!r}: it must be a whole number from 1 to {most}")
        for field in fields(self):
            if field.type == "bool" and not isinstance(getattr(self, field.name), bool):
                raise ValueError(f"{field.name} is {getattr(self, field.name)!r}: it is true or false")
        if isinstance(self.dropout, bool) or not isinstance(self.dropout, (int, float)) or not 0 <= self.dropout < 1:
            raise ValueError(f"dropout is {self.dropout!r}: a probability from 0 up to, not including, 1")
        if self.feed and self.attention == "none":
            raise ValueError("feed without attention: there is nothing to feed; choose an attention, or feed=False")

    @property
    def limit(self) -> None:
        """The most tokens of a sequence: there is no end."""
        return

    @property
    def encoded_width(self) -> int:
        """The width of what an encoder gives."""
        return self.hidden * (2 if self.bidirectional else 1)


class RecurrentEncoder(nn.Module):
    """Token vectors and recurrent layers over them. With a head, an acceptor or a transducer."""

    def __init__(self, config: RecurrentConfig) -> None:
        super().__init__()
        c = config
        check_roles(encoder=c)
        self.embedding = _embedding(c)
        layers = Recurrent(c.kind, c.width, c.hidden, c.num_layers, bidirectional=c.bidirectional, dropout=c.dropout)
        self.blocks = nn.ModuleList([layers])
        self.dropout = Dropout(c.dropout)

    def forward(self, ids: Tensor, layout: Layout, *, segments: Tensor | None = None) -> Tensor:
        """Token ids (N,) to the states of the last layer, (N, D) or (N, 2 D)."""
        _check_starts(layout)
        x, _ = self.blocks[0](self.embedding(ids, layout, segments), layout)
        return self.dropout(x)


class RecurrentDecoder(nn.Module):
    """Token vectors and recurrent layers that go on from what an encoder read; without one, a language model.

    The first states come from the two ends of the encoder's output, and without attention they are all that the decoder
    knows of the source. Whole sequences go through `forward`; to write token by token, `begin` and `step`.
    """

    def __init__(self, config: RecurrentConfig, encoder: RecurrentConfig | None = None) -> None:
        super().__init__()
        c = config
        check_roles(encoder=encoder, decoder=c)
        self.embedding = _embedding(c)
        self.start = None if encoder is None else Start(c, encoder)
        self.blocks = nn.ModuleList([RecurrentBlock(c, None if encoder is None else encoder.encoded_width)])

    def forward(
        self,
        ids: Tensor,
        layout: Layout,
        *,
        segments: Tensor | None = None,
        memory: Tensor | None = None,
        memory_layout: Layout | None = None,
        cache: Cache | None = None,
        memory_cache: Cache | None = None,
    ) -> Tensor:
        """Token ids (N,), and the encoder's output where there is an encoder, to vectors (N, D)."""
        if cache is not None or memory_cache is not None:
            raise ValueError(
                "a recurrent decoder has no cache of keys: to write token by token, use `begin` and `step`"
            )
        _check_starts(layout)
        x = self.embedding(ids, layout, segments)
        if self.start is None:
            return self._block(x, layout, self.begin_empty(layout.num_sequences), memory, memory_layout)
        if memory is None or memory_layout is None:
            raise ValueError("a decoder with an encoder needs `memory`, the encoder's output, and its layout")
        return self._block(x, layout, self.start(memory, memory_layout), memory, memory_layout)

    def begin(self, memory: Tensor, memory_layout: Layout) -> States:
        """The states before the first token, a row for each source sequence, (B, L, D)."""
        if self.start is None:
            raise ValueError("this decoder is a language model, which has no source: use `begin_empty`")
        return self.start(memory, memory_layout)

    def begin_empty(self, count: int) -> States:
        """A language model's states before the first token of `count` sequences, (count, L, D)."""
        if self.start is not None:
            raise ValueError("this decoder goes on from what an encoder read: use `begin` with its output")
        return self._block.recurrent.zeros(count)

    def remember(self, memory: Tensor) -> Tensor:
        """The encoder's output with what every step needs of it done once, (M, ...).

        `begin`, `step` and `forward` take either; its rows are still those of the source's tokens.
        """
        cross = self._block.cross
        return memory if cross is None else cross.remember(memory)

    def step(
        self, ids: Tensor, states: States, memory: Tensor | None, memory_layout: Layout | None, rows: Layout
    ) -> tuple[Tensor, States]:
        """One token of each of R sequences, ids (R,), to vectors (R, D) and the states after it.

        `rows` says how many of the R there are for each source sequence: hypotheses of one are neighbours.
        """
        return self._block.step(self.embedding(ids, rows), states, memory, memory_layout, rows)

    @property
    def _block(self) -> RecurrentBlock:
        block = self.blocks[0]
        assert isinstance(block, RecurrentBlock)
        return block


class RecurrentBlock(nn.Module):
    """Recurrent layers, attention over an encoder's output where there is any, and what the two say together."""

    def __init__(self, config: RecurrentConfig, memory_width: int | None) -> None:
        super().__init__()
        c = config
        fed = memory_width if c.feed and memory_width is not None else 0
        self.fed = fed  # columns of the recurrent layers' input that attention fills
        self.recurrent = Recurrent(c.kind, c.width + fed, c.hidden, c.num_layers, dropout=c.dropout)
        self.cross = None
        self.output = None
        if c.attention != "none" and memory_width is not None:
            self.cross = Cross(c.attention, c.hidden, memory_width, c.width)
        elif c.hidden != c.width:
            self.output = nn.Linear(c.hidden, c.width)
        self.dropout = Dropout(c.dropout)

    def forward(
        self, x: Tensor, layout: Layout, states: States, memory: Tensor | None, memory_layout: Layout | None
    ) -> Tensor:
        """Vectors (N, D) of whole sequences to (N, D)."""
        if self.cross is None:
            return self._say(self.recurrent(x, layout, states)[0], None)
        assert memory is not None and memory_layout is not None
        keys, values = self.cross.recall(memory)
        if self.fed:
            return self._say(*self._by_steps(x, layout, states, keys, values, memory_layout))
        x, _ = self.recurrent(x, layout, states)
        return self._say(x, self.cross(self.cross.query(x), keys, values, layout, memory_layout))

    def step(
        self, x: Tensor, states: States, memory: Tensor | None, memory_layout: Layout | None, rows: Layout
    ) -> tuple[Tensor, States]:
        """One token of each of R sequences, (R, D): what is said after it, (R, D), and the states."""
        cells = self.recurrent.cells()
        if self.cross is None:
            states = cells.step(x, states)
            return self._say(states[0][:, -1], None), states
        if memory is None or memory_layout is None:
            raise ValueError("a decoder with attention needs `memory`, the encoder's output, and its layout")
        keys, values = self.cross.recall(memory)
        if self.fed:
            context = self.cross(self.cross.query(states[0][:, -1]), keys, values, rows, memory_layout)
            states = cells.step(torch.cat([x, context.to(x.dtype)], 1), states)
        else:
            states = cells.step(x, states)
            context = self.cross(self.cross.query(states[0][:, -1]), keys, values, rows, memory_layout)
        return self._say(states[0][:, -1], context), states

    def _by_steps(
        self, x: Tensor, layout: Layout, states: States, keys: Tensor, values: Tensor, memory_layout: Layout
    ) -> tuple[Tensor, Tensor]:
        """The states (N, D) and contexts (N, D') where each step needs the context of the last (Bahdanau et al. 2015).

        What does not depend on the last step is done for all at once: the keys, and the tokens' share of the input.
        """
        assert self.cross is not None
        steps, cells = Steps.of(layout), self.recurrent.cells(self.fed)
        given = cells.share(reorder(x, steps.rows, steps.back))  # (N, gates D), time-major
        states = tuple(s.index_select(0, steps.order) for s in states)
        gather = self.cross.reader(keys, values, memory_layout, steps.order)
        alive = steps.alive.tolist()
        queries, contexts, outputs = ([x.new_zeros(0, 1, keys.shape[2])], [values[:0, 0]], [states[0][:0, -1]])
        for count, part in zip(alive, given.split(alive), strict=True):
            if count < states[0].shape[0]:
                states = tuple(s[:count] for s in states)
            queries.append(self.cross.query(states[0][:, -1]))  # (R, 1, K)
            contexts.append(gather(queries[-1]))  # (R, D')
            states = cells.step(contexts[-1], states, part)
            outputs.append(states[0][:, -1])
        q, context, out = (reorder(torch.cat(parts), steps.back, steps.rows) for parts in (queries, contexts, outputs))
        if self.cross.core._forward_pre_hooks:  # somebody looks: show all steps as one map
            with torch.no_grad():
                self.cross(q, keys, values, layout, memory_layout)
        return out, context

    def _say(self, state: Tensor, context: Tensor | None) -> Tensor:
        """(N, D): of the states alone, or of context and state together (Luong et al. 2015, equation 5)."""
        if self.cross is not None and context is not None:
            return self.dropout(torch.tanh(self.cross.output(torch.cat([context, state.to(context.dtype)], 1))))
        return self.dropout(state if self.output is None else self.output(state))


class Cross(nn.Module):
    """Attention of one head from a decoder's states over an encoder's output, which is both keys and values."""

    def __init__(self, kind: Attention, hidden: int, memory_width: int, width: int) -> None:
        super().__init__()
        scores: dict[str, Callable[[], Score]] = {
            "additive": lambda: Additive(1, hidden, memory_width, hidden),
            "dot": Dot,
            "general": lambda: General(1, hidden, memory_width),
        }
        self.memory_width = memory_width
        self.core = Core("cross", scores[kind]())
        self.output = nn.Linear(memory_width + hidden, width)  # of the context, then of the state

    def query(self, states: Tensor) -> Tensor:
        """States (N, D) as the score wants its queries, (N, 1, K)."""
        q = states.unsqueeze(1)
        return self.core.score.prepare(q, q.new_zeros(0, 1, self.memory_width))[0]

    def remember(self, memory: Tensor) -> Tensor:
        """The encoder's output (M, D') with its keys before it, (M, K + D'), where a score has to make them."""
        keys, values = self.recall(memory)
        return memory if keys is values else torch.cat([keys, values], 2).squeeze(1)

    def recall(self, memory: Tensor) -> tuple[Tensor, Tensor]:
        """Keys (M, 1, K) and values (M, 1, D') of an encoder's output, or of what `remember` made of it."""
        memory = memory.unsqueeze(1)
        made = memory.shape[2] - self.memory_width
        if made:
            return memory[..., :made], memory[..., made:]
        if not isinstance(self.core.score, Additive):
            return memory, memory
        return self.core.score.prepare(memory.new_zeros(0, 1, self.core.score.query.shape[1]), memory)[1], memory

    def forward(self, q: Tensor, keys: Tensor, values: Tensor, layout: Layout, memory_layout: Layout) -> Tensor:
        """What each query gathers, (N, D')."""
        kind = torch.get_autocast_dtype(q.device.type) if torch.is_autocast_enabled(q.device.type) else q.dtype
        q, keys, values = q.to(kind), keys.to(kind), values.to(kind)
        return self.core(Call(q, keys, values, layout, memory_layout, Full(), self.core.score)).squeeze(1)

    def reader(self, keys: Tensor, values: Tensor, layout: Layout, order: Tensor) -> Callable[[Tensor], Tensor]:
        """The same for one query of each sequence, asked again and again: (R, 1, K) to (R, D').

        Sequences stand in this order, and the first R are asked, never more than the last time. Source and keys are
        laid out as a rectangle once, and a step is four operations on it.
        """
        if self.core._forward_hooks:  # somebody changes what attention gives: ask the core itself
            turned, tokens = layout.select(order.tolist()), layout.tokens(order.tolist())
            k, v, count = keys.index_select(0, tokens), values.index_select(0, tokens), layout.num_sequences

            def ask(q: Tensor) -> Tensor:
                rows = Layout.of([1] * len(q) + [0] * (count - len(q)), device=q.device)
                with unseen():  # who looks is shown all steps at once
                    return self(q, k, v, rows, turned)

            return ask
        lengths = layout.lengths.index_select(0, order).view(-1, 1, 1, 1)
        beyond = torch.arange(layout.max_len, device=order.device) >= lengths.clamp_min(1)  # no source: 0 from zeros
        k, v = (layout.pad(x).index_select(0, order).transpose(1, 2) for x in (keys, values))  # (B, 1, S, K)
        held = [k, v, torch.zeros_like(beyond, dtype=k.dtype).masked_fill_(beyond, float("-inf"))]

        def read(q: Tensor) -> Tensor:
            if len(q) < len(held[0]):
                held[:] = [x[: len(q)] for x in held]
            k, v, minus = held
            weights = torch.softmax(self.core.score.pair(q.unsqueeze(2), k) + minus, dim=-1)  # (R, 1, 1, S)
            return (weights.to(v.dtype) @ v).flatten(1)

        return read


class Start(nn.Module):
    """A decoder's first states: tanh of a linear map of both ends of the source (Bahdanau et al. 2015, A.2.2)."""

    def __init__(self, config: RecurrentConfig, encoder: RecurrentConfig) -> None:
        super().__init__()
        c = config
        self.pool = POOLINGS["ends" if encoder.bidirectional else "last"]
        self.num_layers, self.memory_width = c.num_layers, encoder.encoded_width
        self.maps = nn.ModuleList(  # for an LSTM, one for its cells too
            nn.Linear(self.memory_width, c.num_layers * c.hidden) for _ in range(2 if c.kind == "lstm" else 1)
        )

    def forward(self, memory: Tensor, layout: Layout) -> States:
        """The encoder's output (M, D'), or what was remembered of it, to states (B, L, D)."""
        ends = self.pool(memory[:, memory.shape[1] - self.memory_width :], layout)  # (B, D')
        return tuple(torch.tanh(m(ends)).unflatten(1, (self.num_layers, -1)) for m in self.maps)


def check_roles(*, encoder: RecurrentConfig | None = None, decoder: RecurrentConfig | None = None) -> None:
    """Refuse settings that an encoder, a decoder or the two together cannot have."""
    if encoder is not None and encoder.attention != "none":
        raise ValueError(
            f"an encoder with {encoder.attention} attention: it is the decoder that attends; set attention='none' here"
        )
    if decoder is None:
        return
    if decoder.bidirectional:
        raise ValueError("a bidirectional decoder would read what it is to write: set bidirectional=False")
    if decoder.attention != "none" and encoder is None:
        raise ValueError(
            f"a language model with {decoder.attention} attention has no source to attend to: set attention='none'"
        )
    if decoder.attention == "dot" and encoder is not None and decoder.hidden != encoder.encoded_width:
        raise ValueError(
            f"dot attention wants states as wide as what they are held against, but the decoder's are {decoder.hidden} "
            f"wide and the encoder's {encoder.encoded_width}: make hidden {encoder.encoded_width}, or take 'general'"
        )


def _embedding(c: RecurrentConfig) -> Embedding:
    tokens = nn.Embedding(c.vocab_size, c.width)
    nn.init.normal_(tokens.weight, std=c.width**-0.5)  # an output that shares them starts with small scores
    return Embedding(tokens, dropout=c.dropout, scaled=True)


def _check_starts(layout: Layout) -> None:
    if any(layout.firsts):
        raise ValueError(
            f"a sequence starts at position {max(layout.firsts)}, but a recurrent net reads from the first token: "
            "give whole sequences, or use `step`"
        )
