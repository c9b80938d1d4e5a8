"""The gender of the pronoun in a German or French translation that translates the English one."""

import re
from collections.abc import Sequence

from clearhead.audit.gendered_nouns import Gender, Language
from clearhead.metrics.bootstrap import Numbers

_PLURAL = frozenset({"they", "them", "their", "theirs", "themselves", "themself"})
_ENGLISH = _PLURAL | frozenset({"she", "her", "hers", "herself", "he", "him", "his", "himself"})
_GERMAN: tuple[tuple[re.Pattern[str], Gender], ...] = (
    (re.compile(r"er|ihn|ihm|seine?[nmrs]?"), "male"),
    (re.compile(r"sie|ihre?[nmrs]?"), "female"),
)
_FRENCH: dict[str, Gender] = {"il": "male", "elle": "female"}
# Words after `il` that is no person: il y a, il faut.
_IMPERSONAL = frozenset({"y", "faut", "fallait", "faudrait", "pleut", "semble"})
_PREPOSITIONS = frozenset(
    {"à", "de", "d'", "pour", "avec", "par", "sans", "chez", "contre", "sur", "devant", "derrière", "envers"}
)
_THAN = frozenset({"que", "qu'"})  # before a stressed pronoun (plus que lui), but also before a subject
_MIN_SUBJECT = 0.2  # of the alignment of a French subject: il and elle also refer to things


def pronoun_gender(
    language: Language, source: Sequence[str], target: Sequence[str], alignment: Numbers
) -> Gender | None:
    """Return the gender of the pronoun that is aligned with the English one; None where it marks none.

    The plural `sie` and `ils` of `they` mark none. The alignment has a row for each target word, (T, S).
    """
    columns = [place for place, word in enumerate(source) if word.lower() in _ENGLISH]
    if not columns:
        return None
    strongest, chosen = -1.0, None
    for place in range(len(target)):
        gender, strength = _gender(language, target, place), float(alignment[place, columns].sum())
        if gender is None or (_is_french_subject(language, target, place) and strength < _MIN_SUBJECT):
            continue
        if strength > strongest:
            strongest, chosen = strength, gender
    is_plural = any(source[place].lower() in _PLURAL for place in columns)
    return None if is_plural and (language == "fr" or chosen == "female") else chosen


def _is_french_subject(language: Language, words: Sequence[str], place: int) -> bool:
    before = words[place - 1].lower() if place else ""
    return language == "fr" and before not in _PREPOSITIONS


def _gender(language: Language, words: Sequence[str], place: int) -> Gender | None:
    """Return the gender of a pronoun of the third person; None for other words."""
    word = words[place].lower()
    if language == "de":
        return next((gender for pattern, gender in _GERMAN if pattern.fullmatch(word)), None)
    after = words[place + 1].lower() if place + 1 < len(words) else ""
    if word == "lui":  # without a preposition, it is the dative of both
        return "male" if place and words[place - 1].lower() in _PREPOSITIONS | _THAN else None
    return None if word == "il" and after in _IMPERSONAL else _FRENCH.get(word)
