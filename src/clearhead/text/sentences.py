"""Sentences: where one ends, by the rules of a language."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from clearhead.text.tokenizer import Tokenizer


def sentences_of(text: str, language: str = "en") -> list[str]:
    """The sentences of a text, by sentencex's rules, without the space around them. What is between two is space."""
    from sentencex import segment  # type: ignore[attr-defined]

    return [part for sentence in segment(language, text) if (part := sentence.strip())]


def tokens_of(documents: Iterable[str], tokenizer: Tokenizer, language: str) -> Iterator[list[list[int]]]:
    """The sentences of each document in tokens, without marks."""
    sentences = [sentences_of(text, language) for text in documents]
    flat = [sentence for many in sentences for sentence in many]
    if not flat:
        yield from ([] for _ in sentences)
        return
    found = tokenizer(flat, special=False, offsets=False)
    each = iter(found.ids.split(list(found.layout.sizes)))
    for many in sentences:
        yield [next(each).tolist() for _ in many]
