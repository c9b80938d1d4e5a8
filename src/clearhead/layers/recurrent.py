"""Recurrent layers (RNN, LSTM, GRU) over ragged batches, without padding."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence

from clearhead.attention import Layout

CellKind = Literal["rnn", "lstm", "gru"]

States = tuple[Tensor, ...]
"""The hidden states (B, L, D), one per layer and direction; for an LSTM, the cell states (B, L, D) too."""

NETS: dict[CellKind, Callable[..., nn.RNNBase]] = {"rnn": nn.RNN, "lstm": nn.LSTM, "gru": nn.GRU}


class Recurrent(nn.Module):
    """Layers of an RNN (Elman 1990), an LSTM (Hochreiter and Schmidhuber 1997) or a GRU (Cho et al. 2014).

    With `bidirectional`, a second net reads from the end, and both outputs are concatenated, (N, 2 D). Dropout applies
    between layers. Inside autocast the matrix products run in its dtype; the states keep theirs.
    """

    def __init__(
        self,
        kind: CellKind,
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
        self.kind: CellKind = kind
        between = dropout if num_layers > 1 else 0.0
        self.net = NETS[kind](input_width, width, num_layers, dropout=between, bidirectional=bidirectional)

    @property
    def output_width(self) -> int:
        """The width of the outputs: both directions together."""
        return self.net.hidden_size * (2 if self.net.bidirectional else 1)

    def forward(self, x: Tensor, layout: Layout, states: States | None = None) -> tuple[Tensor, States]:
        """Maps tokens (N, input width) and `states` (None: zeros) to the output (N, D or 2 D) and the final states."""
        steps = PackedOrder.of(layout)
        states = self.zeros(layout.num_sequences) if states is None else states
        if not layout.num_tokens:
            return self._empty_output(x), states
        running = int(steps.alive[0])
        dtype = self._weights[0][0].dtype
        ordered = [s.to(dtype).index_select(0, steps.order) for s in states]  # (B, L, D), longest sequence first
        first = [s[:running].transpose(0, 1).contiguous() for s in ordered]  # (L, B', D), torch's order
        packed = PackedSequence(reorder(x.to(dtype), steps.rows, steps.back), steps.alive)
        out, last = self.net(packed, tuple(first) if self.kind == "lstm" else first[0])
        final = (s.transpose(0, 1) for s in (last if self.kind == "lstm" else (last,)))
        merged = (torch.cat([new, old[running:]]) for new, old in zip(final, ordered, strict=True))
        return reorder(out.data, steps.back, steps.rows), tuple(s.index_select(0, steps.rank) for s in merged)

    def zeros(self, count: int) -> States:
        """The initial states of `count` sequences."""
        layers = self.net.num_layers * (2 if self.net.bidirectional else 1)
        like = self._weights[0][0]  # may be a shard: FSDP gathers this layer later
        zeros = torch.zeros(count, layers, self.net.hidden_size, dtype=like.dtype, device=like.device)
        return (zeros, zeros) if self.kind == "lstm" else (zeros,)

    def cells(self, fed: int | None = None) -> RecurrentCells:
        """Returns the layers for running one step at a time.

        With `fed`, a step receives only the last `fed` columns of its input; `RecurrentCells.share` computes the part
        of the other columns for all steps at once.
        """
        if self.net.bidirectional:
            raise ValueError("a bidirectional net cannot run step by step, because it also reads from the end")
        layers, narrow = self._weights, None
        if fed is not None:
            first = layers[0][0]
            narrow, wide = first[:, : first.shape[1] - fed], first[:, first.shape[1] - fed :]
            layers[0] = (wide, *layers[0][1:])
        return RecurrentCells(self.kind, layers, narrow, self.net.dropout if self.training else 0.0)

    @property
    def _weights(self) -> list[tuple[Tensor, ...]]:
        """Returns W_i, W_h, b_i and b_h of each layer and direction."""
        return [(*layer,) for layer in self.net.all_weights]

    def _empty_output(self, x: Tensor) -> Tensor:
        """Returns an output without tokens that is part of the graph, so that an empty batch runs backward."""
        zero = sum((t.reshape(-1)[:0].sum() for t in (x, *self.parameters())), start=x.new_zeros(()))
        return zero.expand(0, self.output_width)

    def extra_repr(self) -> str:
        return self.kind


@dataclass(frozen=True, eq=False)
class RecurrentCells:
    """Recurrent layers for running one step at a time."""

    kind: CellKind
    layers: list[tuple[Tensor, ...]]  # W_i, W_h, b_i, b_h of each
    narrow: Tensor | None  # the columns of the first W_i that `share` multiplies
    dropout: float

    def share(self, x: Tensor) -> Tensor:
        """Returns the contribution of the first input columns to the first layer, (N, gates D), with its bias."""
        assert self.narrow is not None
        return F.linear(x, self.narrow, self.layers[0][2])

    def step(self, x: Tensor, states: States, given: Tensor | None = None) -> States:
        """Runs one token of each of R sequences, (R, input width); returns the new states (R, L, D)."""
        new: list[States] = []
        for layer, (w_i, w_h, b_i, b_h) in enumerate(self.layers):
            if layer:
                x = F.dropout(new[-1][0], self.dropout, training=self.dropout > 0)
            last = [s[:, layer] for s in states]
            from_input = torch.addmm(given, x, w_i.T) if given is not None and not layer else F.linear(x, w_i, b_i)
            new.append(FORMULAS[self.kind](from_input, F.linear(last[0], w_h, b_h), *last))
        return tuple(torch.stack(parts, 1) for parts in zip(*new, strict=True))


def rnn(i: Tensor, h: Tensor, state: Tensor) -> States:
    """Computes an RNN step (Elman 1990); i = W_i x + b_i and h = W_h s + b_h, (R, D)."""
    return (torch.tanh(i + h),)


def lstm(i: Tensor, h: Tensor, state: Tensor, cell: Tensor) -> States:
    """Computes an LSTM step (Hochreiter and Schmidhuber 1997; Gers et al. 2000); i, h (R, 4 D)."""
    input_gate, forget_gate, new, output_gate = (i + h).chunk(4, 1)
    cell = torch.sigmoid(forget_gate) * cell + torch.sigmoid(input_gate) * torch.tanh(new)
    return torch.sigmoid(output_gate) * torch.tanh(cell), cell


def gru(i: Tensor, h: Tensor, state: Tensor) -> States:
    """Computes a GRU step (Cho et al. 2014, section 2.3); i, h (R, 3 D)."""
    width = state.shape[1]
    (i_gates, i_new), (h_gates, h_new) = (x.split([2 * width, width], 1) for x in (i, h))
    reset, update = torch.sigmoid(i_gates + h_gates).chunk(2, 1)
    new = torch.tanh(torch.addcmul(i_new, reset, h_new))
    return (torch.addcmul(new, update, state - new),)


FORMULAS: dict[CellKind, Callable[..., States]] = {"rnn": rnn, "lstm": lstm, "gru": gru}


@dataclass(frozen=True, eq=False)
class PackedOrder:
    """The time-major order of a ragged batch: longest sequence first; sequences that have ended drop out."""

    rows: Tensor  # (N,) the token index of each time-major row
    back: Tensor  # (N,) its inverse: the time-major row of each token
    alive: Tensor  # (max_len,) on the host: sequences still running at each step
    order: Tensor  # (B,) sequence indices, longest first
    rank: Tensor  # (B,) its inverse

    @staticmethod
    def of(layout: Layout) -> PackedOrder:
        """Returns the order of a layout; it is cached on the layout, because all layers share it."""
        cached: dict[str, Any] = layout.__dict__
        if "_packed_order" not in cached:
            sizes, count = layout.host_lengths, layout.num_sequences
            order = torch.tensor(sorted(range(count), key=lambda i: -sizes[i]), dtype=torch.int64).to(layout.device)
            rank = _inverse(order)
            step = layout.positions - layout.starts[layout.sequence_ids]
            rows = torch.argsort(step * max(count, 1) + rank[layout.sequence_ids])
            ended = np.cumsum(np.bincount(np.array(sizes, dtype=np.int64), minlength=layout.max_len))
            alive = torch.from_numpy(count - ended[: layout.max_len])
            cached["_packed_order"] = PackedOrder(rows, _inverse(rows), alive, order, rank)
        return cached["_packed_order"]


def _inverse(order: Tensor) -> Tensor:
    return torch.empty_like(order).scatter_(0, order, torch.arange(len(order), device=order.device))


def reorder(x: Tensor, order: Tensor, back: Tensor) -> Tensor:
    """Returns x[order]; the gradient is a gather by the inverse `back`, where torch would scatter."""
    return _Reorder.apply(x, order, back)


class _Reorder(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, order: Tensor, back: Tensor) -> Tensor:
        ctx.save_for_backward(order, back)
        return x.index_select(0, order)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None]:
        order, back = ctx.saved_tensors
        return reorder(grads[0], back, order), None, None
