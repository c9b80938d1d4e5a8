"""Heads: map hidden states (N, D) and their layout to task outputs."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from clearhead.attention import Layout, attend
from clearhead.layers import ACTIVATIONS, POOLINGS, FeedForward, make_norm
from clearhead.layers.pooling import first_and_mean, second

HeadKind = Literal[
    "pooler", "attention_pooler", "lm", "sequence", "token", "span", "nsp", "pretraining", "discriminator"
]

ATTENTION = "attention"  # the pooling with a learned query
POOLS = (*POOLINGS, ATTENTION)
IMAGE_POOL = "first_and_mean"  # of DINOv2: the class token, and the mean of the patches


@dataclass(frozen=True, kw_only=True)
class HeadConfig:
    """The kind and sizes of a head."""

    kind: HeadKind
    width: int  # of the hidden states it reads
    labels: tuple[str, ...] = ()
    vocab_size: int = 0
    tied: bool = True  # the output weight is the token embedding
    bias: bool = True  # of the last layer
    scale: float = 1.0  # multiplies the input of the last layer (T5)
    pool: str = "first"  # one of POOLS or IMAGE_POOL; "attention": a learned query attends to all tokens
    pooler: bool = False  # dense layer with tanh over the pooled vector, as pre-trained (BERT)
    inner: int | None = None  # width of a dense layer before the last; None: no such layer
    inner_bias: bool = True
    activation: str = "gelu"
    norm_eps: float | None = None  # of a norm after that layer; None: no norm
    norm_bias: bool = True
    dropout: float = 0.0
    projection: int | None = None  # width of a linear layer after the pooling (CLIP); None: none
    projection_bias: bool = False
    num_heads: int = 1  # of a pooling by multi-head attention (SigLIP)
    distilled: bool = False  # another output layer reads the second token, and both are averaged (DeiT)


class HeadTransform(nn.Module):
    """A dense layer, an activation, and optionally a norm."""

    def __init__(self, config: HeadConfig) -> None:
        super().__init__()
        c = config
        assert c.inner is not None
        self.dense = nn.Linear(c.width, c.inner, bias=c.inner_bias)
        self.activation = HEAD_ACTIVATIONS[c.activation]
        self.norm = None if c.norm_eps is None else make_norm("layer", c.inner, c.norm_eps, bias=c.norm_bias)

    def forward(self, x: Tensor) -> Tensor:
        x = self.activation(self.dense(x))
        return x if self.norm is None else self.norm(x)


class LMHead(nn.Module):
    """Returns logits over the vocabulary for every token, (N, V)."""

    def __init__(self, config: HeadConfig, tokens: nn.Embedding) -> None:
        super().__init__()
        c = config
        self.inner = None if c.inner is None else HeadTransform(c)
        width = tokens.embedding_dim if c.tied or c.inner is not None else c.width
        self.output = nn.Linear(width, c.vocab_size, bias=c.bias)
        if c.tied:
            self.output.weight = tokens.weight
        self.scale = c.scale

    def forward(self, x: Tensor, layout: Layout) -> Tensor:
        return self.output(self.pre_logits(x))

    def pre_logits(self, x: Tensor) -> Tensor:
        """Returns the input of the output layer, (N, D)."""
        x = x if self.inner is None else self.inner(x)
        return x if self.scale == 1.0 else x * self.scale


class SequenceHead(nn.Module):
    """Returns logits over the labels for every sequence, (B, labels); without labels, the pooled vectors (B, D)."""

    def __init__(self, config: HeadConfig) -> None:
        super().__init__()
        c = config
        self.attention = nn.Linear(c.width, 1, bias=False) if c.pool == ATTENTION else None
        self.pool = self._attention_pool if c.pool == ATTENTION else {**POOLINGS, IMAGE_POOL: first_and_mean}[c.pool]
        self.pooler = nn.Linear(c.width, c.width) if c.pooler else None
        self.inner = None if c.inner is None else HeadTransform(c)
        self.projection = None if c.projection is None else nn.Linear(c.width, c.projection, bias=c.projection_bias)
        self.dropout = nn.Dropout(c.dropout)
        width = 2 * c.width if c.pool == IMAGE_POOL else c.inner or c.width
        self.output = nn.Linear(width, len(c.labels), bias=c.bias) if c.labels else None
        self.second = nn.Linear(c.width, len(c.labels), bias=c.bias) if c.distilled else None

    def forward(self, x: Tensor, layout: Layout) -> Tensor:
        out = self.answer(self.pool(x, layout))
        return out if self.second is None else (out + self.second(second(x, layout))) / 2

    def answer(self, x: Tensor) -> Tensor:
        x = x if self.pooler is None else torch.tanh(self.pooler(x))
        x = x if self.projection is None else self.projection(x)
        x = x if self.inner is None else self.inner(self.dropout(x))
        return x if self.output is None else self.output(self.dropout(x))

    def _attention_pool(self, x: Tensor, layout: Layout) -> Tensor:
        """Pools each sequence by attention with one learned query, (B, D)."""
        assert self.attention is not None
        single = Layout.from_lengths([1] * layout.num_sequences).to(x.device)
        query = self.attention.weight.to(x.dtype).expand(layout.num_sequences, -1)
        return attend(query.unsqueeze(1), x.unsqueeze(1), x.unsqueeze(1), single, layout).squeeze(1)


class AttentionPooler(nn.Module):
    """Returns one vector per sequence, (B, D): a learned query attends to all tokens, then a feed-forward layer."""

    def __init__(self, config: HeadConfig) -> None:
        super().__init__()
        c = config
        assert c.inner is not None and c.norm_eps is not None
        self.num_heads = c.num_heads
        self.probe = nn.Parameter(torch.randn(1, 1, c.width))
        self.in_weight = nn.Parameter(torch.empty(3 * c.width, c.width))
        self.in_bias = nn.Parameter(torch.zeros(3 * c.width))
        nn.init.xavier_uniform_(self.in_weight)
        self.attention_output = nn.Linear(c.width, c.width)
        self.norm = make_norm("layer", c.width, c.norm_eps)
        self.feedforward = FeedForward(c.width, c.inner, activation=c.activation)

    def forward(self, x: Tensor, layout: Layout) -> Tensor:
        weights, biases = self.in_weight.chunk(3), self.in_bias.chunk(3)
        single = Layout.from_lengths([1] * layout.num_sequences).to(x.device)
        inputs = (self.probe[0].expand(layout.num_sequences, -1), x, x)
        query, key, value = (
            nn.functional.linear(one, weight, bias).unflatten(1, (self.num_heads, -1))
            for one, weight, bias in zip(inputs, weights, biases, strict=True)
        )
        pooled = self.attention_output(attend(query, key, value, single, layout).flatten(1))
        return pooled + self.feedforward(self.norm(pooled))


class TokenHead(nn.Module):
    """Returns logits over the labels for every token, (N, labels)."""

    def __init__(self, config: HeadConfig) -> None:
        super().__init__()
        c = config
        self.inner = None if c.inner is None else HeadTransform(c)
        self.dropout = nn.Dropout(c.dropout)
        self.output = nn.Linear(c.inner or c.width, len(c.labels), bias=c.bias)

    def forward(self, x: Tensor, layout: Layout) -> Tensor:
        x = x if self.inner is None else self.inner(x)
        return self.output(self.dropout(x))


class PretrainingHead(nn.Module):
    """BERT's pre-training head: returns masked-LM logits (N, V) and next-sentence logits (B, 2)."""

    def __init__(self, config: HeadConfig, tokens: nn.Embedding) -> None:
        super().__init__()
        self.words = LMHead(config, tokens)
        self.pooler = nn.Linear(config.width, config.width)
        self.dropout = nn.Dropout(config.dropout)
        self.nsp = nn.Linear(config.width, 2)

    def forward(self, x: Tensor, layout: Layout) -> tuple[Tensor, Tensor]:
        return self.words(x, layout), self.answer(POOLINGS["first"](x, layout))

    def answer(self, x: Tensor) -> Tensor:
        return self.nsp(self.dropout(torch.tanh(self.pooler(x))))


HEAD_ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {**ACTIVATIONS, "tanh": torch.tanh}

HEADS: dict[HeadKind, Callable[[HeadConfig, nn.Embedding], nn.Module]] = {
    "lm": LMHead,
    "pretraining": PretrainingHead,
    "pooler": lambda config, tokens: SequenceHead(config),
    "attention_pooler": lambda config, tokens: AttentionPooler(config),
    "sequence": lambda config, tokens: SequenceHead(config),
    "nsp": lambda config, tokens: SequenceHead(config),
    "token": lambda config, tokens: TokenHead(config),
    "span": lambda config, tokens: TokenHead(config),
    "discriminator": lambda config, tokens: TokenHead(config),
}


def build_head(config: HeadConfig, tokens: nn.Embedding) -> nn.Module:
    """Builds a head; `tokens` is the embedding whose weight a tied output layer shares."""
    if config.kind not in HEADS:
        raise ValueError(f"there is no head {config.kind!r}: choose {', '.join(HEADS)}")
    return HEADS[config.kind](config, tokens)
