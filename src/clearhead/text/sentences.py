"""Sentences: where one ends, by the rules of a language."""

from __future__ import annotations


def sentences_of(text: str, language: str = "en") -> list[str]:
    """The sentences of a text, by sentencex's rules, without the space around them. What is between two is space."""
    from sentencex import segment  # type: ignore[attr-defined]

    return [part for sentence in segment(language, text) if (part := sentence.strip())]
