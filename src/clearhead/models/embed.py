"""Embed: texts to vectors, in batches of a token budget, in order, without padding, for inputs of any length."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice

import torch
from torch import Tensor

from clearhead.attention import Layout
from clearhead.layers import POOLINGS
from clearhead.models.model import Model
from clearhead.models.sentence import SentenceConfig
from clearhead.text import Tokenizer, Tokens

BUDGET = 8192  # tokens in a batch: enough to fill the matrix units and to hold short texts of like length
READ = 512  # texts tokenised at a time


@dataclass(frozen=True, eq=False)
class Embedded:
    """The vectors of the next texts, and what they took."""

    vectors: Tensor  # (n, D), float32 on the CPU
    sizes: tuple[int, ...]  # (n,) tokens of each that were read
    had: tuple[int, ...]  # (n,) tokens of each before it was cut

    @property
    def num_tokens(self) -> int:
        """Tokens that were read."""
        return sum(self.sizes)

    @property
    def cut(self) -> tuple[bool, ...]:
        """Which texts are longer than the model reads."""
        return tuple(had > size for had, size in zip(self.had, self.sizes, strict=True))

    @property
    def num_cut(self) -> int:
        """How many are."""
        return sum(self.cut)

    @property
    def longest(self) -> int:
        """Tokens of the longest of them, before it was cut; 0 where none was."""
        return max((had for had, cut in zip(self.had, self.cut, strict=True) if cut), default=0)


def embed(
    model: Model, tokenizer: Tokenizer, texts: Iterable[str], config: SentenceConfig, *, budget: int = BUDGET
) -> Iterator[Embedded]:
    """Texts batch by batch; one batch is held at a time."""
    if config.pool not in POOLINGS:
        raise ValueError(f"there is no pooling {config.pool!r}: choose {', '.join(POOLINGS)}")
    if budget < 1:
        raise ValueError(f"a budget of {budget} tokens: give at least 1")
    remaining = iter(texts)
    while block := list(islice(remaining, READ)):
        for at, text in enumerate(block):
            if not isinstance(text, str):
                raise TypeError(f"text {at} is {type(text).__name__}, not a string")
        prompted = [config.prompt + text for text in block] if config.prompt else block
        tokens = tokenizer(prompted, max_len=config.max_len, offsets=False)
        had = {cut.text: cut.had for cut in tokens.cut}
        done = 0
        for count in batches(tokens.layout.sizes, budget):
            sizes = tuple(tokens.layout.sizes[done : done + count])
            whole = tuple(had.get(done + i, size) for i, size in enumerate(sizes))
            yield Embedded(_vectors(model, tokens, done, count, config), sizes, whole)
            done += count


def batches(sizes: Iterable[int], budget: int) -> Iterator[int]:
    """How many sequences go together, one number per batch: as many as fit the budget, at least one."""
    count = total = 0
    for size in sizes:
        if count and total + size > budget:
            yield count
            count = total = 0
        count, total = count + 1, total + size
    if count:
        yield count


@torch.inference_mode()
def _vectors(model: Model, tokens: Tokens, first: int, count: int, config: SentenceConfig) -> Tensor:
    offsets = tokens.layout.offsets
    rows = slice(int(offsets[first]), int(offsets[first + count]))
    device = next(iter(model.parameters())).device
    layout = Layout.of(tokens.layout.sizes[first : first + count]).to(device)
    stack = model.decoder if model.encoder is None else model.encoder
    assert stack is not None
    ids = tokens.ids[rows].to(device)
    marked = tokens.segments[rows]
    segments = marked.to(device) if bool(marked.any()) else None  # none at all is segment 0 throughout, and cheaper
    pooled = POOLINGS[config.pool](stack(ids, layout, segments=segments), layout).float()
    return (torch.nn.functional.normalize(pooled, dim=1) if config.normalize else pooled).cpu()
