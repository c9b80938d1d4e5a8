"""Tagging: every word of a text gets a label: its part of speech, or whether it belongs to a name."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, ClassVar, Self

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from clearhead.attention import Layout
from clearhead.data import Columns, Held, Integers, Ragged, Row, Rows
from clearhead.data.spans import divided
from clearhead.models.heads import Kind
from clearhead.models.model import Model
from clearhead.models.store import Opened
from clearhead.tasks import metrics
from clearhead.tasks.documents import CHUNK, Reader, gathered, joined, windows
from clearhead.tasks.encoders import Labelling, in_order, labels_of
from clearhead.tasks.iob import compared, entities, is_iob, scores
from clearhead.tasks.labels import Labels
from clearhead.tasks.task import Batch, LeftOut, Settings
from clearhead.tasks.words import tensor
from clearhead.text import Tokenizer, Tokens

Spans = Sequence[tuple[int, int]]
"""The characters of each word of a text."""


@dataclass(frozen=True)
class Name:
    """A name in a text: `text[start:end]`."""

    label: str
    text: str
    start: int
    end: int


@dataclass(frozen=True)
class Tagged:
    """The words of a text with their tags, how sure each is, and the names that the tags mark."""

    words: tuple[str, ...]
    tags: tuple[str, ...]
    scores: tuple[float, ...]
    names: tuple[Name, ...] = ()


@dataclass(frozen=True, eq=False)
class Tag(Labelling):
    """Learn what each word is.

    A word is told by its first piece; a long text is read in windows, and each word in the one where it has most
    around it.
    """

    tokenizer: Tokenizer
    labels: Labels
    settings: Settings = field(default_factory=Settings)

    name: ClassVar[str] = "tag"
    suffix: ClassVar[str] = "TokenClassification"
    forms: ClassVar[tuple[tuple[str, ...], ...]] = (("words", "tags"),)
    drawn: ClassVar[Any] = ("words", lambda values: " ".join(sorted(set(values["tags"]))[-1:]))
    template: ClassVar[str] = "bert"
    metrics: ClassVar[tuple[str, ...]] = ("loss", "accuracy", "f1", "precision", "recall")

    @classmethod
    def learn(cls, rows: Rows, columns: tuple[str, ...]) -> dict[str, Any]:
        """The tags of the rows."""
        return Labels.learn("one", (tag for row in rows for tag in row.values["tags"])).facts()

    @classmethod
    def make(cls, tokenizer: Tokenizer, settings: Settings, facts: Mapping[str, Any]) -> Self:
        """The task with these tags."""
        return cls(tokenizer, Labels.of(facts), settings)

    @classmethod
    def of(cls, opened: Opened) -> Self:
        """The task that a model folder was trained for."""
        labels = labels_of(opened, "token", "tag words", "tag")
        return cls(opened.words, Labels("one", labels), Settings(max_len=opened.max_len or 512))

    @property
    def head(self) -> tuple[Kind, tuple[str, ...]]:
        """A score for each tag of a token."""
        return "token", self.labels.names

    @property
    def reader(self) -> Reader:
        """Who reads texts in windows."""
        return Reader(self.tokenizer, self.settings.max_len)

    def encode(self, rows: Rows) -> tuple[Held, list[LeftOut]]:
        """Sentences in windows, where each of their words is told, and its tag."""
        parts: list[Held] = []
        seen, kept, strange, stream = 0, 0, "", iter(rows)
        while chunk := list(islice(stream, CHUNK)):
            good: list[Row] = []
            tags: list[list[int]] = []
            for row in chunk:
                seen += 1
                try:
                    tags.append([int(self.labels.read(tag)[0]) for tag in row.values["tags"]])
                    good.append(row)
                except ValueError as error:
                    strange = strange or f"{row.file} line {row.line:,}: {error}"
            kept += len(good)
            if good:
                columns = self.read(*zip(*(spaced(row.values["words"]) for row in good), strict=True))
                held = [np.asarray(t)[found] for t, found in zip(tags, _each(columns["which"]), strict=True)]
                parts.append({**columns, "label": Ragged.of(held)})
        columns = joined(parts)
        left = LeftOut(seen - kept, seen, strange)
        return columns, [left] if left.count else []

    def read(self, texts: Sequence[str], words: Sequence[Spans]) -> Held:
        """Texts with the characters of their words, in windows.

        `places` are the tokens that tell a word, `which` the words' numbers. A word that is nothing to the tokenizer is
        told by none.
        """
        tokens = self.tokenizer.windows(list(texts), max_len=self.reader.max_len, stride=self.reader.stride)
        columns = windows(tokens, len(texts), False)
        found = [_places(tokens, rows, spans) for rows, spans in zip(_texts(tokens, len(texts)), words, strict=True)]
        return {**columns, "places": Ragged.of(p for p, _ in found), "which": Ragged.of(w for _, w in found)}

    def lengths(self, columns: Columns, examples: Integers | None = None) -> Integers:
        """All tokens of all windows."""
        return columns["ids"].lengths(examples)

    def counts(self, columns: Columns, examples: Integers | None = None) -> Integers:
        """The words that are told."""
        return columns["places"].lengths(examples)

    def collate(self, columns: Columns, examples: Integers, draw: int = 0) -> Batch:
        """The windows of these sentences; labels are (2, words): the token, and the tag."""
        places, sizes = columns["places"].take(examples)
        totals = columns["ids"].lengths(examples)
        places = places + np.repeat(np.cumsum(totals) - totals, sizes)
        held = columns.get("label")
        tags = held.take(examples)[0] if held is not None else np.zeros_like(places)
        return gathered(columns, examples, tensor(np.stack([places, tags])))

    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        """Cross-entropy, summed over words."""
        weight = None
        said = self._scores(model, batch)
        if model.training and self.settings.balanced:
            weight = said.new_tensor(self.labels.balance())
        smoothing = self.settings.label_smoothing if model.training else 0.0
        losses = F.cross_entropy(said, batch.labels[1], label_smoothing=smoothing, reduction="none")
        return (losses if weight is None else losses * weight[batch.labels[1]]).sum()

    def _scores(self, model: nn.Module, batch: Batch) -> Tensor:
        """A row for each word, (words, tags)."""
        assert isinstance(model, Model)
        x = model.states(batch.ids, batch.layout)
        head = model.head
        assert head is not None
        chosen = x.index_select(0, batch.labels[0])
        return head(chosen, Layout.of([len(chosen)])).float()

    def outputs(self, model: nn.Module, columns: Columns) -> Iterator[tuple[int, Tensor]]:
        """The number of a sentence, and a row for each of its words that is told, (words, tags)."""
        for examples, batch in in_order(self, model, columns):
            sizes = columns["places"].lengths(examples).tolist()
            with torch.inference_mode():  # which must not reach who goes through the answers
                said = self._scores(model, batch).cpu().split(sizes)
            yield from zip(examples.tolist(), said, strict=True)

    def answers(self, model: nn.Module, texts: Sequence[str | Sequence[str]]) -> Iterator[Tagged]:
        """The tags of each text, which may be divided into words already, in order."""
        for lo in range(0, len(texts), CHUNK):
            divided = [worded(text) for text in texts[lo : lo + CHUNK]]
            columns = self.read([text for text, _ in divided], [spans for _, spans in divided])
            which = list(_each(columns["which"]))
            for i, said in self.outputs(model, columns):
                yield self._answer(*divided[i], which[i], torch.softmax(said, 1))

    def _answer(self, text: str, spans: Spans, which: Integers, shares: Tensor) -> Tagged:
        tags = [self._nothing] * len(spans)
        sure = [0.0] * len(spans)
        best = shares.max(1)
        for i, tag, share in zip(which.tolist(), best.indices.tolist(), best.values.tolist(), strict=True):
            tags[i], sure[i] = self.labels.names[tag], share
        found = entities(tags) if is_iob(self.labels.names) else []
        names = [(n.label, spans[n.first][0], spans[n.end - 1][1]) for n in found]
        return Tagged(
            tuple(text[a:b] for a, b in spans),
            tuple(tags),
            tuple(sure),
            tuple(Name(label, text[a:b], a, b) for label, a, b in names),
        )

    @property
    def _nothing(self) -> str:
        """The tag of a word that the tokenizer makes nothing of."""
        if "O" in self.labels.names or not self.labels.counts:
            return "O" if "O" in self.labels.names else self.labels.names[0]
        return self.labels.names[int(np.argmax(self.labels.counts))]

    def judged(self, opened: Opened, rows: Rows) -> metrics.Judged:
        """Its tags beside those of the rows: the share of words with the right one; of names, whole ones."""
        due: list[list[str]] = []
        words: list[list[str]] = []
        for row in rows:
            due.append(row.values["tags"])
            words.append(row.values["words"])
        said = [answer.tags for answer in self.answers(opened.model, words)]
        right = np.array([sum(a == b for a, b in zip(*pair, strict=True)) for pair in zip(due, said, strict=True)])
        sizes = np.array([len(tags) for tags in due])
        named = is_iob(self.labels.names)
        found = np.array([compared(*pair) for pair in zip(due, said, strict=True)]).reshape(-1, 3) if named else None

        def measure(some: metrics.Numbers) -> dict[str, float]:
            shares = {"accuracy": 100 * float(right[some].sum()) / max(int(sizes[some].sum()), 1)}
            return shares if found is None else shares | scores(*found[some].sum(0).tolist())

        return metrics.Judged(len(due), measure, self._table(due, said, named))

    def _table(
        self, due: Sequence[Sequence[str]], said: Sequence[Sequence[str]], named: bool
    ) -> tuple[metrics.PerLabel, ...]:
        """A line for each tag, or for each kind of name."""
        golds, guesses = ([_marks(tags, named) for tags in side] for side in (due, said))
        right, over, under = (Counter[str]() for _ in range(3))
        for gold, guess in zip(golds, guesses, strict=True):
            right.update(label for label, _ in gold & guess)
            over.update(label for label, _ in guess)
            under.update(label for label, _ in gold)
        names = sorted(under | over)
        return metrics.per_label(names, *(np.array([c[n] for n in names]) for c in (right, over, under)))

    def finished(self, opened: Opened, rows: Rows) -> tuple[Opened, dict[str, Any]]:
        """As it is."""
        return opened, {}


def spaced(words: Sequence[str]) -> tuple[str, Spans]:
    """Words as a text with a space between them, and the characters of each."""
    ends = np.cumsum([len(word) + 1 for word in words])
    return " ".join(words), [(int(end) - len(word) - 1, int(end) - 1) for word, end in zip(words, ends, strict=True)]


def worded(text: str | Sequence[str]) -> tuple[str, Spans]:
    """A text and the characters of its words; one that is a list of words already has a space between them."""
    if not isinstance(text, str):
        return spaced(text)
    return text, divided(text)


def _marks(tags: Sequence[str], named: bool) -> set[tuple[str, tuple[int, int]]]:
    if named:
        return {(name.label, (name.first, name.end)) for name in entities(tags)}
    return {(tag, (i, i + 1)) for i, tag in enumerate(tags)}


def _each(column: Ragged) -> Iterator[Integers]:
    for a, b in zip(column.offsets[:-1], column.offsets[1:], strict=True):
        yield column.ids[a:b].astype(np.int64)


def _texts(tokens: Tokens, count: int) -> Iterator[list[slice]]:
    """The rows of the windows of each text."""
    found: list[list[slice]] = [[] for _ in range(count)]
    for i, source in enumerate(tokens.sources.tolist()):
        found[source].append(tokens.layout.rows(i))
    yield from found


def _places(tokens: Tokens, rows: list[slice], spans: Spans) -> tuple[list[int], list[int]]:
    """The token that tells each word, counted from the text's first, and the words that have one.

    Of several windows that hold a word's first piece, it is the one with the most tokens on the shorter side.
    """
    assert tokens.offsets is not None
    starts = np.asarray([a for a, _ in spans])
    ends = np.asarray([b for _, b in spans])
    best: dict[int, tuple[int, int, int]] = {}  # of a word: its first character told, how much is around, the token
    before = 0
    for window in rows:
        at = tokens.offsets[window].numpy()
        own = (tokens.parts[window] >= 0).numpy()
        word = np.searchsorted(starts, at[:, 0], side="right") - 1
        inside = own & (word >= 0) & (at[:, 0] < ends[word.clip(0)]) if len(spans) else np.zeros(len(at), dtype=bool)
        for j in np.flatnonzero(inside).tolist():
            around = min(j, len(at) - 1 - j)
            held = best.get(int(word[j]))
            mine = int(at[j, 0]), -around, before + j
            if held is None or mine[:2] < held[:2]:
                best[int(word[j])] = mine
        before += len(at)
    found = sorted(best)
    return [best[i][2] for i in found], found
