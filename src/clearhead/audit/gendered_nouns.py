"""Nouns for people in German and French: the forms of a table, and where they occur in a text.

The table, `gendered_nouns.toml`, lists the translations of the occupations of WinoMT (Stanovsky et al. 2019) and says
which nouns mark gender by their form. Inflected and feminine forms follow from rules.
"""

import re
import tomllib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal

Gender = Literal["male", "female", "neutral"]
Language = Literal["de", "fr"]
LANGUAGES: tuple[Language, ...] = ("de", "fr")

_WORD = re.compile(r"[^\W_]+(?:-[^\W_]+)*'?|[^\w\s]")
_MIN_HEAD = 4  # letters of the last part of a compound: Chef|koch
_MIN_MODIFIER = 3  # letters before it


@dataclass(frozen=True, kw_only=True)
class NounForm:
    """A form of a noun for people: the gender it marks, and the English nouns it may translate."""

    gender: Gender | None  # None: the article or an adjective decides
    default: Gender = "neutral"  # where nothing decides
    declined: bool = False  # like an adjective: der Angestellte, ein Angestellter
    occupations: frozenset[str] = frozenset()

    def merged(self, other: "NounForm") -> "NounForm":
        """Return a form that belongs to two nouns; where they differ in gender, the article decides."""
        same = self.gender == other.gender
        return NounForm(
            gender=self.gender if same else None,
            default=self.default if same else "neutral",
            declined=self.declined or other.declined,
            occupations=self.occupations | other.occupations,
        )


@dataclass(frozen=True, kw_only=True)
class Mention:
    """A noun for people in a list of words."""

    start: int
    stop: int
    form: NounForm


@dataclass(frozen=True, eq=False)
class GenderedNouns:
    """The nouns for people of a language."""

    language: Language
    occupations: frozenset[str]  # English nouns that the table translates
    forms: dict[tuple[str, ...], NounForm]
    longest: int  # words of a form

    def mentions(self, words: Sequence[str]) -> list[Mention]:
        """Return all nouns for people in these words; of overlapping ones the longest."""
        found: list[Mention] = []
        start = 0
        while start < len(words):
            mention = self._mention(words, start)
            if mention is not None:
                found.append(mention)
            start = start + 1 if mention is None else mention.stop
        return found

    def _mention(self, words: Sequence[str], start: int) -> Mention | None:
        for stop in range(min(len(words), start + self.longest), start, -1):
            if (form := self.forms.get(self._key(words[start:stop]))) is not None:
                return Mention(start=start, stop=stop, form=form)
        form = self._compound(words[start]) if self.language == "de" else None
        return None if form is None else Mention(start=start, stop=start + 1, form=form)

    def _key(self, words: Sequence[str]) -> tuple[str, ...]:
        return tuple(words) if self.language == "de" else tuple(word.lower() for word in words)

    def _compound(self, word: str) -> NounForm | None:
        """Return the form of the last part of a German compound: Chefkoch is declined like Koch."""
        if word[0].isupper():
            for cut in range(_MIN_MODIFIER, len(word) - _MIN_HEAD + 1):
                if (form := self.forms.get((word[cut:].capitalize(),))) is not None:
                    return form
        return None


def split_words(text: str) -> list[tuple[str, int, int]]:
    """Return words and punctuation marks with their positions; a French elided article is a word: l', d'."""
    text = text.replace("’", "'")
    return [(match[0], match.start(), match.end()) for match in _WORD.finditer(text)]


@cache
def gendered_nouns(language: str) -> GenderedNouns:
    """Return the nouns for people of German (de) or French (fr)."""
    if language not in LANGUAGES:
        raise ValueError(f"there is no table of nouns for language {language!r}: there are {', '.join(LANGUAGES)}")
    text = Path(__file__).with_name("gendered_nouns.toml").read_text(encoding="utf-8")
    table: dict[str, dict[str, str]] = tomllib.loads(text)[language]
    classes = {noun: name for name, nouns in table["classes"].items() for noun in nouns.split()}
    occupations: dict[str, set[str]] = {noun: set() for noun in classes}
    for occupation, nouns in table["occupations"].items():
        for noun in nouns.split():
            occupations.setdefault(noun, set()).add(occupation)
    inflect = _german if language == "de" else _french
    forms: dict[tuple[str, ...], NounForm] = {}
    for noun, translated in occupations.items():
        head = noun.split("_")[0]
        kind = classes.get(noun, classes.get(head))
        for key, gender, default in inflect(noun, kind, table["irregular"].get(head, "").split()):
            declined = kind == "adjectival" and gender is None
            form = NounForm(gender=gender, default=default, declined=declined, occupations=frozenset(translated))
            forms[key] = form if key not in forms else forms[key].merged(form)
    names = frozenset(table["occupations"])
    return GenderedNouns(LANGUAGES[LANGUAGES.index(language)], names, forms, max(map(len, forms)))


Form = tuple[tuple[str, ...], Gender | None, Gender]
"""The words of a form, the gender it marks, and its gender where the article does not decide."""


_FIXED: dict[str, Gender] = {"any": "neutral", "feminine": "female", "masculine": "male"}  # by class of a noun
_GERMAN_ENDINGS = ("", "s", "es", "n", "en", "ns", "e", "er", "ern")
_ADJECTIVE_ENDINGS = ("e", "er", "en", "em", "es")


def _german(noun: str, kind: str | None, irregular: Iterable[str]) -> Iterator[Form]:
    """Yield the forms of a German noun: in all cases, with and without an umlaut, and its feminine in -in."""
    if kind in _FIXED:
        pronoun = noun[0].islower()
        for stem in (noun, noun.capitalize()) if pronoun else (noun,):
            for ending in (*_GERMAN_ENDINGS, "em") if pronoun else _GERMAN_ENDINGS:
                yield (stem + ending,), _FIXED[kind], "neutral"
        return
    marked: Gender | None = "male" if kind is None else None
    stems = {noun} if kind == "adjectival" else {noun, _umlaut(noun)}
    for stem in stems:
        for ending in _ADJECTIVE_ENDINGS if kind == "adjectival" else _GERMAN_ENDINGS:
            yield (stem + ending,), marked, "neutral"
    feminine = [*irregular]
    if noun.endswith("mann"):
        for plural in ("männer", "männern"):
            yield (noun[:-4] + plural,), "male", "neutral"
        feminine.append(noun[:-4] + "frau")
    elif kind != "adjectival":
        feminine += [stem.removesuffix("e") + "in" for stem in stems]
    for form in feminine:
        for ending in ("", "nen" if form.endswith("in") else "en"):
            yield (form + ending,), "female", "neutral"


def _umlaut(noun: str) -> str:
    """Return a German noun with an umlaut in its last back vowel: Anwalt, Anwält; Bauer, Bäuer."""
    match = re.search(r"(?:au|[aou])(?!.*[aou])", noun, re.IGNORECASE)
    if match is None:
        return noun
    vowel = match[0][0].translate(str.maketrans("aouAOU", "äöüÄÖÜ"))
    return noun[: match.start()] + vowel + noun[match.start() + 1 :]


# Endings of French nouns and of their feminine forms; the first ending that fits counts.
_FRENCH_FEMININE = (
    ("teur", ("trice", "teuse", "teure")),
    ("eur", ("euse", "eure", "eresse")),
    ("er", ("ère",)),
    ("ien", ("ienne",)),
    ("on", ("onne",)),
    ("an", ("anne", "ane")),
    ("f", ("ve",)),
    ("x", ("se",)),
    ("e", ()),
    ("", ("e",)),
)


def _french(noun: str, kind: str | None, irregular: Iterable[str]) -> Iterator[Form]:
    """Yield the forms of a French noun; of a noun of several words, the first one and adjectives are inflected.

    A masculine form is a woman's with a feminine article: la superviseur, la maire.
    """
    head, *rest = re.findall(r"[^_']+'?", noun.lower())
    fixed = _FIXED.get(kind or "")
    feminine = [] if fixed else list(irregular) or ([] if kind == "article" else french_feminine(head))
    default: Gender = "male" if feminine else "neutral"
    for plural in ("", "s"):
        yield (head + plural, *rest), fixed, default
        for form in feminine:
            yield (form + plural, *rest), "female", default
            for adjective in french_feminine(rest[0]) if rest else ():
                yield (form + plural, adjective, *rest[1:]), "female", default


def french_feminine(word: str) -> list[str]:
    """Return the feminine forms that a French noun or adjective may have; none where its form does not change."""
    ending, feminine = next(pair for pair in _FRENCH_FEMININE if word.endswith(pair[0]))
    return [word.removesuffix(ending) + other if ending else word + other for other in feminine]
