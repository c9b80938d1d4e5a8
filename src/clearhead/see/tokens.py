"""Tokens: pieces of a vocabulary as a reader wants to see them, and which of them go on with a word."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cache

_SPECIAL = re.compile(r"\[[A-Z]+\d*\]|<[^<>\s]{1,20}>|<\|[^|]*\|>")
_SPACE, _WORD = "Ġ", "▁"  # how byte-level and SentencePiece vocabularies write the space before a word


@dataclass(frozen=True)
class Names:
    """The names of tokens, as long as there are tokens."""

    words: tuple[str, ...]
    special: tuple[bool, ...]
    joined: tuple[bool, ...]  # goes on with the word before it

    def __len__(self) -> int:
        return len(self.words)


def names(pieces: Sequence[str], specials: Collection[str] | None = None) -> Names:
    """Pieces as their vocabulary writes them, to names; without `specials` they are told by their form."""
    special = tuple(bool(_SPECIAL.fullmatch(p)) if specials is None else p in specials for p in pieces)
    plain = [p for p, s in zip(pieces, special, strict=True) if not s]
    if any(p.startswith("##") for p in plain):
        joined = [p.startswith("##") for p in pieces]
        words = [p[2:] if j else p for p, j in zip(pieces, joined, strict=True)]
    elif any(_SPACE in p for p in plain):
        joined = [not p.startswith(_SPACE) for p in pieces]
        words = [p if s else _from_bytes(p).removeprefix(" ") for p, s in zip(pieces, special, strict=True)]
    elif any(p.startswith(_WORD) for p in plain):
        joined = [not p.startswith(_WORD) for p in pieces]
        words = [p.removeprefix(_WORD) for p in pieces]
    else:
        joined, words = [False] * len(pieces), list(pieces)
    first = [i == 0 or special[i - 1] for i in range(len(pieces))]
    goes_on = tuple(j and not s and not f for j, s, f in zip(joined, special, first, strict=True))
    return Names(tuple(words), special, goes_on)


@cache
def _bytes() -> dict[str, int]:
    """The letters that byte-level vocabularies write bytes with (Radford et al. 2019)."""
    seen = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
    hidden = [b for b in range(256) if b not in seen]
    return {chr(b): b for b in seen} | {chr(256 + i): b for i, b in enumerate(hidden)}


def _from_bytes(piece: str) -> str:
    """A byte-level piece as text; bytes of a letter that is cut in two are written as numbers."""
    table = _bytes()
    if not all(letter in table for letter in piece):
        return piece
    return bytes(table[letter] for letter in piece).decode("utf-8", errors="backslashreplace")
