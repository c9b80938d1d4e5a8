"""Token labels: tokens as readable text, with marks for special tokens and word continuations."""

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cache

_SPECIAL = re.compile(r"\[[A-Z]+\d*\]|<[^<>\s]{1,20}>|<\|[^|]*\|>")
_SPACE, _WORD = "Ġ", "▁"  # the space before a word in byte-level and SentencePiece vocabularies


@dataclass(frozen=True)
class TokenLabels:
    """Readable labels, one per token."""

    words: tuple[str, ...]
    special: tuple[bool, ...]
    joined: tuple[bool, ...]  # continues the word of the previous token

    def __len__(self) -> int:
        return len(self.words)


def token_labels(tokens: Sequence[str], specials: Collection[str] | None = None) -> TokenLabels:
    """Return labels for tokens in vocabulary form (WordPiece, byte-level BPE or SentencePiece).

    Without `specials`, special tokens are recognized by their form, such as [CLS] or </s>.
    """
    special = tuple(bool(_SPECIAL.fullmatch(p)) if specials is None else p in specials for p in tokens)
    ordinary = [p for p, s in zip(tokens, special, strict=True) if not s]
    if any(p.startswith("##") for p in ordinary):
        joined = [p.startswith("##") for p in tokens]
        words = [p[2:] if j else p for p, j in zip(tokens, joined, strict=True)]
    elif any(_SPACE in p for p in ordinary):
        joined = [not p.startswith(_SPACE) for p in tokens]
        words = [p if s else _from_bytes(p).removeprefix(" ") for p, s in zip(tokens, special, strict=True)]
    elif any(p.startswith(_WORD) for p in ordinary):
        joined = [not p.startswith(_WORD) for p in tokens]
        words = [p.removeprefix(_WORD) for p in tokens]
    else:
        joined, words = [False] * len(tokens), list(tokens)
    first = [i == 0 or special[i - 1] for i in range(len(tokens))]
    continues = tuple(j and not s and not f for j, s, f in zip(joined, special, first, strict=True))
    return TokenLabels(tuple(words), special, continues)


@cache
def _byte_of_character() -> dict[str, int]:
    """Return the byte that each character of a byte-level vocabulary encodes (Radford et al. 2019)."""
    printable = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
    others = [b for b in range(256) if b not in printable]
    return {chr(b): b for b in printable} | {chr(256 + i): b for i, b in enumerate(others)}


def _from_bytes(token: str) -> str:
    """Return a byte-level token as text; incomplete UTF-8 sequences become backslash escapes."""
    table = _byte_of_character()
    if not all(character in table for character in token):
        return token
    return bytes(table[character] for character in token).decode("utf-8", errors="backslashreplace")
