"""Token masking for masked language modelling (Devlin et al. 2019, section 3.1).

Randomness depends on an example's number and on `draw` only: not on the batch it is in, nor on the number of processes.
"""

from dataclasses import dataclass

import numpy as np

from clearhead.data import Integers
from clearhead.text import Tokenizer

MASK_FRACTION = 0.15  # of the tokens are predicted
MASKED, RANDOM = 0.8, 0.1  # of those: replaced by the mask, by a random token; the rest are unchanged
WORD_START = ("\u0120", "\u2581")  # a space in byte-level BPE and in unigram


@dataclass(frozen=True, eq=False)
class TokenMasker:
    """Chooses tokens to predict and replaces them."""

    mask: int  # the id of the mask token
    vocab_size: int
    special: frozenset[int]  # never predicted, never inserted
    continues: Integers | None = None  # (V,) 1 for a token that continues a word; given, words are masked together
    fraction: float = MASK_FRACTION
    masked: float = MASKED
    random: float = RANDOM

    def count(self, tokens: int) -> int:
        """Return how many of these tokens are predicted, at least one."""
        return int(self.counts(np.array([tokens]))[0])

    def counts(self, tokens: Integers) -> Integers:
        return np.where(tokens > 0, np.maximum(1, np.rint(self.fraction * tokens)), 0).astype(np.int64)

    def hide(self, ids: Integers, example: int, draw: int, count: int | None = None) -> tuple[Integers, Integers]:
        """Return the masked ids and the sorted positions to predict; `count` is their number, if known."""
        source = np.random.Generator(np.random.Philox(np.random.SeedSequence([draw, example])))
        free = np.flatnonzero(~np.isin(ids, list(self.special)))
        places = self._choose(ids, free, source, min(self.count(len(free)) if count is None else count, len(free)))
        masked = ids.copy()
        uniform = source.random(len(places))
        masked[places[uniform < self.masked]] = self.mask
        swapped = places[(uniform >= self.masked) & (uniform < self.masked + self.random)]
        masked[swapped] = self._random_tokens(source, len(swapped))
        return masked, places

    def _choose(self, ids: Integers, free: Integers, source: np.random.Generator, count: int) -> Integers:
        if self.continues is None:
            return np.sort(source.permutation(free)[:count])
        begins = np.ones(len(free), dtype=bool)
        begins[1:] = (self.continues[ids[free[1:]]] == 0) | (np.diff(free) > 1)
        word = np.cumsum(begins) - 1  # of each free token
        sizes = np.bincount(word)
        order = source.permutation(len(sizes))
        totals = np.cumsum(sizes[order])
        taken = order[: int(np.searchsorted(totals, count, side="right"))]  # words that fit completely
        chosen = free[np.isin(word, taken)]
        short = count - len(chosen)
        if short > 0:  # the first tokens of the next word make up the count
            following = free[word == order[len(taken)]] if len(taken) < len(order) else free[:0]
            chosen = np.concatenate([chosen, following[:short]])
        return np.sort(chosen)

    def _random_tokens(self, source: np.random.Generator, count: int) -> Integers:
        tokens = source.integers(self.vocab_size, size=count)
        while len(bad := np.flatnonzero(np.isin(tokens, list(self.special)))):
            tokens[bad] = source.integers(self.vocab_size, size=len(bad))
        return tokens


def token_masker(
    tokenizer: Tokenizer, *, whole: bool = False, masked: float = MASKED, random: float = RANDOM
) -> TokenMasker:
    """Return the masker for a tokenizer; `whole` masks complete words."""
    if tokenizer.mask_id is None or tokenizer.bos_id is None or tokenizer.eos_id is None:
        raise ValueError("this tokenizer has no mask token, or no tokens around a text: train one with BERT's template")
    special = frozenset(i for i in map(tokenizer.id, tokenizer.specials.values()) if i is not None)
    continues = None
    if whole:
        pieces = tokenizer.tokens(list(range(tokenizer.vocab_size)))
        marked = any(piece.startswith("##") for piece in pieces)  # WordPiece marks continuations, others word starts
        flags = [p.startswith("##") if marked else not p.startswith(WORD_START) for p in pieces]
        continues = np.array(flags, dtype=np.int64)
    return TokenMasker(tokenizer.mask_id, tokenizer.vocab_size, special, continues, masked=masked, random=random)
