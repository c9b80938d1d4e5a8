"""Reading: a question and a text in which the answer stands; where it begins and where it ends."""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice, pairwise
from typing import Any, ClassVar, Self

import numpy as np
import torch
from torch import Tensor, nn

from clearhead.attention import Layout
from clearhead.data import Columns, Held, Integers, Ragged, Row, Rows
from clearhead.data.squad import nearest
from clearhead.models.embed import batches
from clearhead.models.heads import Kind
from clearhead.models.model import Model
from clearhead.models.store import Opened
from clearhead.tasks import metrics
from clearhead.tasks.documents import Reader, gathered, joined, windows
from clearhead.tasks.encoders import BUDGET, Labelling, labels_of
from clearhead.tasks.task import Batch, LeftOut, Settings
from clearhead.tasks.words import tensor
from clearhead.text import Tokenizer, Tokens

CHUNK = 64  # questions given to the tokenizer at a time: their texts may be long
LONGEST = 30  # tokens of an answer
NBEST = 20  # spans of a window that are compared


@dataclass(frozen=True)
class Span:
    """A part of a text, `context[start:end]`, its score, and its share among all that were found."""

    text: str
    start: int
    end: int
    score: float
    share: float = 0.0


@dataclass(frozen=True)
class Answered:
    """The best span, or None where no answer is likelier; all that were found, best first; and what speaks for none."""

    best: Span | None
    spans: tuple[Span, ...]
    none: float  # the score of no answer
    none_share: float

    @property
    def text(self) -> str:
        """The answer; empty where there is none."""
        return "" if self.best is None else self.best.text


@dataclass(frozen=True, eq=False)
class Qa(Labelling):
    """Learn where the answer stands.

    A long text is read in windows, each beside the whole question; in a window without the answer the first token
    stands for none (Devlin et al. 2019, section 4.3).
    """

    tokenizer: Tokenizer
    settings: Settings = field(default_factory=lambda: Settings(max_len=384))
    threshold: float | None = None  # how much better than none a span must be; None: there always is an answer

    name: ClassVar[str] = "qa"
    suffix: ClassVar[str] = "QuestionAnswering"
    forms: ClassVar[tuple[tuple[str, ...], ...]] = (
        ("question", "context", "answers"),
        ("question", "context", "answer"),
    )
    drawn: ClassVar[Any] = ("context", lambda values: "")
    template: ClassVar[str] = "bert"
    metrics: ClassVar[tuple[str, ...]] = ("loss", "exact", "f1")

    @classmethod
    def learn(cls, rows: Rows, columns: tuple[str, ...]) -> dict[str, Any]:
        """Is there a question without an answer?"""
        return {"unanswered": any(answers_of(row) == [] for row in rows)}

    @classmethod
    def make(cls, tokenizer: Tokenizer, settings: Settings, facts: Mapping[str, Any]) -> Self:
        """The task; where questions without answers were met, none is one."""
        return cls(tokenizer, settings, 0.0 if facts["unanswered"] else None)

    @classmethod
    def of(cls, opened: Opened) -> Self:
        """The task that a model folder was trained for."""
        labels_of(opened, "span", "find answers", "qa")
        told = opened.facts.get("answers", {})
        limit = told.get("max_len") or min(384, opened.max_len or 384)
        return cls(opened.words, Settings(max_len=limit, segments=opened.has_segments), told.get("threshold"))

    @property
    def head(self) -> tuple[Kind, tuple[str, ...]]:
        """Two scores for each token: that the answer begins there, and that it ends there."""
        return "span", ("start", "end")

    @property
    def reader(self) -> Reader:
        """Who reads texts in windows."""
        return Reader(self.tokenizer, self.settings.max_len, self.settings.segments)

    def encode(self, rows: Rows) -> tuple[Held, list[LeftOut]]:
        """A row for each window: its tokens, and the first and last of the answer's, 0 and 0 where it has none."""
        parts: list[Held] = []
        seen, lost, stream = 0, 0, iter(rows)
        while chunk := list(islice(stream, CHUNK)):
            seen += len(chunk)
            kept = [(row, found) for row in chunk if (found := answers_of(row)) is not None]
            lost += len(chunk) - len(kept)
            if not kept:
                continue
            tokens = self.windows(
                [row.values["question"] for row, _ in kept], [row.values["context"] for row, _ in kept]
            )
            spans = [_place(tokens, i, kept[source][1]) for i, source in enumerate(tokens.sources.tolist())]
            single = windows(tokens, len(kept), self.settings.segments)
            ends = np.concatenate([[0], np.cumsum(tokens.layout.sizes)]).astype(np.int64)
            columns = {name: Ragged(column.ids, ends) for name, column in single.items() if name != "windows"}
            sizes = Ragged(single["windows"].ids, np.arange(len(spans) + 1, dtype=np.int64))
            parts.append({**columns, "windows": sizes, "label": Ragged.of(spans)})
        columns = joined(parts)
        left = LeftOut(lost, seen, "the answer does not stand in its context")
        return columns, [left] if lost else []

    def windows(self, questions: Sequence[str], contexts: Sequence[str]) -> Tokens:
        """Questions and their texts in windows."""
        asked = self.reader.halved(questions)
        return self.tokenizer.windows(
            asked, list(contexts), max_len=self.settings.max_len, stride=self.reader.stride - self.settings.max_len // 4
        )

    def lengths(self, columns: Columns, examples: Integers | None = None) -> Integers:
        """The tokens of a window."""
        return columns["ids"].lengths(examples)

    def counts(self, columns: Columns, examples: Integers | None = None) -> Integers:
        """A window counts once."""
        return np.ones(len(columns["ids"] if examples is None else examples), dtype=np.int64)

    def collate(self, columns: Columns, examples: Integers, draw: int = 0) -> Batch:
        """Windows; labels are (2, windows): the token that the answer begins with, and the one it ends with."""
        spans, _ = columns["label"].take(examples)
        sizes = columns["ids"].lengths(examples)
        return gathered(columns, examples, tensor(spans.reshape(-1, 2).T + (np.cumsum(sizes) - sizes)))

    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        """The mean of -log p of both ends, summed over windows."""
        assert isinstance(model, Model)
        said = model(batch.ids, batch.layout, segments=batch.segments).float()  # (N, 2)
        totals = log_sums(said, batch.layout)  # (windows, 2)
        chosen = torch.stack([said[batch.labels[0], 0], said[batch.labels[1], 1]], 1)
        return (totals - chosen).sum() / 2

    def answers(
        self, model: nn.Module, questions: Sequence[str], contexts: Sequence[str], *, nbest: int = 5
    ) -> Iterator[Answered]:
        """The answer to each question in its text, in order."""
        for lo in range(0, len(questions), CHUNK):
            some = slice(lo, lo + CHUNK)
            yield from self._some(model, questions[some], contexts[some], nbest)

    def _some(
        self, model: nn.Module, questions: Sequence[str], contexts: Sequence[str], nbest: int
    ) -> Iterator[Answered]:
        tokens = self.windows(questions, contexts)
        found: list[list[Span]] = [[] for _ in questions]
        none = [float("inf")] * len(questions)
        first = 0
        for count in batches(tokens.layout.sizes, BUDGET):
            for i, said in enumerate(self._scores(model, tokens, first, count), first):
                source = int(tokens.sources[i])
                none[source] = min(none[source], float(said[0].sum()))
                found[source] += _spans(tokens, i, said, contexts[source])
            first += count
        for spans, nothing in zip(found, none, strict=True):
            yield self._answer(spans, nothing, nbest)

    def _scores(self, model: nn.Module, tokens: Tokens, first: int, count: int) -> Iterator[Tensor]:
        """Both scores of every token of some windows, (T, 2) each."""
        device = next(iter(model.parameters())).device
        rows = slice(tokens.layout.rows(first).start, tokens.layout.rows(first + count - 1).stop)
        layout = Layout.of(tokens.layout.sizes[first : first + count])
        segments = tokens.segments[rows].to(device) if self.settings.segments else None
        with torch.inference_mode():
            said = model(tokens.ids[rows].to(device), layout.to(device), segments=segments).float().cpu()
        yield from layout.split(said)

    def _answer(self, spans: list[Span], none: float, nbest: int) -> Answered:
        best: dict[tuple[int, int], Span] = {}
        for span in spans:  # the same words are found in two windows: the better counts
            held = best.get((span.start, span.end))
            if held is None or span.score > held.score:
                best[span.start, span.end] = span
        ordered = sorted(best.values(), key=lambda span: (-span.score, span.start, span.end))[: max(nbest, 1)]
        shares = torch.softmax(torch.tensor([none, *(span.score for span in ordered)]), 0).tolist()
        told = tuple(Span(s.text, s.start, s.end, s.score, share) for s, share in zip(ordered, shares[1:], strict=True))
        least = none + self.threshold if self.threshold is not None else float("-inf")
        return Answered(told[0] if told and told[0].score > least else None, told, none, shares[0])

    def judged(self, opened: Opened, rows: Rows) -> metrics.Judged:
        """Exact match and F1 as SQuAD measures them (Rajpurkar et al. 2016)."""
        said, due = self._said(opened, rows)
        each = np.array([measured(answer.text, golds) for answer, golds in zip(said, due, strict=True)]).reshape(-1, 2)

        def measure(some: metrics.Numbers) -> dict[str, float]:
            exact, f1 = each[some].mean(0).tolist() if len(some) else (0.0, 0.0)
            return {"exact": 100 * exact, "f1": 100 * f1}

        return metrics.Judged(len(said), measure)

    def _said(self, opened: Opened, rows: Rows) -> tuple[list[Answered], list[list[str]]]:
        good = [(row, found) for row in rows if (found := answers_of(row)) is not None]
        questions, contexts = ([row.values[name] for row, _ in good] for name in ("question", "context"))
        said = list(self.answers(opened.model, questions, contexts))
        return said, [[row.values["context"][a:b] for a, b in found] for row, found in good]

    def finished(self, opened: Opened, rows: Rows) -> tuple[Opened, dict[str, Any]]:
        """The threshold that suits the held-out rows, where some of them have no answer."""
        told: dict[str, Any] = {"max_len": self.settings.max_len}
        if self.threshold is None:
            return opened, told
        said, due = self._said(opened, rows)
        return opened, {**told, "threshold": _threshold(said, due)}


def answers_of(row: Row) -> list[tuple[int, int]] | None:
    """The characters of a row's answers; none where it has none; None where what it says does not stand there."""
    context = row.values["context"]
    if "answers" in row.values:
        return [(a["start"], a["start"] + len(a["text"])) for a in row.values["answers"]]
    text = row.values["answer"].strip()
    start = nearest(context, text) if text else None
    return [] if not text else None if start is None else [(start, start + len(text))]


def _place(tokens: Tokens, window: int, answers: list[tuple[int, int]]) -> list[int]:
    """The first and last token of the first answer in this window; 0 and 0 where it is not whole in it."""
    if not answers:
        return [0, 0]
    start, end = answers[0]
    rows = tokens.layout.rows(window)
    assert tokens.offsets is not None
    at, own = tokens.offsets[rows].numpy(), (tokens.parts[rows] == 1).numpy()
    inside = np.flatnonzero(own & (at[:, 0] < end) & (at[:, 1] > start))
    held = np.flatnonzero(own)
    same = tokens.sources == tokens.sources[window]
    begins, ends = (not (0 <= i < len(same) and bool(same[i])) for i in (window - 1, window + 1))  # as its text does
    if not len(inside) or (not begins and at[held[0], 0] > start) or (not ends and at[held[-1], 1] < end):
        return [0, 0]
    return [int(inside[0]), int(inside[-1])]


def _spans(tokens: Tokens, window: int, said: Tensor, context: str) -> list[Span]:
    """The best spans of one window, both scores of whose tokens are (T, 2)."""
    rows = tokens.layout.rows(window)
    assert tokens.offsets is not None
    own = (tokens.parts[rows] == 1).nonzero()[:, 0]
    if not len(own):
        return []
    starts, ends = said[own, 0], said[own, 1]  # (C,)
    padded = torch.cat([ends, ends.new_full((LONGEST - 1,), float("-inf"))])
    sums = starts.unsqueeze(1) + padded.unfold(0, LONGEST, 1)  # (C, LONGEST): from this token, so many on
    top = sums.flatten().topk(min(NBEST, sums.numel()))
    at = tokens.offsets[rows][own]
    found: list[Span] = []
    for score, place in zip(top.values.tolist(), top.indices.tolist(), strict=True):
        if score == float("-inf"):
            break
        first, more = divmod(place, LONGEST)
        a, b = int(at[first, 0]), int(at[first + more, 1])
        found.append(Span(context[a:b], a, b, score))
    return found


def log_sums(x: Tensor, layout: Layout) -> Tensor:
    """log-sum-exp of each column within each sequence, (N, C) to (B, C)."""
    ids = layout.sequence_ids.unsqueeze(1).expand_as(x)
    empty = x.new_zeros(layout.num_sequences, x.shape[1])
    top = empty.scatter_reduce(0, ids, x.detach(), reduce="amax", include_self=False)
    return empty.scatter_add(0, ids, (x - top.gather(0, ids)).exp()).log() + top


_ARTICLES = re.compile(r"\b(a|an|the)\b")
_MARKS = set(string.punctuation)


def plain(text: str) -> str:
    """As SQuAD compares: without case, marks, articles and more than one space."""
    text = "".join(c for c in text.lower() if c not in _MARKS)
    return " ".join(_ARTICLES.sub(" ", text).split())


def measured(said: str, due: Sequence[str]) -> tuple[float, float]:
    """Exact match and F1 of words, the best over the answers that are right; "" is right where there are none."""
    golds = due or [""]
    return max(float(plain(said) == plain(gold)) for gold in golds), max(overlap(said, gold) for gold in golds)


def overlap(guess: str, gold: str) -> float:
    """F1 of the words of two answers."""
    a, b = plain(guess).split(), plain(gold).split()
    if not a or not b:
        return float(a == b)
    same = sum((Counter(a) & Counter(b)).values())
    return 2 * same / (len(a) + len(b))


def _threshold(said: Sequence[Answered], due: Sequence[Sequence[str]]) -> float:
    """How much better than none a span must be, for the best F1 on these questions."""
    gains: list[tuple[float, float]] = []  # how much better it is, and what answering is worth over saying none
    for answer, golds in zip(said, due, strict=True):
        if answer.spans:
            best = answer.spans[0]
            worth = max(overlap(best.text, gold) for gold in golds) if golds else 0.0
            gains.append((best.score - answer.none, worth - (0.0 if golds else 1.0)))
    gains.sort(reverse=True)
    if not gains:
        return 0.0
    totals = np.cumsum([gain for _, gain in gains])
    ends = np.array([a[0] > b[0] for a, b in pairwise(gains)] + [True])  # equals are answered together
    best = int(np.argmax(np.where(ends, totals, -np.inf)))
    if totals[best] <= 0:
        return gains[0][0]
    below = gains[best + 1][0] if best + 1 < len(gains) else gains[best][0] - 1.0
    return (gains[best][0] + below) / 2
