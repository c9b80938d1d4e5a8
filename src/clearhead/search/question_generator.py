"""Questions about passages, written by a model: its training rows, and the questions for documents without any."""

import re
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from clearhead.pipeline import Pipeline
from clearhead.search.index import Index
from clearhead.search.mining import passage_with_answer
from clearhead.text.sentences import split_sentences

BATCH = 64  # questions written at a time
FOUND = 5  # passages among which a search must find the question's own
_NUMBER = r"\d[\d.,]*\d|\d"
_UNIT = r"%|percent|(?:m|b|tr)illion|(?:second|minute|hour|day|week|month|year)s?"
_NAME = r"[^\W\d_a-z][\w'’-]*"  # of any alphabet; whether it is a capital letter is looked at later
_ANSWER = re.compile(rf"(?:{_NUMBER})(?:\s?(?:{_UNIT})\b)?|{_NAME}(?:\s(?:of\s|the\s)*{_NAME})*")


def generator_input(answer: str, sentence: str) -> str:
    """Return what the generator reads: the answer, then the sentence that it is in."""
    return f"{answer} | {' '.join(sentence.split())}"


def generator_rows(index: Index, questions: Iterable[Mapping[str, Any]], depth: int) -> Iterator[dict[str, str]]:
    """Yield source and target to train a generator on questions with known answers, as a translation.

    Without its context, a question's passage is the best of `depth` found ones that has the answer.
    """
    language = index.config.passages.language
    for row in questions:
        known = row.get("context")
        passages = [known] if known is not None else [found.text for found in index.search(row["question"], depth)]
        answered = passage_with_answer(passages, row["answers"])
        if answered is not None:
            passage, answer = answered
            holder = next((s for s in split_sentences(passage, language) if answer in s), None)
            if holder is not None:
                yield {"source": generator_input(answer, holder), "target": row["question"]}


def generated_questions(
    index: Index, generator: Pipeline, max_questions: int | None = None
) -> Iterator[dict[str, Any]]:
    """Yield a question about each passage, with its context and answer, if a search by it finds the passage again.

    Answers are names and numbers; which one of a passage is decided by a hash: always the same.
    """
    waiting, written = list[tuple[str, str, str]](), 0
    for passage in index.all_passages():
        chosen = choose_answer(passage.text, index.config.passages.language)
        if chosen is not None:
            waiting.append((passage.text, *chosen))
        if len(waiting) == BATCH:
            for row in _written(index, generator, waiting):
                yield row
                written += 1
                if written == max_questions:
                    return
            waiting = []
    yield from _written(index, generator, waiting)


def _written(index: Index, generator: Pipeline, asked: Sequence[tuple[str, str, str]]) -> Iterator[dict[str, Any]]:
    sources = [generator_input(answer, sentence) for _, answer, sentence in asked]
    for (text, answer, _), question in zip(asked, generator.translate(sources, beam=1), strict=True):
        if question.text.strip() and any(found.text == text for found in index.search(question.text, FOUND)):
            yield {"question": question.text, "context": text, "answers": [answer]}


def choose_answer(text: str, language: str) -> tuple[str, str] | None:
    """Return a name or a number that could be asked for, and its sentence; None where a text has no such."""
    found = [
        (match.group(), sentence)
        for sentence in split_sentences(text, language)
        for match in _ANSWER.finditer(sentence)
        if not match.group()[0].islower() and (match.start() or " " in match.group())  # the first word is no name
    ]
    return found[zlib.crc32(text.encode("utf-8", "surrogatepass")) % len(found)] if found else None
