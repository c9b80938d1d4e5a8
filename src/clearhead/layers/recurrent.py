"""Recurrent layers over ragged batches: a state that is carried from token to token, without a padded step."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence

from clearhead.attention import Layout

Kind = Literal["rnn", "lstm", "gru"]

States = tuple[Tensor, ...]
"""What is carried: the states (B, L, D), one for each layer and direction; for an LSTM, its cells (B, L, D) too."""

NETS: dict[Kind, Callable[..., nn.RNNBase]] = {"rnn": nn.RNN, "lstm": nn.LSTM, "gru": nn.GRU}


class Recurrent(nn.Module):
    """Layers of an RNN (Elman 1990), an LSTM (Hochreiter and Schmidhuber 1997) or a GRU (Cho et al. 2014).

    With `bidirectional`, a second net reads from the end, and the two outputs stand side by side, (N, 2 D). Dropout is
    between the layers. Inside autocast the matrix products run in its dtype; what is carried stays as it is.
    """

    def __init__(
        self,
        kind: Kind,
        input_width: int,
        width: int,
        num_layers: int = 1,
        *,
        bidirectional: bool = False,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        if kind not in NETS:
            raise ValueError(f"there is no recurrent net {kind!r}: choose {', '.join(NETS)}")
        self.kind: Kind = kind
        between = dropout if num_layers > 1 else 0.0
        self.net = NETS[kind](input_width, width, num_layers, dropout=between, bidirectional=bidirectional)

    @property
    def output_width(self) -> int:
        """The width of what comes out."""
        return self.net.hidden_size * (2 if self.net.bidirectional else 1)

    def forward(self, x: Tensor, layout: Layout, states: States | None = None) -> tuple[Tensor, States]:
        """Tokens (N, input width), from zeros or from `states`, to the output (N, D or 2 D) and the last states."""
        steps = Steps.of(layout)
        states = self.zeros(layout.num_sequences) if states is None else states
        if not layout.num_tokens:
            return self._nothing(x), states
        running = int(steps.alive[0])
        dtype = self._weights[0][0].dtype
        ordered = [s.to(dtype).index_select(0, steps.order) for s in states]  # (B, L, D), longest sequence first
        first = [s[:running].transpose(0, 1).contiguous() for s in ordered]  # (L, B', D), as torch has them
        packed = PackedSequence(reorder(x.to(dtype), steps.rows, steps.back), steps.alive)
        out, last = self.net(packed, tuple(first) if self.kind == "lstm" else first[0])
        ended = (s.transpose(0, 1) for s in (last if self.kind == "lstm" else (last,)))
        whole = (torch.cat([new, old[running:]]) for new, old in zip(ended, ordered, strict=True))
        return reorder(out.data, steps.back, steps.rows), tuple(s.index_select(0, steps.rank) for s in whole)

    def zeros(self, count: int) -> States:
        """The states of `count` sequences before their first token."""
        layers = self.net.num_layers * (2 if self.net.bidirectional else 1)
        like = self._weights[0][0]  # perhaps only a part of it: a sharded model asks before it gathers this layer
        zeros = torch.zeros(count, layers, self.net.hidden_size, dtype=like.dtype, device=like.device)
        return (zeros, zeros) if self.kind == "lstm" else (zeros,)

    def cells(self, fed: int | None = None) -> Cells:
        """The same layers for one step at a time.

        With `fed`, a step is given the last `fed` columns of its input; what the others give is `Cells.share`d out
        before, for all steps at once.
        """
        if self.net.bidirectional:
            raise ValueError("a bidirectional net cannot go step by step: it reads from the end too")
        layers, narrow = self._weights, None
        if fed is not None:
            first = layers[0][0]
            narrow, wide = first[:, : first.shape[1] - fed], first[:, first.shape[1] - fed :]
            layers[0] = (wide, *layers[0][1:])
        return Cells(self.kind, layers, narrow, self.net.dropout if self.training else 0.0)

    @property
    def _weights(self) -> list[tuple[Tensor, ...]]:
        """W_i, W_h, b_i and b_h of each layer and direction."""
        return [(*layer,) for layer in self.net.all_weights]

    def _nothing(self, x: Tensor) -> Tensor:
        """No token at all, in the graph all the same: an empty batch runs backward too."""
        tie = sum((t.reshape(-1)[:0].sum() for t in (x, *self.parameters())), start=x.new_zeros(()))
        return tie.expand(0, self.output_width)

    def extra_repr(self) -> str:
        return self.kind


@dataclass(frozen=True, eq=False)
class Cells:
    """Recurrent layers for one step at a time: the formulas themselves."""

    kind: Kind
    layers: list[tuple[Tensor, ...]]  # W_i, W_h, b_i, b_h of each
    narrow: Tensor | None  # the columns of the first W_i whose share is given
    dropout: float

    def share(self, x: Tensor) -> Tensor:
        """What the first columns of the input give the first layer, (N, gates D), with its bias."""
        assert self.narrow is not None
        return F.linear(x, self.narrow, self.layers[0][2])

    def step(self, x: Tensor, states: States, given: Tensor | None = None) -> States:
        """One token of each of R sequences, (R, input width): their states (R, L, D) after it."""
        new: list[States] = []
        for layer, (w_i, w_h, b_i, b_h) in enumerate(self.layers):
            if layer:
                x = F.dropout(new[-1][0], self.dropout, training=self.dropout > 0)
            last = [s[:, layer] for s in states]
            from_input = torch.addmm(given, x, w_i.T) if given is not None and not layer else F.linear(x, w_i, b_i)
            new.append(FORMULAS[self.kind](from_input, F.linear(last[0], w_h, b_h), *last))
        return tuple(torch.stack(parts, 1) for parts in zip(*new, strict=True))


def rnn(i: Tensor, h: Tensor, state: Tensor) -> States:
    """What the input and the last state say together (Elman 1990); i = W_i x + b_i and h = W_h s + b_h, (R, D)."""
    return (torch.tanh(i + h),)


def lstm(i: Tensor, h: Tensor, state: Tensor, cell: Tensor) -> States:
    """A cell that gates write, forget and read (Hochreiter and Schmidhuber 1997; Gers et al. 2000); i, h (R, 4 D)."""
    write, forget, new, read = (i + h).chunk(4, 1)
    cell = torch.sigmoid(forget) * cell + torch.sigmoid(write) * torch.tanh(new)
    return torch.sigmoid(read) * torch.tanh(cell), cell


def gru(i: Tensor, h: Tensor, state: Tensor) -> States:
    """A state that one gate keeps and another resets (Cho et al. 2014, section 2.3); i, h (R, 3 D)."""
    width = state.shape[1]
    (i_gates, i_new), (h_gates, h_new) = (x.split([2 * width, width], 1) for x in (i, h))
    reset, keep = torch.sigmoid(i_gates + h_gates).chunk(2, 1)
    new = torch.tanh(torch.addcmul(i_new, reset, h_new))
    return (torch.addcmul(new, keep, state - new),)


FORMULAS: dict[Kind, Callable[..., States]] = {"rnn": rnn, "lstm": lstm, "gru": gru}


@dataclass(frozen=True, eq=False)
class Steps:
    """A ragged batch step by step: the longest sequence first, and those that have ended drop out."""

    rows: Tensor  # (N,) the token of each row, time-major
    back: Tensor  # (N,) its inverse: the row of each token
    alive: Tensor  # (max_len,) on the host: how many sequences are still running
    order: Tensor  # (B,) the sequences, longest first
    rank: Tensor  # (B,) its inverse

    @staticmethod
    def of(layout: Layout) -> Steps:
        """Made once and kept on the layout: the layers of a model share it."""
        held: dict[str, Any] = layout.__dict__
        if "_steps" not in held:
            rows, alive = layout.time_major
            sizes = layout.sizes
            order = torch.tensor(sorted(range(len(sizes)), key=lambda i: -sizes[i]), dtype=torch.int64)
            order = order.to(layout.device)
            held["_steps"] = Steps(rows, _inverse(rows), alive, order, _inverse(order))
        return held["_steps"]


def _inverse(order: Tensor) -> Tensor:
    return torch.empty_like(order).scatter_(0, order, torch.arange(len(order), device=order.device))


def reorder(x: Tensor, order: Tensor, back: Tensor) -> Tensor:
    """x[order], whose gradient is the gather by `back`, the inverse, where torch would scatter."""
    return _Reorder.apply(x, order, back)  # type: ignore[no-any-return]


class _Reorder(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, order: Tensor, back: Tensor) -> Tensor:
        ctx.save_for_backward(order, back)
        return x.index_select(0, order)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:  # type: ignore[override]
        order, back = ctx.saved_tensors
        return reorder(grad, back, order), None, None
