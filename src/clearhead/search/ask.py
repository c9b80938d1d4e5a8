"""Answers from an index: passages are searched, and a reader ranks them and finds the answer in one pass."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace

from clearhead.hub.folder import LoadedModel
from clearhead.pipeline import load
from clearhead.search.index import Index, SearchResult, fuse, show_place
from clearhead.tasks.answer import PassageReader, PassageSpan, Read
from clearhead.text.sentences import split_sentences

FIRST = 4  # passages that are read at once
MORE = 8  # passages that are read as well where the first ones leave a doubt
SURE = 0.8  # a probability that is no doubt
RANKED = 20  # passages of a search that the reader ranks again


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
        self.index, self.loaded = index, load(name).loaded
        self._trained = PassageReader.from_model(self.loaded)
        self.fingerprint = _fingerprint(self.loaded)
        self._language = index.config.passages.language

    @staticmethod
    def find(index: Index, reader: str | None) -> "Answerer | None":
        """Return the answers of an index by this reader or by its own; None where it has none."""
        return Answerer(index, reader) if reader or index.config.reader else None

    @property
    def _reader(self) -> PassageReader:
        """The reader as it was calibrated on this index, or else in its training."""
        fitted = None if self.index.calibration is None else self.index.calibration.of(self.fingerprint)
        if fitted is None:
            return self._trained
        return replace(
            self._trained, relevance_weight=fitted.relevance_weight, rank_weight=fitted.rank_weight,
            calibration=fitted.calibration, threshold=fitted.threshold,
        )  # fmt: skip

    def ask(self, question: str, *, nbest: int = 3, query: str | None = None) -> AskResult:
        """Answer a question: four passages are read, and eight more if they leave a doubt.

        `query` is the text to search for, if it is not the question itself.
        """
        if not question.strip():
            raise ValueError("the question is empty: write one")
        passages, reader = self.index.search(query or question, FIRST + MORE), self._reader
        spans, relevance = self.read(question, passages[:FIRST])
        result = reader.result(spans, relevance, nbest)
        if result.probability < SURE and len(passages) > FIRST:
            more, further = self.read(question, passages[FIRST:])
            spans += [replace(span, passage=span.passage + FIRST) for span in more]
            relevance += further
            result = reader.result(spans, relevance, nbest)
        candidates = [self._place(span, passages[span.passage]) for span in result.spans[:nbest]]
        if candidates:
            candidates[0] = replace(candidates[0], probability=result.probability)
        read = sorted(
            (ReadPassage(p, r) for p, r in zip(passages, relevance, strict=False)), key=lambda one: -one.relevance
        )
        answer = candidates[0] if result.best is not None else None
        return AskResult(question, answer, result.probability, tuple(candidates), tuple(read))

    def search(self, query: str, k: int = 10) -> list[SearchResult]:
        """Return the k passages that fit a query best: the first of the search, ranked again by search and reader."""
        passages = self.index.search(query, max(k, RANKED))
        _, relevance = self.read(query, passages[:RANKED])
        by_reader = sorted(range(len(relevance)), key=lambda i: -relevance[i])
        fused = fuse({("", i): i + 1 for i in by_reader}, {("", i): rank for rank, i in enumerate(by_reader, 1)}, 0.5)
        ranked = [replace(passages[i], score=score) for (_, i), score in fused]
        return [*ranked, *(replace(passage, score=0.0) for passage in passages[RANKED:])][:k]

    def read(self, question: str, passages: Sequence[SearchResult]) -> Read:
        """Return the candidates in these passages, scored without the relevance, and the relevance of each passage."""
        texts = [passage.text for passage in passages]
        return next(self._trained.read(self.loaded.model, [(question, texts)]))

    def _place(self, span: PassageSpan, passage: SearchResult) -> FoundAnswer:
        lo, hi = _sentence(passage.text, span.start, span.end, self._language)
        return FoundAnswer(
            span.text, span.probability, passage.source, passage.start + span.start, passage.start + span.end,
            passage.page, passage.heading, (passage.start + lo, passage.start + hi), passage,
        )  # fmt: skip


def _fingerprint(loaded: LoadedModel) -> str:
    """Return a hash that tells readers apart: of the last layer, which no two trainings end with alike."""
    assert loaded.model.head is not None
    digest = hashlib.sha256()
    for name, parameter in sorted(loaded.model.head.named_parameters()):
        digest.update(name.encode())
        digest.update(parameter.detach().float().cpu().numpy().tobytes())
    return digest.hexdigest()


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
