"""Text classification: one label, several labels, or a number for a text or a pair of texts."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any, ClassVar, Self, cast

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from clearhead.data import Columns, InMemoryColumns, Integers, Ragged, Row, Rows
from clearhead.hub.folder import LoadedModel
from clearhead.metrics import evaluation as metrics
from clearhead.models.heads import HeadKind
from clearhead.models.heads import SequenceHead as SequenceHead
from clearhead.models.model import Model
from clearhead.tasks.encoder_task import EncoderTask, batches_in_order, head_labels
from clearhead.tasks.labels import COLUMNS, LabelKind, Labels
from clearhead.tasks.task import Batch, Skipped, TaskConfig, TaskSpec
from clearhead.tasks.windows import CHUNK, WindowTokenizer, collate_windows, concat_columns, merge_windows
from clearhead.text import Tokenizer

TextInput = str | tuple[str, str]
"""A text, or a pair of texts."""

PROBLEM_TYPES: dict[LabelKind, str] = {
    "single_label": "single_label_classification",
    "multi_label": "multi_label_classification",
    "regression": "regression",
}


@dataclass(frozen=True)
class Classification:
    """The predicted label, labels or number of a text, and the score of every label."""

    answer: str | tuple[str, ...] | float
    scores: Mapping[str, float] = field(default_factory=dict[str, float])


@dataclass(frozen=True, eq=False)
class Classify(EncoderTask):
    """Classifies texts.

    A text longer than `max_len` tokens is read in windows, whose scores are averaged by length, in training and in
    inference.
    """

    tokenizer: Tokenizer
    labels: Labels
    settings: TaskConfig = field(default_factory=TaskConfig)
    thresholds: tuple[float, ...] = ()  # multi-label: the score from which each label is predicted

    suffix: ClassVar[str] = "SequenceClassification"
    texts: ClassVar[tuple[str, ...]] = ("text",)
    spec: ClassVar[TaskSpec] = TaskSpec(
        name="classify",
        column_sets=(("text", "label"), ("text", "labels"), ("text", "number")),
        metrics=("loss", "accuracy", "f1", "macro_f1", "micro_f1", "exact", "spearman", "pearson", "rmse"),
        split_by=("text", lambda values: str(values.get("label", values.get("labels")))),
    )

    @classmethod
    def collect_labels(cls, rows: Rows, columns: tuple[str, ...]) -> dict[str, Any]:
        column = next(name for name in columns if name in COLUMNS)
        return Labels.collect(COLUMNS[column], (row.values[column] for row in rows)).to_dict()

    @classmethod
    def from_recipe(cls, tokenizer: Tokenizer, settings: TaskConfig, data_info: Mapping[str, Any]) -> Self:
        """Create the task with the labels of the training rows."""
        return cls(tokenizer, Labels.from_dict(data_info), settings)

    @classmethod
    def from_model(cls, loaded: LoadedModel) -> Self:
        names = head_labels(loaded, "sequence", "classify texts", "classify")
        answers = loaded.metadata.get("answers", {})
        kinds: dict[str, LabelKind] = {value: kind for kind, value in PROBLEM_TYPES.items()}
        kind: LabelKind = kinds.get(str(loaded.hf_config.get("problem_type")), "single_label")
        labels = Labels("regression" if len(names) == 1 and kind == "single_label" else kind, names)
        settings = TaskConfig(max_len=loaded.max_len or 512, segments=loaded.has_segments)
        return cls(loaded.require_tokenizer, labels, settings, tuple(answers.get("thresholds", ())))

    @property
    def head(self) -> tuple[HeadKind, tuple[str, ...]]:
        """One score per label for a text."""
        return "sequence", self.labels.names

    @property
    def reader(self) -> WindowTokenizer:
        return WindowTokenizer(self.tokenizer, self.settings.max_len, self.settings.segments and len(self.texts) > 1)

    def encode(self, rows: Rows) -> tuple[InMemoryColumns, list[Skipped]]:
        """Tokenize texts into windows; rows with a label that is not in the training rows are skipped and reported."""
        parts: list[InMemoryColumns] = []
        labels: list[list[int] | list[float]] = []
        weights: list[float] = []
        total, reason, stream = 0, "", iter(rows)
        while chunk := list(islice(stream, CHUNK)):
            good: list[Row] = []
            for row in chunk:
                total += 1
                try:
                    labels.append(self.labels.read(row.values[self.column]))
                    good.append(row)
                except ValueError as error:
                    reason = reason or f"{row.file} line {row.line:,}: {error}"
            weights += [row.weight for row in good]
            if good:
                parts.append(self.read([[row.values[name] for row in good] for name in self.texts]))
        columns = concat_columns(parts)
        if self.labels.kind == "regression":
            columns["label"] = Ragged.from_numbers(x[0] for x in labels)
        else:
            columns["label"] = Ragged.from_lists(cast(list[list[int]], labels))
        if any(weight != 1.0 for weight in weights):
            columns["weight"] = Ragged.from_numbers(weights)
        skipped = Skipped(total - len(labels), total, reason)
        return columns, [skipped] if skipped.count else []

    @property
    def column(self) -> str:
        return next(name for name, kind in COLUMNS.items() if kind == self.labels.kind)

    def read(self, texts: Sequence[Sequence[str]]) -> InMemoryColumns:
        return self.reader.read(*texts)

    def collate(self, columns: Columns, examples: Integers, draw: int = 0) -> Batch:
        """Return the windows of these texts; labels are (n,), multi-label (n, labels)."""
        batch = collate_windows(columns, examples, self.label_tensor(columns, examples))
        column = columns.get("weight")
        return batch if column is None else replace(batch, weights=torch.from_numpy(column.take(examples)[0]))

    def label_tensor(self, columns: Columns, examples: Integers) -> Tensor:
        """Return the labels of these examples, (n,), multi-label (n, labels); empty where the columns have none."""
        column = columns.get("label")
        if column is None:
            return torch.zeros(0)
        if self.labels.kind != "multi_label":
            return torch.from_numpy(column.take(examples)[0])
        names, sizes = column.take(examples)
        labels = torch.zeros(len(examples), len(self.labels.names))
        labels[np.repeat(np.arange(len(examples)), sizes), names] = 1.0
        return labels

    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        """Return cross-entropy, mean binary cross-entropy over labels, or squared error, summed over texts.

        In training, cross-entropy is weighted by the balance of the labels and the weights of the rows.
        """
        count = len(batch.labels)
        scores = self._scores(model, batch, count)
        if self.labels.kind == "single_label":
            weight = self._weights(scores) if model.training else None
            smoothing = self.settings.label_smoothing if model.training else 0.0
            losses = F.cross_entropy(scores, batch.labels, label_smoothing=smoothing, reduction="none")
            if model.training and batch.weights is not None:
                losses = losses * batch.weights
            if weight is None:
                return losses.sum()
            shares = batch.labels.is_floating_point()  # of the labels of mixed images
            return (losses * (batch.labels @ weight if shares else weight[batch.labels])).sum()
        if self.labels.kind == "multi_label":
            weight = self._weights(scores) if model.training else None
            losses = F.binary_cross_entropy_with_logits(scores, batch.labels, weight=weight, reduction="none")
            return losses.mean(1).sum()
        target = (batch.labels - self.labels.center) / self.labels.spread
        return F.mse_loss(scores[:, 0], target, reduction="sum")

    def _weights(self, scores: Tensor) -> Tensor | None:
        return scores.new_tensor(self.labels.balance()) if self.settings.balance_classes else None

    def _scores(self, model: nn.Module, batch: Batch, count: int) -> Tensor:
        assert isinstance(model, Model)
        scores = model(batch.ids, batch.layout, segments=batch.segments)  # (windows, labels)
        return merge_windows(scores.float(), batch, count)

    @torch.inference_mode()
    def outputs(self, model: nn.Module, columns: Columns) -> Tensor:
        """Return the head's scores of every text, (texts, labels), float32."""
        scores = torch.zeros(len(columns["ids"]), len(self.labels.names))
        for examples, batch in batches_in_order(self, model, columns):
            scores[torch.from_numpy(examples)] = self._scores(model, batch, len(examples)).cpu()
        return scores

    def input_from(self, values: Mapping[str, Any]) -> TextInput:
        text, *second = (values[name] for name in self.texts)
        return (text, second[0]) if second else text

    def answer(self, loaded: LoadedModel, inputs: Sequence[TextInput]) -> Iterator[Classification]:
        for lo in range(0, len(inputs), CHUNK):
            rows = [(text,) if isinstance(text, str) else text for text in inputs[lo : lo + CHUNK]]
            columns = self.read(list(zip(*rows, strict=True)))
            yield from map(self._classification, self.outputs(loaded.model, columns))

    def _classification(self, scores: Tensor) -> Classification:
        names, kind = self.labels.names, self.labels.kind
        if kind == "regression":
            return Classification(float(scores[0]) * self.labels.spread + self.labels.center)
        probabilities = torch.softmax(scores, 0) if kind == "single_label" else torch.sigmoid(scores)
        by_name = {name: float(value) for name, value in zip(names, probabilities, strict=True)}
        if kind == "single_label":
            return Classification(names[int(scores.argmax())], by_name)
        limits = self.thresholds or (0.5,) * len(names)
        return Classification(tuple(n for n, limit in zip(names, limits, strict=True) if by_name[n] >= limit), by_name)

    def predictions(self, scores: Tensor, columns: Columns) -> tuple[metrics.Numbers, metrics.Numbers]:
        """Return targets and predictions of examples with these scores, (n,), multi-label (n, labels)."""
        target = self.collate(columns, np.arange(len(scores))).labels.numpy()
        if self.labels.kind == "regression":
            return target, scores[:, 0].numpy() * self.labels.spread + self.labels.center
        if self.labels.kind == "single_label":
            return target, scores.argmax(1).numpy()
        limits = np.asarray(self.thresholds or (0.5,) * len(self.labels.names))
        return target.astype(bool), torch.sigmoid(scores).numpy() >= limits

    def evaluate(self, loaded: LoadedModel, rows: Rows) -> metrics.Evaluation:
        columns, _ = self.encode(rows)
        scores = self.outputs(loaded.model, columns)
        target, predicted = self.predictions(scores, columns)
        names, count = self.labels.names, len(target)
        if self.labels.kind == "regression":
            return metrics.evaluate_numbers(target, predicted, metrics.regression_metrics)
        if self.labels.kind == "multi_label":
            table = metrics.per_label(names, (target & predicted).sum(0), predicted.sum(0), target.sum(0))
            return metrics.Evaluation(
                count, lambda some: metrics.multi_label_metrics(target[some], predicted[some]), table
            )
        return metrics.evaluate_single_label(names, target, torch.softmax(scores, 1).numpy())

    def finalize(self, loaded: LoadedModel, rows: Rows) -> tuple[LoadedModel, dict[str, Any]]:
        """Tune thresholds on the validation rows; fold the scale of numbers into the last layer."""
        loaded = replace(loaded, hf_config={**loaded.hf_config, "problem_type": PROBLEM_TYPES[self.labels.kind]})
        if self.labels.kind == "regression":
            with torch.no_grad():
                head = loaded.model.head
                assert isinstance(head, SequenceHead) and head.output is not None
                head.output.weight.mul_(self.labels.spread)
                head.output.bias.mul_(self.labels.spread).add_(self.labels.center)
            return loaded, {}
        if self.labels.kind == "single_label":
            return loaded, {}
        columns, _ = self.encode(rows)
        scores = torch.sigmoid(self.outputs(loaded.model, columns)).numpy()
        target = self.collate(columns, np.arange(len(scores))).labels.numpy()
        limits = [metrics.best_threshold(target[:, i] > 0, scores[:, i]) for i in range(scores.shape[1])]
        return loaded, {"thresholds": limits}


@dataclass(frozen=True, eq=False)
class Pair(Classify):
    """Classifies pairs of texts: paraphrase, entailment, similarity.

    Both texts are read together. A long second text is read in windows, each with the first text, which is truncated
    to half a window.
    """

    texts: ClassVar[tuple[str, ...]] = ("text", "second")
    spec: ClassVar[TaskSpec] = replace(
        Classify.spec,
        name="pair",
        column_sets=(("text", "second", "label"), ("text", "second", "labels"), ("text", "second", "number")),
    )
