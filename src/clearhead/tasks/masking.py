"""Masking: which tokens are to be guessed, and what stands in their place (Devlin et al. 2019, section 3.1).

What is drawn for an example follows from its number and from `draw` alone: not from the batch it is in, nor from how
many processes share the work.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from clearhead.data import Integers
from clearhead.text import Tokenizer

SHARE = 0.15  # of the tokens are to be guessed
MASKED, RANDOM = 0.8, 0.1  # of those: replaced by the mask, by any token; the rest stay as they are
BEGINS = ("\u0120", "\u2581")  # a space, as BPE of bytes and as unigram write it


@dataclass(frozen=True, eq=False)
class Masks:
    """How tokens are hidden."""

    mask: int  # the token of the mask
    vocab_size: int
    special: frozenset[int]  # never guessed, never put in
    whole: Integers | None = None  # (V,) 1 for a token that goes on with the word before it: whole words are hidden
    share: float = SHARE
    masked: float = MASKED
    random: float = RANDOM

    def count(self, tokens: int) -> int:
        """How many of so many tokens are guessed: always the same, and at least one."""
        return int(self.counts(np.array([tokens]))[0])

    def counts(self, tokens: Integers) -> Integers:
        """The same for many examples at once."""
        return np.where(tokens > 0, np.maximum(1, np.rint(self.share * tokens)), 0).astype(np.int64)

    def hide(self, ids: Integers, example: int, draw: int, due: int | None = None) -> tuple[Integers, Integers]:
        """The ids with some of them hidden, and the places of those, in order; `due` is their number, if known."""
        source = np.random.Generator(np.random.Philox(np.random.SeedSequence([draw, example])))
        free = np.flatnonzero(~np.isin(ids, list(self.special)))
        places = self._chosen(ids, free, source, min(self.count(len(free)) if due is None else due, len(free)))
        hidden = ids.copy()
        fate = source.random(len(places))
        hidden[places[fate < self.masked]] = self.mask
        swapped = places[(fate >= self.masked) & (fate < self.masked + self.random)]
        hidden[swapped] = self._any(source, len(swapped))
        return hidden, places

    def _chosen(self, ids: Integers, free: Integers, source: np.random.Generator, due: int) -> Integers:
        if self.whole is None:
            return np.sort(source.permutation(free)[:due])
        begins = np.ones(len(free), dtype=bool)
        begins[1:] = (self.whole[ids[free[1:]]] == 0) | (np.diff(free) > 1)
        word = np.cumsum(begins) - 1  # of each free token
        sizes = np.bincount(word)
        order = source.permutation(len(sizes))
        behind = np.cumsum(sizes[order])
        taken = order[: int(np.searchsorted(behind, due, side="right"))]  # words that fit whole
        chosen = free[np.isin(word, taken)]
        short = due - len(chosen)
        if short > 0:  # the number of guesses is kept by the first tokens of the next word
            following = free[word == order[len(taken)]] if len(taken) < len(order) else free[:0]
            chosen = np.concatenate([chosen, following[:short]])
        return np.sort(chosen)

    def _any(self, source: np.random.Generator, count: int) -> Integers:
        found = source.integers(self.vocab_size, size=count)
        while len(bad := np.flatnonzero(np.isin(found, list(self.special)))):
            found[bad] = source.integers(self.vocab_size, size=len(bad))
        return found


def masks_of(tokenizer: Tokenizer, *, whole: bool = False, masked: float = MASKED, random: float = RANDOM) -> Masks:
    """How the words of a tokenizer are hidden."""
    if tokenizer.mask_id is None or tokenizer.bos_id is None or tokenizer.eos_id is None:
        raise ValueError("this tokenizer has no mask, or no marks around a text: learn one with BERT's template")
    special = frozenset(i for i in map(tokenizer.id, tokenizer.specials.values()) if i is not None)
    goes_on = None
    if whole:
        pieces = tokenizer.tokens(list(range(tokenizer.vocab_size)))
        marked = any(piece.startswith("##") for piece in pieces)  # WordPiece marks what goes on, the others what begins
        goes_on = np.array([p.startswith("##") if marked else not p.startswith(BEGINS) for p in pieces], dtype=np.int64)
    return Masks(tokenizer.mask_id, tokenizer.vocab_size, special, goes_on, masked=masked, random=random)
