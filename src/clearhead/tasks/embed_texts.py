"""Text embedding: one vector per text, in order, in batches of a token budget without padding."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice

import torch
from torch import Tensor

from clearhead.attention import Layout
from clearhead.hub.sentence import SentenceConfig
from clearhead.layers import POOLINGS
from clearhead.models.model import Model
from clearhead.text import TokenBatch, Tokenizer

BATCH_TOKENS = 8192  # tokens per batch: enough to keep the matrix units busy
CHUNK = 512  # texts tokenized at a time


@dataclass(frozen=True, eq=False)
class EmbeddedBatch:
    """The vectors of the next texts, and their lengths."""

    vectors: Tensor  # (n, D), float32 on the CPU
    lengths: tuple[int, ...]  # (n,) tokens read of each text
    full_lengths: tuple[int, ...]  # (n,) tokens of each text before truncation

    @property
    def num_tokens(self) -> int:
        """The number of tokens read."""
        return sum(self.lengths)

    @property
    def truncated(self) -> tuple[bool, ...]:
        """Whether each text was truncated."""
        return tuple(had > size for had, size in zip(self.full_lengths, self.lengths, strict=True))

    @property
    def num_truncated(self) -> int:
        """The number of truncated texts."""
        return sum(self.truncated)

    @property
    def longest(self) -> int:
        """The original tokens of the longest truncated text; 0 where none was truncated."""
        return max((had for had, cut in zip(self.full_lengths, self.truncated, strict=True) if cut), default=0)


def embed_texts(
    model: Model,
    tokenizer: Tokenizer,
    texts: Iterable[str],
    config: SentenceConfig,
    *,
    batch_tokens: int = BATCH_TOKENS,
    prompt: str = "",
) -> Iterator[EmbeddedBatch]:
    """Yield the vectors of texts batch by batch, each after `prompt`; one batch is in memory at a time."""
    if config.pool not in POOLINGS:
        raise ValueError(f"there is no pooling {config.pool!r}: choose {', '.join(POOLINGS)}")
    if batch_tokens < 1:
        raise ValueError(f"batch_tokens is {batch_tokens}: give at least 1")
    remaining = iter(texts)
    while block := list(islice(remaining, CHUNK)):
        for at, text in enumerate(block):
            if not isinstance(text, str):
                raise TypeError(f"text {at} is {type(text).__name__}, not a string")
        prompted = [prompt + text for text in block] if prompt else block
        tokens = tokenizer(prompted, max_len=config.max_len, offsets=False)
        had = {cut.text: cut.original_tokens for cut in tokens.truncations}
        done = 0
        for count in batches(tokens.layout.host_lengths, batch_tokens):
            sizes = tuple(tokens.layout.host_lengths[done : done + count])
            original = tuple(had.get(done + i, size) for i, size in enumerate(sizes))
            yield EmbeddedBatch(_vectors(model, tokens, done, count, config), sizes, original)
            done += count


def batches(sizes: Iterable[int], budget: int) -> Iterator[int]:
    """Yield the number of sequences of each batch: as many as fit the budget, at least one."""
    count = total = 0
    for size in sizes:
        if count and total + size > budget:
            yield count
            count = total = 0
        count, total = count + 1, total + size
    if count:
        yield count


@torch.inference_mode()
def _vectors(model: Model, tokens: TokenBatch, first: int, count: int, config: SentenceConfig) -> Tensor:
    offsets = tokens.layout.offsets
    rows = slice(int(offsets[first]), int(offsets[first + count]))
    device = next(iter(model.parameters())).device
    layout = Layout.from_lengths(tokens.layout.host_lengths[first : first + count]).to(device)
    stack = model.decoder if model.encoder is None else model.encoder
    assert stack is not None
    ids = tokens.ids[rows].to(device)
    marked = tokens.segments[rows]
    segments = marked.to(device) if bool(marked.any()) else None  # None means segment 0 everywhere, and is cheaper
    pooled = POOLINGS[config.pool](stack(ids, layout, segments=segments), layout).float()
    return (torch.nn.functional.normalize(pooled, dim=1) if config.normalize else pooled).cpu()
