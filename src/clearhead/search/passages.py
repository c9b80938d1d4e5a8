"""Passages: parts of a document by sentence boundaries, each with its offsets: `document.text[start:end] == text`."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from clearhead.search.document_readers import Document
from clearhead.text.sentences import split_sentences

LANGUAGES = {"en": "English", "de": "German", "fr": "French", "es": "Spanish", "it": "Italian", "nl": "Dutch",
             "pt": "Portuguese", "ru": "Russian", "sv": "Swedish", "da": "Danish", "fi": "Finnish"}  # fmt: skip
_WORD = re.compile(r"\S+")
_PARAGRAPH = re.compile(r"\n\s*\n")


@dataclass(frozen=True, kw_only=True)
class PassageConfig:
    """How documents are cut."""

    max_words: int = 120
    overlap: int = 1  # sentences that a passage repeats of the one before it
    language: str = "en"  # whose rules find the ends of sentences

    def __post_init__(self) -> None:
        if self.max_words < 1 or self.overlap < 0:
            raise ValueError(f"max_words is {self.max_words} and overlap {self.overlap}: give at least 1 and 0")


@dataclass(frozen=True)
class Passage:
    """A part of a document."""

    source: str
    start: int
    end: int
    text: str
    heading: str
    page: int | None


def split_passages(document: Document, config: PassageConfig | None = None) -> Iterator[Passage]:
    """Yield the passages of a document; none crosses a heading, and only a sentence above the limit is cut."""
    config = PassageConfig() if config is None else config
    borders = sorted({0, *(offset for offset, _ in document.headings), len(document.text)})
    for begin, end in pairwise(borders):
        sentences = [
            part
            for lo, hi in _sentences(document.text, begin, end, config.language)
            for part in _cut(document.text, lo, hi, config.max_words)
        ]
        for lo, hi in _groups(document.text, sentences, config):
            yield Passage(document.source, lo, hi, document.text[lo:hi], document.heading(lo), document.page(lo))


def _sentences(text: str, begin: int, end: int, language: str) -> Iterator[tuple[int, int]]:
    at = begin
    for gap in [*_PARAGRAPH.finditer(text, begin, end), None]:
        stop = end if gap is None else gap.start()
        place = at
        for sentence in split_sentences(text[at:stop], language):
            lo = text.find(sentence, place, stop)
            if lo < 0:  # the rules changed a character: the rest of the paragraph is one sentence
                lo, sentence = place, text[place:stop].rstrip()
            yield lo, lo + len(sentence)
            place = lo + len(sentence)
        at = stop if gap is None else gap.end()


def _cut(text: str, lo: int, hi: int, max_words: int) -> Iterator[tuple[int, int]]:
    """Yield a sentence, or parts of it of at most `max_words` words."""
    words = [(m.start(), m.end()) for m in _WORD.finditer(text, lo, hi)]
    for first in range(0, len(words), max_words):
        part = words[first : first + max_words]
        yield part[0][0], part[-1][1]


def _groups(text: str, sentences: list[tuple[int, int]], config: PassageConfig) -> Iterator[tuple[int, int]]:
    sizes = [len(text[lo:hi].split()) for lo, hi in sentences]
    first = 0
    while first < len(sentences):
        last, total = first + 1, sizes[first]
        while last < len(sentences) and total + sizes[last] <= config.max_words:
            total += sizes[last]
            last += 1
        yield sentences[first][0], sentences[last - 1][1]
        if last == len(sentences):
            return
        first = max(first + 1, last - config.overlap)
