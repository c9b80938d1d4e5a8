"""Padded encoder: takes padded ids (B, T) and an attention mask, for `torch.export`.

Padding has no effect: positions count real tokens, no token attends to padding, and pooling skips it. So the output for
a text does not depend on its batch, with padding on either side. Attention runs on the `dense` kernel, which traces
with dynamic sizes.
"""

import copy
from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from clearhead.attention import AttentionCore, Layout, Mask, attend
from clearhead.export.outputs import OutputSpec, sentence_embedding, split_outputs
from clearhead.models.heads import ATTENTION, PretrainingHead, SequenceHead
from clearhead.models.model import Model
from clearhead.models.transformer import TransformerStack


@dataclass(frozen=True, eq=False)
class PaddingMask(Mask):
    """Allows attention to real tokens only."""

    mask: Tensor  # (B, S) bool

    def allows(self, sequence: Tensor, query: Tensor, key: Tensor) -> Tensor:
        return self.mask.unsqueeze(1)  # (B, 1, S): keys are in padded order


class PaddedEncoder(nn.Module):
    """Maps ids (B, T) and a mask (B, T) to the outputs of `spec`: (B, T, …) per token, (B, …) per text."""

    def __init__(self, model: Model, spec: OutputSpec) -> None:
        super().__init__()
        copied = copy.deepcopy(model).float().eval()
        assert isinstance(copied.encoder, TransformerStack)
        self.encoder, self.head, self.spec = copied.encoder, copied.head, spec
        for core in (m for m in self.modules() if isinstance(m, AttentionCore)):
            if core.method is not None:
                raise ValueError(
                    f"{core.method.kind} attention cannot be exported: export the model with exact attention, "
                    "`with_attention(None)`"
                )
            core.kernel = "dense"

    def forward(
        self, input_ids: Tensor, attention_mask: Tensor, token_type_ids: Tensor | None = None
    ) -> tuple[Tensor, ...]:
        mask = attention_mask != 0
        B, T = input_ids.shape
        positions = (mask.long().cumsum(1) - 1).clamp_min(0)
        layout = replace(Layout.uniform(B, T, input_ids.device), positions=positions.reshape(-1))
        segments = None if token_type_ids is None else token_type_ids.reshape(-1)
        x = self.encoder(input_ids.reshape(-1), layout, segments=segments, mask=PaddingMask(mask))  # (B T, D)
        return tuple(
            out.unflatten(0, (B, T)) if name in self.spec.of_tokens else out
            for name, out in zip(self.spec.names, self._outputs(x, mask), strict=True)
        )

    def _outputs(self, x: Tensor, mask: Tensor) -> tuple[Tensor, ...]:
        head, sentence = self.head, self.spec.sentence
        if sentence is not None:
            return x, sentence_embedding(PADDED_POOLINGS[sentence.pool](x, mask), sentence)
        if self.spec.names == ("last_hidden_state",):
            return (x,)
        if isinstance(head, SequenceHead):
            pooled = head.answer(self._pool(x, mask))
            return (x, pooled) if "pooler_output" in self.spec.names else (pooled,)
        if isinstance(head, PretrainingHead):
            return head.words.output(head.words.pre_logits(x)), head.answer(PADDED_POOLINGS["first"](x, mask))
        assert head is not None
        return split_outputs(head(x, None), self.spec)  # a per-token head needs no layout

    def _pool(self, x: Tensor, mask: Tensor) -> Tensor:
        if self.spec.pool != ATTENTION:
            return PADDED_POOLINGS[self.spec.pool](x, mask)
        assert isinstance(self.head, SequenceHead) and self.head.attention is not None
        B, T = mask.shape
        query = self.head.attention.weight.expand(B, -1).unsqueeze(1)  # (B, 1, D)
        rows = x.unsqueeze(1)
        single, full = Layout.uniform(B, 1, x.device), Layout.uniform(B, T, x.device)
        return attend(query, rows, rows, single, full, mask=PaddingMask(mask), kernel="dense").squeeze(1)


def _first(x: Tensor, mask: Tensor) -> Tensor:
    return _select(x, mask, -torch.arange(mask.shape[1], device=mask.device))


def _last(x: Tensor, mask: Tensor) -> Tensor:
    return _select(x, mask, torch.arange(mask.shape[1], device=mask.device))


def _select(x: Tensor, mask: Tensor, rank: Tensor) -> Tensor:
    """Returns the real token of each text with the highest rank, (B, D)."""
    minimum = rank.min() - 1
    index = torch.where(mask, rank, minimum).argmax(1)  # (B,)
    rows = index + torch.arange(len(mask), device=mask.device) * mask.shape[1]
    return x.index_select(0, rows) * mask.any(1, keepdim=True)


def _mean(x: Tensor, mask: Tensor) -> Tensor:
    rows = x.unflatten(0, mask.shape) * mask.unsqueeze(2)  # (B, T, D)
    return rows.sum(1) / mask.sum(1, keepdim=True).clamp_min(1)


def _max(x: Tensor, mask: Tensor) -> Tensor:
    rows = x.unflatten(0, mask.shape).masked_fill(~mask.unsqueeze(2), float("-inf"))
    return rows.amax(1).masked_fill(~mask.any(1, keepdim=True), 0.0)


# `layers.POOLINGS` on padded batches: token vectors (B T, D) and a mask (B, T) to (B, D).
PADDED_POOLINGS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "first": _first,
    "last": _last,
    "mean": _mean,
    "max": _max,
    "min": lambda x, mask: -_max(-x, mask),
}
