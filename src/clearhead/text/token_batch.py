"""Token batches: the tokens of several texts as one tensor with a layout, and a record of truncations."""

from dataclasses import dataclass, replace
from typing import Self

import torch
from torch import Tensor

from clearhead.attention import Layout


@dataclass(frozen=True)
class Truncation:
    """A truncated text: its index and its number of tokens before and after, special tokens included."""

    text: int
    original_tokens: int
    kept_tokens: int


@dataclass(frozen=True, eq=False, repr=False)
class TokenBatch:
    """The output of a tokenizer: all tokens of all texts in sequence, without padding.

    `parts` is 0 or 1 for tokens of the first or second text of a pair, -1 for special tokens of the template. `offsets`
    are character positions in the token's own part: `text[start:end]`; they exclude spaces before a word if the
    tokenizer's file says so. `words` are word indices in a part. Special tokens have -1 in both, and `text[-1:-1]` is
    the empty string. Both are None if the tokenizer was called with `offsets=False`.
    """

    ids: Tensor  # (N,) int64
    layout: Layout  # of B sequences
    segments: Tensor  # (N,) int64
    parts: Tensor  # (N,) int64
    sources: Tensor  # (B,) int64: the index of the text; windows of a text share it
    offsets: Tensor | None = None  # (N, 2) int64
    words: Tensor | None = None  # (N,) int64
    truncations: tuple[Truncation, ...] = ()

    def report(self) -> str:
        """Returns one sentence about truncated texts; empty if there are none."""
        if not self.truncations:
            return ""
        count, total = len(self.truncations), self.layout.num_sequences
        were = "was" if count == 1 else "were"
        return (
            f"{count} of {total} texts {were} longer than {max(t.kept_tokens for t in self.truncations)} tokens and "
            f"{were} truncated; the longest had {max(t.original_tokens for t in self.truncations)}"
        )

    def to(self, device: torch.device | str | None) -> Self:
        """The same batch on another device."""
        names = ("ids", "layout", "segments", "parts", "sources", "offsets", "words")
        values = {name: getattr(self, name) for name in names}
        return replace(self, **{name: value.to(device) for name, value in values.items() if value is not None})

    def __repr__(self) -> str:
        return f"TokenBatch({self.layout!r}{f', {len(self.truncations)} truncated' if self.truncations else ''})"
