"""Padded: an encoder as other engines call one, on a rectangle of ids with a mask, for `torch.export`.

What the mask hides does not exist: positions count the tokens that are there, nobody attends to the others, and
poolings pass over them. So a text says the same alone and among longer ones, whichever side is filled up. Attention
runs on the `dense` kernel, of which every step traces with both sizes left open.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from clearhead.attention import Core, Layout, Mask, attend
from clearhead.models.answers import Says, one_vector, split
from clearhead.models.heads import ATTENTION, Pretraining, Sequence
from clearhead.models.model import Model
from clearhead.models.transformer import Stack


@dataclass(frozen=True, eq=False)
class There(Mask):
    """Only tokens that are there are seen."""

    seen: Tensor  # (B, S) bool

    def allows(self, sequence: Tensor, query: Tensor, key: Tensor) -> Tensor:
        return self.seen.unsqueeze(1)  # (B, 1, S): keys lie in the order of the rectangle


class Padded(nn.Module):
    """Ids (B, T) and a mask (B, T) to what `says` names: (B, T, …) of tokens, (B, …) of texts."""

    def __init__(self, model: Model, says: Says) -> None:
        super().__init__()
        copied = copy.deepcopy(model).float().eval()
        assert isinstance(copied.encoder, Stack)
        self.encoder, self.head, self.says = copied.encoder, copied.head, says
        for core in (m for m in self.modules() if isinstance(m, Core)):
            core.kernel = "dense"

    def forward(
        self, input_ids: Tensor, attention_mask: Tensor, token_type_ids: Tensor | None = None
    ) -> tuple[Tensor, ...]:
        """The answers in the order of their names."""
        seen = attention_mask != 0
        B, T = input_ids.shape
        positions = (seen.long().cumsum(1) - 1).clamp_min(0)
        layout = replace(Layout.equal(B, T, input_ids.device), positions=positions.reshape(-1))
        segments = None if token_type_ids is None else token_type_ids.reshape(-1)
        x = self.encoder(input_ids.reshape(-1), layout, segments=segments, mask=There(seen))  # (B T, D)
        return tuple(
            out.unflatten(0, (B, T)) if name in self.says.of_tokens else out
            for name, out in zip(self.says.names, self._answers(x, seen), strict=True)
        )

    def _answers(self, x: Tensor, seen: Tensor) -> tuple[Tensor, ...]:
        """Of tokens (B T, …), of texts (B, …)."""
        head, sentence = self.head, self.says.sentence
        if sentence is not None:
            return x, one_vector(POOLED[sentence.pool](x, seen), sentence)
        if self.says.names == ("last_hidden_state",):
            return (x,)
        if isinstance(head, Sequence):
            pooled = head.answer(self._pooled(x, seen))
            return (x, pooled) if "pooler_output" in self.says.names else (pooled,)
        if isinstance(head, Pretraining):
            return head.words.output(head.words.before(x)), head.answer(POOLED["first"](x, seen))
        assert head is not None
        return split(head(x, None), self.says)  # a head that reads tokens one by one asks no layout

    def _pooled(self, x: Tensor, seen: Tensor) -> Tensor:
        if self.says.pool != ATTENTION:
            return POOLED[self.says.pool](x, seen)
        assert isinstance(self.head, Sequence) and self.head.attention is not None
        B, T = seen.shape
        query = self.head.attention.weight.expand(B, -1).unsqueeze(1)  # (B, 1, D)
        rows = x.unsqueeze(1)
        once, all_of_it = Layout.equal(B, 1, x.device), Layout.equal(B, T, x.device)
        return attend(query, rows, rows, once, all_of_it, mask=There(seen), kernel="dense").squeeze(1)


def _first(x: Tensor, seen: Tensor) -> Tensor:
    return _at(x, seen, -torch.arange(seen.shape[1], device=seen.device))


def _last(x: Tensor, seen: Tensor) -> Tensor:
    return _at(x, seen, torch.arange(seen.shape[1], device=seen.device))


def _at(x: Tensor, seen: Tensor, rank: Tensor) -> Tensor:
    """The token of each text that ranks highest, (B, D)."""
    least = rank.min() - 1
    place = torch.where(seen, rank, least).argmax(1)  # (B,)
    rows = place + torch.arange(len(seen), device=seen.device) * seen.shape[1]
    return x.index_select(0, rows) * seen.any(1, keepdim=True)


def _mean(x: Tensor, seen: Tensor) -> Tensor:
    rows = x.unflatten(0, seen.shape) * seen.unsqueeze(2)  # (B, T, D)
    return rows.sum(1) / seen.sum(1, keepdim=True).clamp_min(1)


def _max(x: Tensor, seen: Tensor) -> Tensor:
    rows = x.unflatten(0, seen.shape).masked_fill(~seen.unsqueeze(2), float("-inf"))
    return rows.amax(1).masked_fill(~seen.any(1, keepdim=True), 0.0)


def _min(x: Tensor, seen: Tensor) -> Tensor:
    return -_max(-x, seen)


# `layers.POOLINGS` on a rectangle: token vectors (B T, D) and which of them are there, (B, T), to (B, D).
POOLED: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "first": _first,
    "last": _last,
    "mean": _mean,
    "max": _max,
    "min": _min,
}
