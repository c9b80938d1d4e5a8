"""Heads: from the vectors of the last layer to an answer. A head takes (x (N, D), layout) like a pooling does."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from clearhead.attention import Layout, attend
from clearhead.layers import ACTIVATIONS, POOLINGS, make_norm

Kind = Literal["pooler", "vocabulary", "sequence", "token", "span", "next", "pretraining", "discriminator"]

ATTENTION = "attention"  # the pooling that is learnt
POOLS = (*POOLINGS, ATTENTION)


@dataclass(frozen=True, kw_only=True)
class HeadConfig:
    """What a head is made of."""

    kind: Kind
    width: int  # of the vectors it reads
    labels: tuple[str, ...] = ()
    vocab_size: int = 0
    tied: bool = True  # the vocabulary's vectors are the token embedding's
    bias: bool = True  # of the last layer
    scale: float = 1.0  # on the vectors before the last layer (T5)
    pool: str = "first"  # one of POOLINGS, or "attention": a learnt query looks at all tokens
    pooler: bool = False  # a dense layer with tanh over the pooled token, as pre-trained (BERT)
    inner: int | None = None  # width of a dense layer before the last; None: there is none
    inner_bias: bool = True
    activation: str = "gelu"
    norm_eps: float | None = None  # a norm after it; None: there is none
    norm_bias: bool = True
    dropout: float = 0.0


class Inner(nn.Module):
    """A dense layer, an activation, and a norm where there is one."""

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


class Vocabulary(nn.Module):
    """A score for every word of the vocabulary at every token, (N, V)."""

    def __init__(self, config: HeadConfig, tokens: nn.Embedding) -> None:
        super().__init__()
        c = config
        self.inner = None if c.inner is None else Inner(c)
        self.output = nn.Linear(tokens.embedding_dim, c.vocab_size, bias=c.bias)
        if c.tied:
            self.output.weight = tokens.weight
        self.scale = c.scale

    def forward(self, x: Tensor, layout: Layout) -> Tensor:
        return self.output(self.before(x))

    def before(self, x: Tensor) -> Tensor:
        """The vectors that are held against those of the vocabulary, (N, D)."""
        x = x if self.inner is None else self.inner(x)
        return x if self.scale == 1.0 else x * self.scale


class Sequence(nn.Module):
    """A score for every label of each sequence, (B, labels); without labels, the pooled vector itself, (B, D)."""

    def __init__(self, config: HeadConfig) -> None:
        super().__init__()
        c = config
        self.attention = nn.Linear(c.width, 1, bias=False) if c.pool == ATTENTION else None
        self.pool = self._gather if c.pool == ATTENTION else POOLINGS[c.pool]
        self.pooler = nn.Linear(c.width, c.width) if c.pooler else None
        self.inner = None if c.inner is None else Inner(c)
        self.dropout = nn.Dropout(c.dropout)
        self.output = nn.Linear(c.inner or c.width, len(c.labels), bias=c.bias) if c.labels else None

    def forward(self, x: Tensor, layout: Layout) -> Tensor:
        return self.answer(self.pool(x, layout))

    def answer(self, x: Tensor) -> Tensor:
        """What is said of pooled vectors (B, D)."""
        x = x if self.pooler is None else torch.tanh(self.pooler(x))
        x = x if self.inner is None else self.inner(self.dropout(x))
        return x if self.output is None else self.output(self.dropout(x))

    def _gather(self, x: Tensor, layout: Layout) -> Tensor:
        """What one learnt query, the same for all sequences, gathers from each of them, (B, D)."""
        assert self.attention is not None
        once = Layout.of([1] * layout.num_sequences).to(x.device)
        query = self.attention.weight.to(x.dtype).expand(layout.num_sequences, -1)
        return attend(query.unsqueeze(1), x.unsqueeze(1), x.unsqueeze(1), once, layout).squeeze(1)


class Token(nn.Module):
    """A score for every label of each token, (N, labels)."""

    def __init__(self, config: HeadConfig) -> None:
        super().__init__()
        c = config
        self.inner = None if c.inner is None else Inner(c)
        self.dropout = nn.Dropout(c.dropout)
        self.output = nn.Linear(c.inner or c.width, len(c.labels), bias=c.bias)

    def forward(self, x: Tensor, layout: Layout) -> Tensor:
        x = x if self.inner is None else self.inner(x)
        return self.output(self.dropout(x))


class Pretraining(nn.Module):
    """BERT's two tasks at once: the words (N, V), and whether the second sentence follows the first, (B, 2)."""

    def __init__(self, config: HeadConfig, tokens: nn.Embedding) -> None:
        super().__init__()
        self.words = Vocabulary(config, tokens)
        self.pooler = nn.Linear(config.width, config.width)
        self.dropout = nn.Dropout(config.dropout)
        self.follows = nn.Linear(config.width, 2)

    def forward(self, x: Tensor, layout: Layout) -> tuple[Tensor, Tensor]:
        return self.words(x, layout), self.answer(POOLINGS["first"](x, layout))

    def answer(self, x: Tensor) -> Tensor:
        """Whether the second sentence follows, of pooled vectors (B, D)."""
        return self.follows(self.dropout(torch.tanh(self.pooler(x))))


HEAD_ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {**ACTIVATIONS, "tanh": torch.tanh}

HEADS: dict[Kind, Callable[[HeadConfig, nn.Embedding], nn.Module]] = {
    "vocabulary": Vocabulary,
    "pretraining": Pretraining,
    "pooler": lambda config, tokens: Sequence(config),
    "sequence": lambda config, tokens: Sequence(config),
    "next": lambda config, tokens: Sequence(config),
    "token": lambda config, tokens: Token(config),
    "span": lambda config, tokens: Token(config),
    "discriminator": lambda config, tokens: Token(config),
}


def build_head(config: HeadConfig, tokens: nn.Embedding) -> nn.Module:
    """The head of this kind; `tokens` is the embedding whose vectors a vocabulary may share."""
    if config.kind not in HEADS:
        raise ValueError(f"there is no head {config.kind!r}: choose {', '.join(HEADS)}")
    return HEADS[config.kind](config, tokens)
