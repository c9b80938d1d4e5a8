"""Token classification: a tag for every word of a text, such as its part of speech or an IOB tag of entities."""

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
from clearhead.data import Columns, InMemoryColumns, Integers, Ragged, Row, Rows
from clearhead.data.spans import divided
from clearhead.hub.folder import LoadedModel
from clearhead.metrics import evaluation as metrics
from clearhead.models.heads import HeadKind
from clearhead.models.model import Model
from clearhead.tasks.encoder_task import EncoderTask, batches_in_order, head_labels
from clearhead.tasks.iob import compared, entities, is_iob
from clearhead.tasks.iob import scores as entity_scores
from clearhead.tasks.labels import Labels
from clearhead.tasks.task import Batch, Skipped, TaskConfig, TaskSpec
from clearhead.tasks.windows import CHUNK, WindowTokenizer, collate_windows, concat_columns, windows
from clearhead.text import TokenBatch, Tokenizer

Spans = Sequence[tuple[int, int]]
"""The character range of each word of a text."""


@dataclass(frozen=True)
class Entity:
    """A named entity in a text: `text[start:end]`."""

    label: str
    text: str
    start: int
    end: int


@dataclass(frozen=True)
class TagResult:
    """The words of a text with their tags, the probability of each tag, and the entities that the tags mark."""

    words: tuple[str, ...]
    tags: tuple[str, ...]
    scores: tuple[float, ...]
    entities: tuple[Entity, ...] = ()


@dataclass(frozen=True, eq=False)
class Tag(EncoderTask):
    """Tags words.

    A word is tagged at its first token. A long text is read in windows, and each word is tagged in the window where it
    has the most context.
    """

    tokenizer: Tokenizer
    labels: Labels
    settings: TaskConfig = field(default_factory=TaskConfig)

    suffix: ClassVar[str] = "TokenClassification"
    spec: ClassVar[TaskSpec] = TaskSpec(
        name="tag",
        column_sets=(("words", "tags"),),
        metrics=("loss", "accuracy", "f1", "precision", "recall"),
        split_by=("words", lambda values: " ".join(sorted(set(values["tags"]))[-1:])),
    )

    @classmethod
    def collect_labels(cls, rows: Rows, columns: tuple[str, ...]) -> dict[str, Any]:
        return Labels.collect("single_label", (tag for row in rows for tag in row.values["tags"])).to_dict()

    @classmethod
    def from_recipe(cls, tokenizer: Tokenizer, settings: TaskConfig, data_info: Mapping[str, Any]) -> Self:
        """Create the task with the tags of the training rows."""
        return cls(tokenizer, Labels.from_dict(data_info), settings)

    @classmethod
    def from_model(cls, loaded: LoadedModel) -> Self:
        labels = head_labels(loaded, "token", "tag words", "tag")
        return cls(loaded.require_tokenizer, Labels("single_label", labels), TaskConfig(max_len=loaded.max_len or 512))

    @property
    def head(self) -> tuple[HeadKind, tuple[str, ...]]:
        """One score per tag for each token."""
        return "token", self.labels.names

    @property
    def reader(self) -> WindowTokenizer:
        return WindowTokenizer(self.tokenizer, self.settings.max_len)

    def encode(self, rows: Rows) -> tuple[InMemoryColumns, list[Skipped]]:
        """Tokenize sentences into windows, with the token and the tag of each word."""
        parts: list[InMemoryColumns] = []
        total, kept, reason, stream = 0, 0, "", iter(rows)
        while chunk := list(islice(stream, CHUNK)):
            good: list[Row] = []
            tags: list[list[int]] = []
            for row in chunk:
                total += 1
                try:
                    tags.append([int(self.labels.read(tag)[0]) for tag in row.values["tags"]])
                    good.append(row)
                except ValueError as error:
                    reason = reason or f"{row.file} line {row.line:,}: {error}"
            kept += len(good)
            if good:
                columns = self.read(*zip(*(spaced(row.values["words"]) for row in good), strict=True))
                labels = [np.asarray(t)[which] for t, which in zip(tags, _each(columns["which"]), strict=True)]
                parts.append({**columns, "label": Ragged.from_lists(labels)})
        columns = concat_columns(parts)
        skipped = Skipped(total - kept, total, reason)
        return columns, [skipped] if skipped.count else []

    def read(self, texts: Sequence[str], words: Sequence[Spans]) -> InMemoryColumns:
        """Tokenize texts with the character ranges of their words into windows.

        `places` are the tokens at which words are tagged, `which` the indices of these words. A word without any token
        is in neither.
        """
        tokens = self.tokenizer.windows(list(texts), max_len=self.reader.max_len, stride=self.reader.stride)
        columns = windows(tokens, len(texts), False)
        placed = [_places(tokens, rows, spans) for rows, spans in zip(_texts(tokens, len(texts)), words, strict=True)]
        places, which = (Ragged.from_lists(pair[side] for pair in placed) for side in (0, 1))
        return {**columns, "places": places, "which": which}

    def num_targets(self, columns: Columns, examples: Integers | None = None) -> Integers:
        return columns["places"].lengths(examples)

    def collate(self, columns: Columns, examples: Integers, draw: int = 0) -> Batch:
        """Return the windows of these sentences; labels are (2, words): the token, and the tag."""
        places, sizes = columns["places"].take(examples)
        totals = columns["ids"].lengths(examples)
        places = places + np.repeat(np.cumsum(totals) - totals, sizes)
        column = columns.get("label")
        tags = column.take(examples)[0] if column is not None else np.zeros_like(places)
        return collate_windows(columns, examples, torch.from_numpy(np.stack([places, tags])))

    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        """Return cross-entropy, summed over words."""
        weight = None
        scores = self._scores(model, batch)
        if model.training and self.settings.balance_classes:
            weight = scores.new_tensor(self.labels.balance())
        smoothing = self.settings.label_smoothing if model.training else 0.0
        losses = F.cross_entropy(scores, batch.labels[1], label_smoothing=smoothing, reduction="none")
        return (losses if weight is None else losses * weight[batch.labels[1]]).sum()

    def _scores(self, model: nn.Module, batch: Batch) -> Tensor:
        """Return the scores of each word, (words, tags)."""
        assert isinstance(model, Model)
        x = model.hidden_states(batch.ids, batch.layout)
        head = model.head
        assert head is not None
        chosen = x.index_select(0, batch.labels[0])
        return head(chosen, Layout.from_lengths([len(chosen)])).float()

    def outputs(self, model: nn.Module, columns: Columns) -> Iterator[tuple[int, Tensor]]:
        """Yield the index of each sentence, and the scores of its tagged words, (words, tags)."""
        for examples, batch in batches_in_order(self, model, columns):
            sizes = columns["places"].lengths(examples).tolist()
            with torch.inference_mode():  # not around a yield: the caller may still train
                scores = self._scores(model, batch).cpu().split(sizes)
            yield from zip(examples.tolist(), scores, strict=True)

    def input_from(self, values: Mapping[str, Any]) -> str | Sequence[str]:
        return values["words"]

    def answer(self, loaded: LoadedModel, inputs: Sequence[str | Sequence[str]]) -> Iterator[TagResult]:
        """Yield the tags of each text, in order; a text may be a list of words."""
        for lo in range(0, len(inputs), CHUNK):
            texts = [worded(text) for text in inputs[lo : lo + CHUNK]]
            columns = self.read([text for text, _ in texts], [spans for _, spans in texts])
            which = list(_each(columns["which"]))
            for i, scores in self.outputs(loaded.model, columns):
                yield self._tagged(*texts[i], which[i], torch.softmax(scores, 1))

    def _tagged(self, text: str, spans: Spans, which: Integers, probabilities: Tensor) -> TagResult:
        tags = [self._default_tag] * len(spans)
        confidence = [0.0] * len(spans)
        best = probabilities.max(1)
        for i, tag, probability in zip(which.tolist(), best.indices.tolist(), best.values.tolist(), strict=True):
            tags[i], confidence[i] = self.labels.names[tag], probability
        marked = entities(tags) if is_iob(self.labels.names) else []
        places = [(n.label, spans[n.first][0], spans[n.end - 1][1]) for n in marked]
        return TagResult(
            tuple(text[a:b] for a, b in spans),
            tuple(tags),
            tuple(confidence),
            tuple(Entity(label, text[a:b], a, b) for label, a, b in places),
        )

    @property
    def _default_tag(self) -> str:
        """The tag of a word without any token."""
        if "O" in self.labels.names or not self.labels.counts:
            return "O" if "O" in self.labels.names else self.labels.names[0]
        return self.labels.names[int(np.argmax(self.labels.counts))]

    def evaluate(self, loaded: LoadedModel, rows: Rows) -> metrics.Evaluation:
        """Compare tags with those of the rows: accuracy over words, and with IOB tags F1 over entities."""
        target: list[list[str]] = []
        words: list[list[str]] = []
        for row in rows:
            target.append(row.values["tags"])
            words.append(row.values["words"])
        predicted = [result.tags for result in self.answer(loaded, words)]
        pairs = list(zip(target, predicted, strict=True))
        correct = np.array([sum(a == b for a, b in zip(*pair, strict=True)) for pair in pairs])
        sizes = np.array([len(tags) for tags in target])
        iob = is_iob(self.labels.names)
        counts = np.array([compared(*pair) for pair in pairs]).reshape(-1, 3) if iob else None

        def measure(some: metrics.Numbers) -> dict[str, float]:
            accuracy = {"accuracy": 100 * float(correct[some].sum()) / max(int(sizes[some].sum()), 1)}
            return accuracy if counts is None else accuracy | entity_scores(*counts[some].sum(0).tolist())

        return metrics.Evaluation(len(target), measure, self._table(target, predicted, iob))

    def _table(
        self, target: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]], iob: bool
    ) -> tuple[metrics.PerLabel, ...]:
        """Return a line for each tag, or for each entity label."""
        golds, guesses = ([_marks(tags, iob) for tags in side] for side in (target, predicted))
        correct, guessed, expected = (Counter[str]() for _ in range(3))
        for gold, guess in zip(golds, guesses, strict=True):
            correct.update(label for label, _ in gold & guess)
            guessed.update(label for label, _ in guess)
            expected.update(label for label, _ in gold)
        names = sorted(expected | guessed)
        return metrics.per_label(names, *(np.array([c[n] for n in names]) for c in (correct, guessed, expected)))

    def finalize(self, loaded: LoadedModel, rows: Rows) -> tuple[LoadedModel, dict[str, Any]]:
        return loaded, {}


def spaced(words: Sequence[str]) -> tuple[str, Spans]:
    """Join words with spaces; return the text and the character range of each word."""
    ends = np.cumsum([len(word) + 1 for word in words])
    return " ".join(words), [(int(end) - len(word) - 1, int(end) - 1) for word, end in zip(words, ends, strict=True)]


def worded(text: str | Sequence[str]) -> tuple[str, Spans]:
    """Return a text and the character ranges of its words; a list of words is joined with spaces."""
    if not isinstance(text, str):
        return spaced(text)
    return text, divided(text)


def _marks(tags: Sequence[str], iob: bool) -> set[tuple[str, tuple[int, int]]]:
    if iob:
        return {(span.label, (span.first, span.end)) for span in entities(tags)}
    return {(tag, (i, i + 1)) for i, tag in enumerate(tags)}


def _each(column: Ragged) -> Iterator[Integers]:
    for a, b in zip(column.offsets[:-1], column.offsets[1:], strict=True):
        yield column.ids[a:b].astype(np.int64)


def _texts(tokens: TokenBatch, count: int) -> Iterator[list[slice]]:
    """Yield the token rows of the windows of each text."""
    rows: list[list[slice]] = [[] for _ in range(count)]
    for i, source in enumerate(tokens.sources.tolist()):
        rows[source].append(tokens.layout.rows(i))
    yield from rows


def _places(tokens: TokenBatch, rows: list[slice], spans: Spans) -> tuple[list[int], list[int]]:
    """Return the token at which each word is tagged, counted from the text's first, and the words that have one.

    Of several windows that hold a word's first token, the one with the most tokens on the shorter side is taken.
    """
    assert tokens.offsets is not None
    starts = np.asarray([a for a, _ in spans])
    ends = np.asarray([b for _, b in spans])
    best: dict[int, tuple[int, int, int]] = {}  # word: first character of the token, -context, token
    before = 0
    for window in rows:
        at = tokens.offsets[window].numpy()
        own = (tokens.parts[window] >= 0).numpy()
        word = np.searchsorted(starts, at[:, 0], side="right") - 1
        inside = own & (word >= 0) & (at[:, 0] < ends[word.clip(0)]) if len(spans) else np.zeros(len(at), dtype=bool)
        for j in np.flatnonzero(inside).tolist():
            context = min(j, len(at) - 1 - j)
            previous = best.get(int(word[j]))
            candidate = int(at[j, 0]), -context, before + j
            if previous is None or candidate[:2] < previous[:2]:
                best[int(word[j])] = candidate
        before += len(at)
    which = sorted(best)
    return [best[i][2] for i in which], which
