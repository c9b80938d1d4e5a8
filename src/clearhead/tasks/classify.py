"""Classification: a text gets one label, several, or a number."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any, ClassVar, Self

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from clearhead.data import Columns, Held, Integers, Ragged, Row, Rows
from clearhead.models.heads import Kind
from clearhead.models.heads import Sequence as SequenceHead
from clearhead.models.model import Model
from clearhead.models.store import Opened
from clearhead.tasks import metrics
from clearhead.tasks.documents import CHUNK, Reader, gathered, joined, stitched
from clearhead.tasks.encoders import Labelling, in_order, labels_of
from clearhead.tasks.labels import COLUMNS, Labels
from clearhead.tasks.task import Batch, LeftOut, Settings
from clearhead.tasks.words import tensor
from clearhead.text import Tokenizer

PROBLEMS = {"one": "single_label_classification", "several": "multi_label_classification", "number": "regression"}


@dataclass(frozen=True)
class Classified:
    """What a text was called: its label, its labels or its number; and the score of every label."""

    answer: str | tuple[str, ...] | float
    scores: Mapping[str, float] = field(default_factory=dict[str, float])


@dataclass(frozen=True, eq=False)
class Classify(Labelling):
    """Learn what a text is called.

    A text longer than `max_len` tokens is read in windows, whose scores are averaged by their length: in training as in
    answering.
    """

    tokenizer: Tokenizer
    labels: Labels
    settings: Settings = field(default_factory=Settings)
    thresholds: tuple[float, ...] = ()  # of several labels: the score from which each is said

    name: ClassVar[str] = "classify"
    suffix: ClassVar[str] = "SequenceClassification"
    texts: ClassVar[tuple[str, ...]] = ("text",)
    forms: ClassVar[tuple[tuple[str, ...], ...]] = (("text", "label"), ("text", "labels"), ("text", "number"))
    drawn: ClassVar[Any] = ("text", lambda values: str(values.get("label", values.get("labels"))))
    template: ClassVar[str] = "bert"
    metrics: ClassVar[tuple[str, ...]] = (
        "loss", "accuracy", "f1", "macro_f1", "micro_f1", "exact", "spearman", "pearson", "rmse",
    )  # fmt: skip

    @classmethod
    def learn(cls, rows: Rows, columns: tuple[str, ...]) -> dict[str, Any]:
        """The labels of the rows."""
        told = next(name for name in columns if name in COLUMNS)
        return Labels.learn(COLUMNS[told], (row.values[told] for row in rows)).facts()

    @classmethod
    def make(cls, tokenizer: Tokenizer, settings: Settings, facts: Mapping[str, Any]) -> Self:
        """The task with these labels."""
        return cls(tokenizer, Labels.of(facts), settings)

    @classmethod
    def of(cls, opened: Opened) -> Self:
        """The task that a model folder was trained for."""
        labels = labels_of(opened, "sequence", "label texts", "classify")
        told = opened.facts.get("answers", {})
        problem = {value: name for name, value in PROBLEMS.items()}.get(str(opened.raw.get("problem_type")), "one")
        kind = "number" if len(labels) == 1 and problem == "one" else problem
        settings = Settings(max_len=opened.max_len or 512, segments=opened.has_segments)
        return cls(opened.words, Labels(kind, labels), settings, tuple(told.get("thresholds", ())))  # type: ignore[arg-type]

    @property
    def head(self) -> tuple[Kind, tuple[str, ...]]:
        """A score for each label of a text."""
        return "sequence", self.labels.names

    @property
    def reader(self) -> Reader:
        """Who reads texts in windows."""
        return Reader(self.tokenizer, self.settings.max_len, self.settings.segments and len(self.texts) > 1)

    def encode(self, rows: Rows) -> tuple[Held, list[LeftOut]]:
        """Texts in windows, and what they are called; rows with a label nobody has learnt are left out, and told."""
        parts: list[Held] = []
        labels: list[list[int] | list[float]] = []
        seen, strange, stream = 0, "", iter(rows)
        while chunk := list(islice(stream, CHUNK)):
            kept: list[Row] = []
            for row in chunk:
                seen += 1
                try:
                    labels.append(self.labels.read(row.values[self.column]))
                    kept.append(row)
                except ValueError as error:
                    strange = strange or f"{row.file} line {row.line:,}: {error}"
            if kept:
                parts.append(self.read([[row.values[name] for row in kept] for name in self.texts]))
        columns = joined(parts)
        if self.labels.kind == "number":
            columns["label"] = Ragged.of_numbers(x[0] for x in labels)
        else:
            columns["label"] = Ragged.of(labels)  # type: ignore[arg-type]
        left = LeftOut(seen - len(labels), seen, strange)
        return columns, [left] if left.count else []

    @property
    def column(self) -> str:
        """The column that its labels are in."""
        return next(name for name, kind in COLUMNS.items() if kind == self.labels.kind)

    def read(self, texts: Sequence[Sequence[str]]) -> Held:
        """Texts of a column each as windows."""
        return self.reader.read(*texts)

    def lengths(self, columns: Columns, examples: Integers | None = None) -> Integers:
        """All tokens of all windows."""
        return columns["ids"].lengths(examples)

    def counts(self, columns: Columns, examples: Integers | None = None) -> Integers:
        """A text counts once."""
        return np.ones(len(columns["ids"] if examples is None else examples), dtype=np.int64)

    def collate(self, columns: Columns, examples: Integers, draw: int = 0) -> Batch:
        """The windows of these texts, and their labels: (n,), of several (n, labels)."""
        held = columns.get("label")
        if held is None:
            labels = torch.zeros(0)
        elif self.labels.kind == "several":
            names, sizes = held.take(examples)
            labels = torch.zeros(len(examples), len(self.labels.names))
            labels[np.repeat(np.arange(len(examples)), sizes), names] = 1.0
        else:
            labels = tensor(held.take(examples)[0])
        return gathered(columns, examples, labels)

    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        """Cross-entropy, the mean over labels of the binary one, or the squared error, summed over texts."""
        count = len(batch.labels)
        scores = self._scores(model, batch, count)
        if self.labels.kind == "one":
            weight = self._weights(scores) if model.training else None
            smoothing = self.settings.label_smoothing if model.training else 0.0
            losses = F.cross_entropy(scores, batch.labels, label_smoothing=smoothing, reduction="none")
            return (losses if weight is None else losses * weight[batch.labels]).sum()
        if self.labels.kind == "several":
            weight = self._weights(scores) if model.training else None
            losses = F.binary_cross_entropy_with_logits(scores, batch.labels, weight=weight, reduction="none")
            return losses.mean(1).sum()
        due = (batch.labels - self.labels.center) / self.labels.spread
        return F.mse_loss(scores[:, 0], due, reduction="sum")

    def _weights(self, scores: Tensor) -> Tensor | None:
        return scores.new_tensor(self.labels.balance()) if self.settings.balanced else None

    def _scores(self, model: nn.Module, batch: Batch, count: int) -> Tensor:
        assert isinstance(model, Model)
        found = model(batch.ids, batch.layout, segments=batch.segments)  # (windows, labels)
        return stitched(found.float(), batch, count)

    @torch.inference_mode()
    def outputs(self, model: nn.Module, columns: Columns) -> Tensor:
        """What the head says of every text, (texts, labels), float32."""
        found = torch.zeros(len(columns["ids"]), len(self.labels.names))
        for examples, batch in in_order(self, model, columns):
            found[torch.from_numpy(examples)] = self._scores(model, batch, len(examples)).cpu()
        return found

    def answers(self, model: nn.Module, texts: Sequence[Sequence[str]]) -> Iterator[Classified]:
        """What each text is called, in order."""
        for lo in range(0, len(texts[0]), CHUNK):
            columns = self.read([side[lo : lo + CHUNK] for side in texts])
            yield from map(self._answer, self.outputs(model, columns))

    def _answer(self, scores: Tensor) -> Classified:
        names, kind = self.labels.names, self.labels.kind
        if kind == "number":
            return Classified(float(scores[0]) * self.labels.spread + self.labels.center)
        shares = torch.softmax(scores, 0) if kind == "one" else torch.sigmoid(scores)
        told = {name: float(share) for name, share in zip(names, shares, strict=True)}
        if kind == "one":
            return Classified(names[int(scores.argmax())], told)
        limits = self.thresholds or (0.5,) * len(names)
        return Classified(tuple(n for n, limit in zip(names, limits, strict=True) if told[n] >= limit), told)

    def said(self, scores: Tensor, columns: Columns) -> tuple[metrics.Numbers, metrics.Numbers]:
        """What was due of examples, and what these scores say, (n,), of several labels (n, labels)."""
        due = self.collate(columns, np.arange(len(scores))).labels.numpy()
        if self.labels.kind == "number":
            return due, scores[:, 0].numpy() * self.labels.spread + self.labels.center
        if self.labels.kind == "one":
            return due, scores.argmax(1).numpy()
        limits = np.asarray(self.thresholds or (0.5,) * len(self.labels.names))
        return due.astype(bool), torch.sigmoid(scores).numpy() >= limits

    def judged(self, opened: Opened, rows: Rows) -> metrics.Judged:
        """Its answers to these rows beside their labels."""
        columns, _ = self.encode(rows)
        scores = self.outputs(opened.model, columns)
        due, said = self.said(scores, columns)
        names = self.labels.names
        if self.labels.kind == "number":
            return metrics.Judged(len(due), lambda some: metrics.of_numbers(due[some], said[some]))
        if self.labels.kind == "several":
            table = metrics.per_label(names, (due & said).sum(0), said.sum(0), due.sum(0))
            return metrics.Judged(len(due), lambda some: metrics.of_several(due[some], said[some]), table)
        counts = [np.bincount(x, minlength=len(names)) for x in (due[due == said], said, due)]
        confusion = np.bincount(due * len(names) + said, minlength=len(names) ** 2).reshape(len(names), -1)
        shares = torch.softmax(scores, 1).max(1).values.numpy()
        return metrics.Judged(
            len(due),
            lambda some: metrics.of_one(due[some], said[some], len(names)),
            metrics.per_label(names, *counts),
            confusion,
            (shares, due == said),
        )

    def finished(self, opened: Opened, rows: Rows) -> tuple[Opened, dict[str, Any]]:
        """Thresholds that suit the held-out rows; numbers in the user's own scale, by the last layer itself."""
        raw = {**opened.raw, "problem_type": PROBLEMS[self.labels.kind]}
        if self.labels.kind == "number":
            with torch.no_grad():
                head = opened.model.head
                assert isinstance(head, SequenceHead) and head.output is not None
                head.output.weight.mul_(self.labels.spread)
                head.output.bias.mul_(self.labels.spread).add_(self.labels.center)
            return replace(opened, raw=raw), {}
        if self.labels.kind == "one":
            return replace(opened, raw=raw), {}
        columns, _ = self.encode(rows)
        scores = torch.sigmoid(self.outputs(opened.model, columns)).numpy()
        due = self.collate(columns, np.arange(len(scores))).labels.numpy()
        limits = [metrics.best_threshold(due[:, i] > 0, scores[:, i]) for i in range(scores.shape[1])]
        return replace(opened, raw=raw), {"thresholds": limits}
