"""Sentence splitting by language-specific rules."""

from collections.abc import Iterable, Iterator

from clearhead.text.tokenizer import Tokenizer


def split_sentences(text: str, language: str = "en") -> list[str]:
    """Splits a text into sentences by sentencex's rules, without surrounding whitespace."""
    from sentencex import segment  # type: ignore[attr-defined]

    return [part for sentence in segment(language, text) if (part := sentence.strip())]


def tokenize_sentences(documents: Iterable[str], tokenizer: Tokenizer, language: str) -> Iterator[list[list[int]]]:
    """Yields the token ids of the sentences of each document, without special tokens."""
    sentences = [split_sentences(text, language) for text in documents]
    flat = [sentence for group in sentences for sentence in group]
    if not flat:
        yield from ([] for _ in sentences)
        return
    tokens = tokenizer(flat, special=False, offsets=False)
    rows = iter(tokens.ids.split(list(tokens.layout.host_lengths)))
    for group in sentences:
        yield [next(rows).tolist() for _ in group]
