"""The case of a pronoun by its neighbors: whether "her" is "him" or "his", and "his" is "her" or "hers".

A rule of word lists, without a parser. It reads only the words around the pronoun, never the pronoun itself, so that a
text and its mirror image are decided alike, and it leaves open what the words do not decide.
"""

import re
import tomllib
from pathlib import Path
from typing import Literal

PronounCase = Literal["object", "determiner"]
"""Whether a pronoun is alone ("I saw her", "it is his") or before a noun ("her book")."""

FILE = Path(__file__).with_name("pronoun_case.toml")
_WORDS = {name: frozenset(words.split()) for name, words in tomllib.loads(FILE.read_text(encoding="utf-8")).items()}
_CLOSING = frozenset(".,;:!?)]}…—–")
_AFTER = re.compile(r"(\s*)(\w+|[^\w\s]|$)")
_BEFORE = re.compile(r"(\w+)[\s\"'“‘(]*$")
_AND = r"\s*(?:/|\bor\b|\band\b)\s*\(?"
_PAIRS = re.compile(rf"\b(?:hi[sm]{_AND}hers?|hers?{_AND}hi[sm])\b", re.IGNORECASE)
_REACH = 40  # characters before a term in which the word before it is looked for


def pronoun_case(text: str, start: int, end: int) -> PronounCase | None:
    """Return the case of the pronoun text[start:end]; None where its neighbors do not decide it."""
    after = _AFTER.match(text, end)
    assert after is not None
    space, following = after[1], after[2]
    if not following or following in _CLOSING:
        return "object"
    if not (following[0].isalnum() or following[0] == "_"):
        closing = following in "\"”’'" and not space and not text[after.end() : after.end() + 1].isalnum()
        return "object" if closing or (following == "-" and space) else None
    if not space:
        return None
    word = following.lower()
    if word in _WORDS["function_words"]:
        return "object"
    if word in _WORDS["open_words"] or not word.isalpha() or word_before(text, start) in _WORDS["open_verbs"]:
        return None
    if following.islower() and _is_participle_or_adverb(word):
        return None
    return "determiner"


def _is_participle_or_adverb(word: str) -> bool:
    """Whether a word may be an adverb or a participle: "saw her running", "followed her slowly"."""
    return (word.endswith("ing") and word not in _WORDS["nouns_in_ing"]) or (
        word.endswith("ly") and word not in _WORDS["not_adverbs_in_ly"]
    )


def word_before(text: str, start: int) -> str:
    """Return the word before a position, in lower case; empty where a sentence begins there."""
    before = _BEFORE.search(text, max(0, start - _REACH), start)
    return before[1].lower() if before else ""


def names_both(text: str) -> bool:
    """Whether a text has a pair such as "his or her", whose second word has no case of its own."""
    return _PAIRS.search(text) is not None
