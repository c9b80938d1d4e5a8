"""Terms of groups of people, and the exchange of one group for another in a text.

`swap("He lost his keys.", "male", "female")` is "She lost her keys.": a counterfactual of the text (Lu et al. 2018),
with names exchanged too (Maudslay et al. 2019). It reads nothing but the text, so it fits into a data step.
"""

import hashlib
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from clearhead.data.pronoun_case import FILE as PRONOUN_FILE
from clearhead.data.pronoun_case import names_both, pronoun_case, word_before
from clearhead.files import sha256

FILE = Path(__file__).with_name("group_terms.toml")

# Each pronoun whose counterpart depends on its case, with its counterparts.
_PRONOUNS = {
    "her": {"object": "him", "determiner": "his"},
    "him": {"object": "her"},
    "his": {"object": "hers", "determiner": "her"},
    "hers": {"object": "his"},
}
_MALE = frozenset(["him", "his"])
_BE = frozenset(["is", "are", "was", "were", "be", "been", "am", "isn", "aren", "wasn", "weren", "re", "s"])


@dataclass(frozen=True)
class Replacement:
    """A term that was exchanged: its characters in the old text, and those of its counterpart in the new one."""

    start: int
    end: int
    new_start: int
    new_end: int
    to_second: bool  # from the first group to the second


@dataclass(frozen=True)
class SwappedText:
    """A text with its terms exchanged; unchanged where it has no terms, or where one of them is unresolved."""

    text: str
    replacements: tuple[Replacement, ...] = ()
    unresolved: str = ""  # the term whose counterpart is not known; such a text is skipped

    @property
    def count(self) -> int:
        """The number of terms that were exchanged."""
        return len(self.replacements)

    @property
    def direction(self) -> int:
        """1 if the new text names the second group instead of the first, -1 the other way round, 0 for both or none."""
        directions = {1 if part.to_second else -1 for part in self.replacements}
        return directions.pop() if len(directions) == 1 else 0

    def moved(self, start: int, end: int) -> tuple[int, int]:
        """Return where the span [start, end) of the old text is in the new one; terms are moved as a whole."""
        shift_start = shift_end = 0
        for part in self.replacements:
            if part.end <= start:
                shift_start = part.new_end - part.end
            elif part.start < start:  # the span begins inside a term
                start, shift_start = part.start, part.new_start - part.start
            if part.end <= end:
                shift_end = part.new_end - part.end
            elif part.start < end:  # it ends inside one
                end, shift_end = part.end, part.new_end - part.end
        return start + shift_start, end + shift_end


@dataclass(frozen=True, kw_only=True)
class GroupCategory:
    """A category such as religion: its groups, and rows of terms, names and persons aligned with the groups."""

    name: str
    source: str
    groups: tuple[str, ...]
    terms: tuple[tuple[str, ...], ...]
    names: tuple[tuple[str, ...], ...]
    people: tuple[tuple[str, ...], ...]  # phrases that name one person
    adjectives: frozenset[str]
    unmatched: tuple[str, ...]

    def persons(self, group: str) -> tuple[str, ...]:
        """Return the phrases that name a person of a group; row i of every group is the same but for the group."""
        column = self.groups.index(group)
        return tuple(row[column] for row in self.people)


@cache
def categories() -> Mapping[str, GroupCategory]:
    """Return the categories of groups by name."""
    content = tomllib.loads(FILE.read_text(encoding="utf-8"))
    roles = content.pop("roles")
    content.pop("version")
    return {name: _category(name, entry, roles, content) for name, entry in content.items()}


def _category(name: str, entry: Mapping[str, Any], roles: Sequence[str], content: Mapping[str, Any]) -> GroupCategory:
    names = [tuple(row) for key in ("names", "male_names", "female_names") for row in entry.get(key, [])]
    if name == "gender":
        names += _gendered(content["name_origin"])
    people = entry.get("people", names)
    if isinstance(people[0], str):
        people = [tuple(f"the {word} {role}" for word in people) for role in roles]
    return GroupCategory(
        name=name, source=entry["source"].strip(), groups=tuple(entry["groups"]),
        terms=tuple(map(tuple, entry.get("terms", []))), names=tuple(names), people=tuple(map(tuple, people)),
        adjectives=frozenset(entry.get("adjectives", [])), unmatched=tuple(entry.get("unmatched", [])),
    )  # fmt: skip


def _gendered(origins: Mapping[str, Any]) -> list[tuple[str, ...]]:
    """Return the names of all origins as pairs of a man's and a woman's name of the same origin."""
    rows = zip(origins["male_names"], origins["female_names"], strict=True)
    return [pair for male, female in rows for pair in zip(male, female, strict=True)]


def exchangeable() -> list[str]:
    """Return the categories with terms or names that can be exchanged in a text."""
    return [name for name, category in categories().items() if category.terms or category.names]


def category_of(group: str) -> GroupCategory:
    """Return the category of a group; ValueError where no category has it."""
    for category in categories().values():
        if group in category.groups:
            return category
    known = ", ".join(group for category in categories().values() for group in category.groups)
    raise ValueError(f"no group is named {group!r}; there are: {known}")


def swap(text: str, first: str, second: str) -> SwappedText:
    """Exchange the terms of two groups of one category, in both directions; swapping twice returns the text.

    Capitals are kept. A text is returned unchanged, with the term in `unresolved`, where a counterpart depends on
    grammar that the words around a term do not decide ("I gave her books").
    """
    return _swapper(first, second)(text)


def named_groups(text: str, category: str) -> set[str]:
    """Return the groups of a category that a text names by a term, a name or a pronoun."""
    first, *others = categories()[category].groups
    return {group for other in others for group in _swapper(first, other).groups(text)}


class _TermSwapper:
    """The compiled exchange of two groups."""

    def __init__(self, first: str, second: str) -> None:
        self.pair = first, second
        category = category_of(first)
        if second not in category.groups or first == second:
            raise ValueError(
                f"{first!r} cannot be exchanged for {second!r}: give two groups of one category; "
                f"{category.name} has {', '.join(category.groups)}"
            )
        a, b = category.groups.index(first), category.groups.index(second)
        self.counterparts: dict[str, tuple[str, bool]] = {}  # a term as it is written, its counterpart, to the second
        self.adjectives: set[str] = set()
        for rows, is_name in ((category.terms, False), (category.names, True)):
            for row in rows:
                self._add(row[a], row[b], True, is_name)
                self._add(row[b], row[a], False, is_name)
                if category.adjectives & {row[a], row[b]}:
                    self.adjectives |= {*_written(row[a]), *_written(row[b])}
        self.has_pronouns = category.name == "gender"
        self.unmatched = {form for term in category.unmatched for form in _written(term)}
        phrases = [term for term in (*self.counterparts, *self.unmatched) if not term.isalpha()]
        longest_first = "".join(f"{re.escape(phrase)}|" for phrase in sorted(phrases, key=len, reverse=True))
        self.pattern = re.compile(rf"(?<!\w)(?:{longest_first}\w+)(?!\w)")

    def _add(self, term: str, counterpart: str, to_second: bool, is_name: bool) -> None:
        for written, other in zip(_written(term), _written(counterpart), strict=True):
            if not (is_name and written.islower()):
                self.counterparts.setdefault(written, (other, to_second))

    def __call__(self, text: str) -> SwappedText:
        parts: list[str] = []
        replacements: list[Replacement] = []
        copied = length = 0
        for start, end, other, to_second in self._found(text):
            if other is None:
                return SwappedText(text, unresolved=text[start:end])
            parts += [text[copied:start], other]
            new_start = length + start - copied
            length = new_start + len(other)
            replacements.append(Replacement(start, end, new_start, length, to_second))
            copied = end
        return SwappedText("".join([*parts, text[copied:]]), tuple(replacements)) if parts else SwappedText(text)

    def groups(self, text: str) -> Iterator[str]:
        """Yield the group that each term names, also where its counterpart is not known."""
        for match in self.pattern.finditer(text):
            if self.has_pronouns and match[0].lower() in _PRONOUNS:
                yield "male" if match[0].lower() in _MALE else "female"
            elif match[0] in self.counterparts:
                yield self.pair[not self.counterparts[match[0]][1]]

    def _found(self, text: str) -> Iterator[tuple[int, int, str | None, bool]]:
        """Yield the place of each term, its counterpart, and whether that is of the second group."""
        pairs = self.has_pronouns and names_both(text)
        for match in self.pattern.finditer(text):
            term, start, end = match[0], match.start(), match.end()
            if self.has_pronouns and term.lower() in _PRONOUNS:
                to_second = (term.lower() in _MALE) == (self.pair[0] == "male")
                yield start, end, None if pairs else _pronoun(text, start, end), to_second
            elif term in self.unmatched:
                yield start, end, None, True
            elif term in self.counterparts:
                other, to_second = self.counterparts[term]
                noun = term in self.adjectives and not _is_adjective(text, start, end)
                yield start, end, None if noun else other, to_second


@cache
def _swapper(first: str, second: str) -> _TermSwapper:
    return _TermSwapper(first, second)


def _written(term: str) -> tuple[str, str, str, str]:
    """Return the ways in which a term is written: as it is listed, with a capital, in capitals, in lower case."""
    return term, term[0].upper() + term[1:], term.upper(), term.lower()


def _pronoun(text: str, start: int, end: int) -> str | None:
    """Return the counterpart of the pronoun at this place; None where its case is not known."""
    term = text[start:end]
    case = pronoun_case(text, start, end)
    other = None if case is None else _PRONOUNS[term.lower()].get(case)
    if other is None or term not in _written(term.lower()):
        return None
    return other.upper() if term.isupper() else other.title() if term[0].isupper() else other


def _is_adjective(text: str, start: int, end: int) -> bool:
    """Whether a word is before a noun or after a form of "be" without an article."""
    return pronoun_case(text, start, end) == "determiner" or word_before(text, start) in _BE


def compared_groups() -> list[tuple[str, str]]:
    """Return the pairs of groups that are compared: the first group of each category with each of the others."""
    return [(category.groups[0], other) for category in categories().values() for other in category.groups[1:]]


def fill(template: str, **slots: str) -> str:
    """Return a template with its slots filled, which begins with a capital."""
    text = template.format(**slots)
    return text[:1].upper() + text[1:]


def data_hash(*files: Path) -> str:
    """Return the SHA-256 over the lists of terms, and the other data files of an audit."""
    digests = [sha256(file) for file in (FILE, PRONOUN_FILE, *files)]
    return hashlib.sha256("".join(digests).encode()).hexdigest()
