"""Quick: the steps of a Transformer on a CPU, in as few operations as there are.

The same numbers as the modules give, from the same weights: queries, keys and values of a layer are one product,
weights are packed once for the matrix units, and nothing is checked or planned twice. It is for decoders that nobody
watches or changes; `state.py` asks `refuse` first, and runs the modules themselves where it has to.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from clearhead.attention import Dot, MultiHead, ScaledDot
from clearhead.attention.project import fused
from clearhead.attention.slots import Memory, Slots
from clearhead.layers import Block, FeedForward, Gated
from clearhead.models.heads import Vocabulary
from clearhead.models.rounding import widened
from clearhead.models.transformer import Stack

Norm = Callable[[Tensor], Tensor]
Rotate = Callable[[Tensor], Tensor]


def refuse(decoder: Stack, head: Vocabulary, dtype: torch.dtype, device: torch.device) -> str | None:
    """Why a decoder cannot take the quick way, or None if it can."""
    if device.type != "cpu" or dtype not in (torch.float32, torch.bfloat16) or not torch.backends.mkldnn.is_available():
        return "it is for oneDNN on a CPU"
    if torch.is_grad_enabled() or decoder.training:
        return "it is for inference"
    for part in (decoder, head):
        for module in part.modules():
            if module._forward_hooks or module._forward_pre_hooks:
                return f"somebody watches a {type(module).__name__}"
            if isinstance(module, MultiHead) and type(module.core.score) not in (ScaledDot, Dot):
                return "its scores are not dot products"
            if isinstance(module, Block) and type(module.feedforward) not in (FeedForward, Gated):
                return "its feed-forward layers are not known"
            if isinstance(module, nn.Linear) and type(module) is not nn.Linear:
                return f"it has a layer of type {type(module).__name__}"
    return None


@dataclass(frozen=True, eq=False)
class Packed:
    """Linear layers with one input, side by side, laid out for the matrix units."""

    weight: Tensor
    bias: Tensor | None

    @staticmethod
    def of(first: nn.Linear, *more: nn.Linear, rows: int) -> Packed:
        """The layers' weights joined; `rows` is about how many rows they will multiply."""
        layers = (first, *more)
        weight = torch.cat([layer.weight for layer in layers]) if more else first.weight
        biases: list[Tensor | None] = [layer.bias for layer in layers]
        joined = [b.detach() for b in biases if b is not None]
        return Packed(
            torch.ops.mkldnn._reorder_linear_weight(weight.detach(), rows), torch.cat(joined) if joined else None
        )

    def __call__(self, x: Tensor, activation: str | None = None, add: Tensor | None = None) -> Tensor:
        return fused(x, self.weight, self.bias, activation, add)


class Attention:
    """One attention over places: the rows of a sequence's hypotheses are queries of one sequence."""

    def __init__(self, part: MultiHead, *, cross: bool, rows: int) -> None:
        self.width = part.head_dim
        self.heads = part.query.out_features // self.width
        self.groups = part.key.out_features // self.width
        self.context = Packed.of(part.key, part.value, rows=rows) if cross else None
        self.inputs = Packed.of(part.query, rows=rows) if cross else Packed.of(
            part.query, part.key, part.value, rows=rows
        )  # fmt: skip
        self.output = Packed.of(part.output, rows=rows)
        self.query_norm: nn.Module | None = part.query_norm
        self.key_norm: nn.Module | None = part.key_norm
        scale = part.core.score.scale(self.width)
        assert scale is not None
        self.scale = scale

    def query(self, q: Tensor, rotate: Rotate | None) -> Tensor:
        """Queries (R, H, K), normed and turned."""
        q = q if self.query_norm is None else self.query_norm(q)
        return q if rotate is None else rotate(q)

    def key(self, k: Tensor, rotate: Rotate | None) -> Tensor:
        """The same for keys, (R, G, K)."""
        k = k if self.key_norm is None else self.key_norm(k)
        return k if rotate is None else rotate(k)

    def remember(self, layer: int, memory: Tensor, held: Memory) -> None:
        """Make the keys and values of a context, once."""
        assert self.context is not None
        parts = self.context(widened(memory))[: len(memory)].view(len(memory), -1, self.width)  # (M, 2 G, K)
        held.put(layer, self.key(parts[:, : self.groups], None), parts[:, self.groups :])

    def spread(self, table: Tensor, width: int = 1) -> Tensor:
        """What is added to scores, (B, 1 or H, 1 or W, S), as `gather` wants it; `width` is W where the table has 1."""
        B, heads, W, S = table.shape
        shared = self.heads // self.groups
        if heads > 1:
            table = table.view(B, self.groups, shared, W, S).transpose(2, 3).flatten(2, 3)  # (B, G, W H/G, S)
        elif W > 1 and shared > 1:
            table = table.repeat_interleave(shared, 2)
        if table.dtype == torch.float32 or max(W, width) * shared == 1:
            return table
        return table.expand(B, self.groups, -1, S).flatten(0, 1)  # (B G, W H/G, S)

    def gather(self, q: Tensor, k: Tensor, v: Tensor, table: Tensor | None) -> Tensor:
        """Queries (R, H, K) over places (B, G, S, K): (R, H K)."""
        B, G = k.shape[:2]
        if len(q) == B and self.heads == G:
            out = F.scaled_dot_product_attention(q.unsqueeze(2), k, v, attn_mask=table, scale=self.scale)
            return out.view(B, -1)
        q = q.view(B, -1, G, self.heads // G, self.width)  # (B, W, G, H/G, K)
        W, shared = q.shape[1], q.shape[3]
        q = q.permute(0, 2, 1, 3, 4).flatten(2, 3)  # (B, G, W H/G, K)
        if table is None or table.dim() == 4:
            out = F.scaled_dot_product_attention(q, k, v, attn_mask=table, scale=self.scale)
        else:  # a few queries in bfloat16: plain products are faster
            scores = torch.baddbmm(table, q.flatten(0, 1), k.flatten(0, 1).transpose(1, 2), alpha=self.scale)
            out = torch.bmm(torch.softmax(scores, -1), v.flatten(0, 1)).unflatten(0, (B, G))
        return out.unflatten(2, (W, shared)).permute(0, 2, 1, 3, 4).reshape(B * W, -1)


class Layer:
    """One block."""

    def __init__(self, block: Block, rows: int) -> None:
        feedforward = block.feedforward
        assert isinstance(feedforward, FeedForward | Gated)
        self.norm_first = block.norm_first
        self.norms = [_norm(block.attention_norm), _norm(block.feedforward_norm)]
        self.attention = Attention(block.attention, cross=False, rows=rows)
        self.cross: Attention | None = None
        if block.cross is not None and block.cross_norm is not None:
            self.cross = Attention(block.cross, cross=True, rows=rows)
            self.norms.insert(1, _norm(block.cross_norm))
        self.activation = feedforward.activation
        self.up = Packed.of(feedforward.up, rows=rows)
        self.gate = Packed.of(feedforward.gate, rows=rows) if isinstance(feedforward, Gated) else None
        self.down = Packed.of(feedforward.down, rows=rows)

    def step(
        self, x: Tensor, number: int, slots: Slots, table: Tensor | None, rotate: Rotate | None,
        context: tuple[Memory, Tensor] | None,
    ) -> Tensor:  # fmt: skip
        """One token of each hypothesis, (R', D) to (R', D): the rows of R hypotheses, then some of nobody."""
        first, attention = self.norm_first, self.attention
        heads, groups = attention.heads, attention.groups
        parts = attention.inputs(self.norms[0](x) if first else x).view(len(x), -1, attention.width)  # (R', H + 2 G, K)
        parts = parts[: slots.num_sequences * slots.width]
        q, k, v = parts[:, :heads], parts[:, heads : heads + groups], parts[:, heads + groups :]
        slots.set(number, attention.key(k, rotate), v)
        keys, values = slots.places(number)
        if table is None:  # all that is used is seen
            keys, values = keys[:, :, : slots.used], values[:, :, : slots.used]
        gathered = attention.gather(attention.query(q, rotate), keys, values, table)
        x = attention.output(widened(gathered, len(x)), add=x)
        x = x if first else self.norms[0](x)
        if self.cross is not None and context is not None:
            held, beyond = context
            q = self.cross.inputs(self.norms[1](x) if first else x).view(len(x), -1, self.cross.width)
            q = self.cross.query(q[: len(gathered)], None)
            x = self.cross.output(widened(self.cross.gather(q, *held.places(number), beyond), len(x)), add=x)
            x = x if first else self.norms[1](x)
        h = self.norms[-1](x) if first else x
        if self.gate is None:
            h = self.up(h, self.activation)
        else:
            h = self.gate(h, self.activation) * self.up(h)
        x = self.down(h, add=x)
        return x if first else self.norms[-1](x)


def _norm(norm: nn.Module) -> Norm:
    """A norm without the way through the module."""
    if type(norm) is not nn.LayerNorm:
        return norm
    shape, weight, bias, eps = norm.normalized_shape, norm.weight, norm.bias, norm.eps
    return lambda x: torch.layer_norm(x, shape, weight, bias, eps)


class Quick:
    """A decoder and its head, ready to step. Weights are those of the moment: make one for each search."""

    def __init__(self, decoder: Stack, head: Vocabulary, rows: int) -> None:
        ready: dict[int, Layer] = {}
        for block in decoder.blocks:
            assert isinstance(block, Block)
            if id(block) not in ready:
                ready[id(block)] = Layer(block, rows)
        self.layers = [ready[id(block)] for block in decoder.blocks]
        self._norm, self._before = decoder.norm, head.before
        self._words = Packed.of(head.output, rows=rows)

    def logits(self, x: Tensor) -> Tensor:
        """The scores of all words, (R, V), of the last layer's vectors (R, D)."""
        return self._words(self._before(x if self._norm is None else self._norm(x)))
