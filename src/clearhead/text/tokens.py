"""Tokens: a batch of texts as one row of ids with a layout, and the record of what was cut."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from clearhead.attention import Layout


@dataclass(frozen=True)
class Cut:
    """A text that did not fit: which one, how many tokens it had and how many were kept, special tokens counted."""

    text: int
    had: int
    kept: int


@dataclass(frozen=True, eq=False, repr=False)
class Tokens:
    """Texts as a tokenizer gives them: all tokens one after another, without padding.

    `parts` says what a token is: 0 and 1 for the first and second text of a pair, -1 for a special token that the
    template put there. `offsets` are the characters a token came from, in its own part: `text[start:end]`; spaces
    before a word are left out where the tokenizer's file says so. `words` counts the words of a part. Special tokens
    have -1 in both, and `text[-1:-1]` is the empty string. Both are None if the call said `offsets=False`.
    """

    ids: Tensor  # (N,) int64
    layout: Layout  # of B sequences
    segments: Tensor  # (N,) int64
    parts: Tensor  # (N,) int64
    sources: Tensor  # (B,) int64: the text a sequence came from; windows share theirs
    offsets: Tensor | None = None  # (N, 2) int64
    words: Tensor | None = None  # (N,) int64
    cut: tuple[Cut, ...] = ()

    def report(self) -> str:
        """One sentence on what was cut; empty if nothing was."""
        if not self.cut:
            return ""
        count, total = len(self.cut), self.layout.num_sequences
        were = "was" if count == 1 else "were"
        return (
            f"{count} of {total} texts {were} longer than {max(c.kept for c in self.cut)} tokens and {were} cut; "
            f"the longest had {max(c.had for c in self.cut)}"
        )

    def to(self, device: torch.device | str | None) -> Tokens:
        """The same tokens with their tensors on `device`."""
        return replace(
            self,
            ids=self.ids.to(device),
            layout=self.layout.to(device),
            segments=self.segments.to(device),
            parts=self.parts.to(device),
            sources=self.sources.to(device),
            offsets=None if self.offsets is None else self.offsets.to(device),
            words=None if self.words is None else self.words.to(device),
        )

    def __repr__(self) -> str:
        return f"Tokens({self.layout!r}{f', {len(self.cut)} cut' if self.cut else ''})"
