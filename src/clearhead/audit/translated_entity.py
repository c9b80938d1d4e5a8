"""Which noun of a translation names an entity of the English source, and the gender it has there."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import permutations

from clearhead.audit.gendered_nouns import Gender, GenderedNouns, Mention, split_words
from clearhead.audit.grammatical_gender import guess_gender, is_determined, read_gender
from clearhead.audit.translated_pronoun import pronoun_gender
from clearhead.metrics.bootstrap import Numbers

_MAX_MENTIONS = 6  # that are compared with the entities of a sentence
_PRONOUNS = frozenset({"someone"})  # entities without an article


@dataclass(frozen=True, kw_only=True)
class EnglishEntity:
    """A noun for a person in an English sentence: its name in the table and its words."""

    name: str
    start: int
    stop: int


@dataclass(frozen=True, kw_only=True)
class TranslatedEntity:
    """The words of a translation that name an entity, and the gender that they and the pronoun mark."""

    text: str
    noun: Gender  # by its form, its article or an adjective
    pronoun: Gender | None = None  # of the word that translates the English pronoun
    in_table: bool  # found as a translation of the table, not by the alignment alone

    @property
    def gender(self) -> Gender:
        """The gender of the noun; of a noun that marks none, that of the pronoun: jemand, weil sie."""
        return self.pronoun or self.noun if self.noun == "neutral" else self.noun

    @property
    def person(self) -> Gender:
        """The gender that noun and pronoun give the person together: a masculine noun may be generic, so that the
        pronoun decides; a feminine one is not.
        """
        return self.noun if self.noun == "female" else self.pronoun or self.noun

    @property
    def contradicts(self) -> bool:
        """Whether the noun has one gender and the pronoun the other: der Arzt, weil sie."""
        return self.noun != "neutral" and self.pronoun not in (None, self.noun)


def english_entities(nouns: GenderedNouns, words: Sequence[str]) -> list[EnglishEntity]:
    """Return the nouns for people of an English sentence, in order: those of the table after an article."""
    lower = [word.lower() for word in words]
    found: list[EnglishEntity] = []
    for start, word in enumerate(lower):
        if word not in _PRONOUNS and (not start or lower[start - 1] not in ("the", "a", "an")):
            continue
        for stop in (start + 2, start + 1):
            if (name := " ".join(lower[start:stop])) in nouns.occupations:
                found.append(EnglishEntity(name=name, start=start, stop=stop))
                break
    return found


def find_entity(
    nouns: GenderedNouns, source: Sequence[str], index: int, target: Sequence[str], alignment: Numbers
) -> TranslatedEntity | None:
    """Return how a translation names the entity at a word of the source; None if it is not found.

    The table comes first: the entities of the source are assigned to the nouns that may translate them. The alignment,
    (T, S), decides between several such nouns, and finds a noun that is no translation of the table.
    """
    entities = english_entities(nouns, source)
    wanted = next((entity for entity in entities if entity.start <= index < entity.stop), None)
    if wanted is None:
        wanted = EnglishEntity(name=source[index].lower(), start=index, stop=index + 1)
        entities = sorted([*entities, wanted], key=lambda entity: entity.start)
    mentions = nouns.mentions(target)
    assigned = _assign(entities, mentions, alignment)
    pronoun = pronoun_gender(nouns.language, source, target, alignment)
    if (mention := assigned.get(wanted.start)) is not None:
        return TranslatedEntity(
            text=" ".join(target[mention.start : mention.stop]),
            noun=read_gender(nouns, target, mention),
            pronoun=pronoun,
            in_table=True,
        )
    taken = {place for mention in assigned.values() for place in range(mention.start, mention.stop)}
    found = _aligned_noun(nouns, wanted, target, mentions, taken, alignment)
    return None if found is None else replace(found, pronoun=pronoun)


def _assign(entities: Sequence[EnglishEntity], mentions: Sequence[Mention], alignment: Numbers) -> dict[int, Mention]:
    """Return the noun of each entity that has one, by the place of the entity.

    As many entities as possible get a noun that may translate them; then the alignment decides. Assignments in the
    order of the words come first, and are kept where others are equal.
    """
    names = {entity.name for entity in entities}
    fitting = [mention for mention in mentions if mention.form.occupations & names][:_MAX_MENTIONS]
    slots: list[Mention | None] = [*fitting, *([None] * len(entities))]
    best = (-1, 0.0)
    chosen: dict[int, Mention] = {}
    seen: set[tuple[int, ...]] = set()
    for order in permutations(range(len(slots)), len(entities)):
        key = tuple(min(place, len(fitting)) for place in order)
        if key in seen:
            continue
        seen.add(key)
        pairs = [(entity, slots[place]) for entity, place in zip(entities, order, strict=True)]
        found = {e.start: m for e, m in pairs if m is not None and e.name in m.form.occupations}
        if len(found) < sum(mention is not None for _, mention in pairs):
            continue
        aligned = sum(_strength(alignment, entity, m) for entity, m in pairs if m is not None)
        if (value := (len(found), round(aligned, 1))) > best:
            best, chosen = value, found
    return chosen


def _strength(alignment: Numbers, entity: EnglishEntity, mention: Mention) -> float:
    return float(alignment[mention.start : mention.stop, entity.start : entity.stop].sum(1).max(initial=0.0))


def _aligned_noun(
    nouns: GenderedNouns, entity: EnglishEntity, target: Sequence[str], mentions: Sequence[Mention], taken: set[int],
    alignment: Numbers,
) -> TranslatedEntity | None:  # fmt: skip
    """Return the noun whose most probable source word is the entity."""
    strongest, place = 0.0, -1
    for candidate, row in enumerate(alignment):
        if candidate in taken or not is_determined(nouns, target, candidate):
            continue
        if entity.start <= int(row.argmax()) < entity.stop and row.max() > strongest:
            strongest, place = float(row.max()), candidate
    if place < 0:
        return None
    mention = next((mention for mention in mentions if mention.start <= place < mention.stop), None)
    gender = guess_gender(nouns, target, place) if mention is None else read_gender(nouns, target, mention)
    return TranslatedEntity(text=target[place], noun=gender, in_table=False)


def word_at(text: str, index: int) -> int:
    """Return the number of the word, as `split_words` counts, that begins the word at an index between spaces."""
    pieces = text.split()
    if not 0 <= index < len(pieces):
        raise ValueError(f"the entity is word {index}, but the sentence has {len(pieces)} words: {text!r}")
    start = 0
    for piece in pieces[:index]:
        start = text.index(piece, start) + len(piece)
    start = text.index(pieces[index], start)
    return next(number for number, (_, first, _) in enumerate(split_words(text)) if first >= start)
