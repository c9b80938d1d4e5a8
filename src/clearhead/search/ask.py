"""Answers from an index: passages are searched, and a reader ranks them and finds the answer in one pass."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from clearhead.pipeline import load
from clearhead.search.index import Index, SearchResult, show_place
from clearhead.tasks.answer import PassageReader, PassageSpan
from clearhead.text.sentences import split_sentences

FIRST = 4  # passages that are read at once
MORE = 8  # passages that are read as well where the first ones leave a doubt
SURE = 0.8  # a probability that is no doubt


@dataclass(frozen=True)
class FoundAnswer:
    """An answer with its place: `document.text[start:end] == text`."""

    text: str
    probability: float  # of the best answer: that it is right; of the others: their share among the candidates
    source: str
    start: int
    end: int
    page: int | None
    heading: str
    sentence: tuple[int, int]  # the sentence of the answer, in characters of the document
    passage: SearchResult

    @property
    def place(self) -> str:
        """Document, character and page, to show."""
        return show_place(self.source, self.start, self.page)


@dataclass(frozen=True)
class ReadPassage:
    """A passage that was read."""

    passage: SearchResult
    relevance: float  # logit; 0 is that of a passage without the answer


@dataclass(frozen=True)
class AskResult:
    """What an index answers to a question."""

    question: str
    answer: FoundAnswer | None  # None: the documents probably do not say
    probability: float  # that the best candidate is right
    candidates: tuple[FoundAnswer, ...]  # best first, each text once
    passages: tuple[ReadPassage, ...]  # most relevant first


class Answerer:
    """Answers questions from the documents of an index."""

    def __init__(self, index: Index, reader: str | None = None) -> None:
        """Load the reader, a model of the task `answer`; by default the one that the index was made with."""
        name = reader or index.config.reader
        if name is None:
            raise ValueError(
                "this index has no reader: give a model of the task answer with --reader; "
                "`clearhead new answer --data FILE` starts one"
            )
        self.index, self._loaded = index, load(name).loaded
        self._reader = PassageReader.from_model(self._loaded)
        self._language = index.config.passages.language

    def ask(self, question: str, *, nbest: int = 3) -> AskResult:
        """Answer a question: four passages are read, and eight more if they leave a doubt."""
        if not question.strip():
            raise ValueError("the question is empty: write one")
        passages = self.index.search(question, FIRST + MORE)
        spans, relevance = self._read(question, passages[:FIRST], 0)
        result = self._reader.result(spans, relevance, nbest)
        if result.probability < SURE and len(passages) > FIRST:
            more, further = self._read(question, passages[FIRST:], FIRST)
            spans, relevance = spans + more, relevance + further
            result = self._reader.result(spans, relevance, nbest)
        candidates = [self._place(span, passages[span.passage]) for span in result.spans[:nbest]]
        if candidates:
            candidates[0] = replace(candidates[0], probability=result.probability)
        read = sorted(
            (ReadPassage(p, r) for p, r in zip(passages, relevance, strict=False)), key=lambda one: -one.relevance
        )
        answer = candidates[0] if result.best is not None else None
        return AskResult(question, answer, result.probability, tuple(candidates), tuple(read))

    def _read(
        self, question: str, passages: Sequence[SearchResult], first: int
    ) -> tuple[list[PassageSpan], list[float]]:
        """Return the candidates in these passages, numbered from `first`, and the relevance of each."""
        texts = [passage.text for passage in passages]
        spans, relevance = next(self._reader.read(self._loaded.model, [(question, texts)]))
        moved = [PassageSpan(s.text, s.start, s.end, s.score, passage=s.passage + first) for s in spans]
        return moved, relevance

    def _place(self, span: PassageSpan, passage: SearchResult) -> FoundAnswer:
        lo, hi = _sentence(passage.text, span.start, span.end, self._language)
        return FoundAnswer(
            span.text, span.probability, passage.source, passage.start + span.start, passage.start + span.end,
            passage.page, passage.heading, (passage.start + lo, passage.start + hi), passage,
        )  # fmt: skip


def _sentence(text: str, start: int, end: int, language: str) -> tuple[int, int]:
    """Return the characters of the sentences that hold text[start:end]."""
    at, found = 0, list[tuple[int, int]]()
    for sentence in split_sentences(text, language):
        lo = text.find(sentence, at)
        if lo < 0:
            break
        at = lo + len(sentence)
        if lo < end and at > start:
            found.append((lo, at))
    if not found:
        return start, end
    return min(start, found[0][0]), max(end, found[-1][1])
