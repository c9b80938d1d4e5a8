"""The gender that a German or French sentence gives to a noun: by the noun's form, its article or an adjective."""

import re
from collections.abc import Sequence

from clearhead.audit.gendered_nouns import Gender, GenderedNouns, Mention

MAX_ADJECTIVES = 3  # between an article and its noun

# German articles and words declined like them, by ending. -er is masculine in the nominative (der, dieser), feminine
# in the genitive and dative; after ein, kein and possessives it is feminine only.
_DER_WORDS = re.compile(r"(?:dies|jed|jen|welch|manch|solch)(e|er|en|em|es)")
_EIN_WORDS = re.compile(r"(?:k?ein|mein|dein|sein|ihr|unser|unsr|euer|eur)(|e|er|en|em|es)")
_ARTICLES: dict[str, Gender] = {
    **dict.fromkeys(("dem", "den", "des", "zum", "vom", "beim", "im", "am", "ins", "ans"), "male"),
    **dict.fromkeys(("die", "zur"), "female"),
    "das": "neutral",
}
_EIN_ENDINGS: dict[str, Gender] = {"": "male", "en": "male", "em": "male", "es": "male", "e": "female", "er": "female"}
_DER_ENDINGS: dict[str, Gender] = {"en": "male", "em": "male", "es": "male", "e": "female"}
_BARE_ENDINGS: dict[str, Gender] = {"r": "male", "m": "male", "e": "female"}  # of an adjective without an article
_OBLIQUE = frozenset({  # prepositions that may have a dative or genitive after them
    "mit", "von", "zu", "bei", "nach", "aus", "seit", "gegenüber", "außer", "in", "an", "auf", "vor", "hinter",
    "über", "unter", "neben", "zwischen", "wegen", "trotz", "statt", "während", "laut", "samt",
})  # fmt: skip
_COORDINATORS = frozenset({"und", "oder", "sondern", "als", "wie", "denn"})
_CLAUSE_STARTS = frozenset({"der", "die", "das", "ein", "eine", "dieser", "diese", "jeder", "jede"})
_GERMAN_ADJECTIVE = re.compile(r"[a-zäöüß]{2,}(?:e|er|en|em|es)")
_SEX = re.compile(r"(männlich|weiblich)e[rnms]?")

_FRENCH_ARTICLES: dict[str, Gender] = {
    **dict.fromkeys(["le", "un", "du", "au", "ce", "cet", "aucun", "certain"], "male"),
    **dict.fromkeys(["la", "une", "cette", "sa", "ma", "ta", "aucune", "certaine"], "female"),
}
_NEUTRAL_ARTICLES = frozenset({
    "l'", "d'", "les", "des", "aux", "ces", "ses", "mes", "leur", "leurs", "son", "mon", "ton", "votre", "notre",
    "chaque",
})  # fmt: skip
_ADJECTIVES_BEFORE_NOUN = (
    ("bon", "bonne"), ("mauvais", "mauvaise"), ("nouveau", "nouvelle"), ("nouvel", "nouvelle"), ("vieux", "vieille"),
    ("vieil", "vieille"), ("beau", "belle"), ("bel", "belle"), ("grand", "grande"), ("petit", "petite"),
    ("gros", "grosse"), ("ancien", "ancienne"), ("premier", "première"), ("meilleur", "meilleure"),
)  # fmt: skip
_BEFORE_NOUN: dict[str, Gender] = {
    **{male: "male" for male, _ in _ADJECTIVES_BEFORE_NOUN},
    **{female: "female" for _, female in _ADJECTIVES_BEFORE_NOUN},
}
_TO_BE = frozenset({"est", "était", "fut", "soit", "serait", "sera", "semble", "semblait"})
_ADVERBS = frozenset({"très", "trop", "si", "plus", "assez", "bien", "toujours", "aussi", "souvent", "pourtant", "mal"})
_AGREEMENT: tuple[tuple[str, Gender], ...] = (
    ("ée", "female"), ("é", "male"), ("euse", "female"), ("eux", "male"), ("ente", "female"), ("ent", "male"),
    ("ante", "female"), ("ant", "male"), ("ive", "female"), ("if", "male"), ("ale", "female"), ("al", "male"),
)  # fmt: skip
_FRENCH_SUFFIXES: tuple[tuple[str, Gender], ...] = (
    ("euse", "female"), ("trice", "female"), ("ienne", "female"), ("ère", "female"),
    ("eur", "male"), ("ien", "male"), ("ier", "male"), ("er", "male"),
)  # fmt: skip


def read_gender(nouns: GenderedNouns, words: Sequence[str], mention: Mention) -> Gender:
    """Return the gender that a sentence gives to a noun for people in it; neutral: none is marked."""
    form = mention.form
    if form.gender is not None:
        return form.gender
    if nouns.language == "fr":
        return _french(words, mention.start, mention.stop) or form.default
    if form.declined:
        return _declined(words, mention.start) or form.default
    return _german(words, mention.start) or form.default


def guess_gender(nouns: GenderedNouns, words: Sequence[str], index: int) -> Gender:
    """Return the gender of a word that is not in the table: by its ending, or else its article; neutral: unmarked."""
    word = words[index]
    if nouns.language == "fr":
        ending: Gender | None = next((gender for suffix, gender in _FRENCH_SUFFIXES if word.endswith(suffix)), None)
        return _french(words, index, index + 1) or ending or "neutral"
    found = _german(words, index)
    if re.fullmatch(r"[A-ZÄÖÜ]\w{3,}(?:in|innen)", word) and found != "neutral":
        return "female"
    return found or "neutral"


def is_determined(nouns: GenderedNouns, words: Sequence[str], index: int) -> bool:
    """Whether a word may be a noun: a capital letter in German, an article before it in French."""
    word = words[index]
    if nouns.language == "de":
        return word[0].isupper() and word.lower() != "der" and word.lower() not in _ARTICLES
    before = [other.lower() for other in words[max(0, index - 1 - MAX_ADJECTIVES) : index]]
    while before and before[-1] in _BEFORE_NOUN:
        before.pop()
    return word[0].isalpha() and bool(before) and (before[-1] in _FRENCH_ARTICLES or before[-1] in _NEUTRAL_ARTICLES)


def _determiner(words: Sequence[str], index: int) -> tuple[str, int]:
    """Return the article of a German noun in lower case, and its place; an empty one if it has none."""
    for place in range(index - 1, max(-1, index - 2 - MAX_ADJECTIVES), -1):
        word = words[place].lower()
        if word == "der" or word in _ARTICLES or _DER_WORDS.fullmatch(word) or _EIN_WORDS.fullmatch(word):
            return word, place
        if not _GERMAN_ADJECTIVE.fullmatch(words[place]):
            break
    return "", index


def _sex(words: Sequence[str], start: int, stop: int) -> Gender | None:
    """Return the gender that an adjective names: ein weiblicher Sheriff."""
    for word in words[start:stop]:
        if match := _SEX.fullmatch(word):
            gender: Gender = "female" if match[1] == "weiblich" else "male"
            return gender
    return None


def _german(words: Sequence[str], index: int) -> Gender | None:
    """Return the gender that the article of a German noun marks."""
    article, place = _determiner(words, index)
    if (named := _sex(words, place, index)) is not None:
        return named
    if article in _ARTICLES:
        return _ARTICLES[article]
    if match := _EIN_WORDS.fullmatch(article):
        if match[1] == "" and place + 1 < index and words[place + 1].endswith("es"):
            return "neutral"
        return _EIN_ENDINGS[match[1]]
    if match := _DER_WORDS.fullmatch(article):
        return _DER_ENDINGS.get(match[1]) or _der(words, place)
    return _der(words, place) if article == "der" else None


def _der(words: Sequence[str], place: int) -> Gender:
    """Return the gender of `der`: masculine in the subject of a clause, feminine after a preposition or a noun."""
    before = words[place - 1] if place else ","
    if not before[0].isalpha():
        return "male"
    if before.lower() in _OBLIQUE or before[0].isupper():
        return "female"
    start = next((i + 1 for i in range(place - 1, -1, -1) if not words[i][0].isalpha()), 0)
    subject_first = words[start].lower() in _CLAUSE_STARTS
    return "female" if subject_first and before not in _COORDINATORS else "male"


def _declined(words: Sequence[str], index: int) -> Gender | None:
    """Return the gender of a German noun that is declined like an adjective: by its article and its ending."""
    article, place = _determiner(words, index)
    weak = words[index].endswith("en")
    if (named := _sex(words, place, index)) is not None:
        return named
    if article == "der" or ((match := _DER_WORDS.fullmatch(article)) and match[1] == "er"):
        return "female" if weak else "male"
    if article == "die" and weak:
        return None  # plural
    if article:
        found = _german(words, index)
        return "neutral" if found == "male" and article in ("ein", "kein") and words[index].endswith("es") else found
    return _BARE_ENDINGS.get(words[index][-1])


def _french(words: Sequence[str], start: int, stop: int) -> Gender | None:
    """Return the gender that the article or an adjective of a French noun marks."""
    place = start - 1
    agreed: Gender | None = None
    while place >= 0 and place >= start - MAX_ADJECTIVES and words[place].lower() in _BEFORE_NOUN:
        agreed = _BEFORE_NOUN[words[place].lower()]
        place -= 1
    article = words[place].lower() if place >= 0 else ""
    if article == "femme":
        return "female"
    return _FRENCH_ARTICLES.get(article) or agreed or _predicate(words, stop)


def _predicate(words: Sequence[str], stop: int) -> Gender | None:
    """Return the gender of the participle or adjective behind a French noun: l'analyste fatiguée, est allée."""
    after = [word.lower() for word in words[stop : stop + 5]]
    if after[:1] in (["a"], ["avait"]) and after[1:2] == ["été"]:
        after = ["est", *after[2:]]
    if after and after[0] in _TO_BE:
        after = [word for word in after[1:] if word not in _ADVERBS and not word.endswith("ment")]
        return next((gender for ending, gender in _AGREEMENT if after and after[0].endswith(ending)), None)
    participle = after[0] if after else ""
    return "female" if participle.endswith("ée") else "male" if participle.endswith("é") else None
