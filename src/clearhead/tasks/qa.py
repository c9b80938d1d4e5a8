"""Extractive question answering: the span of a context that answers a question."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice, pairwise
from typing import Any, ClassVar, Self

import numpy as np
import torch
from torch import Tensor, nn

from clearhead.data import Columns, InMemoryColumns, Integers, Ragged, Rows
from clearhead.hub.folder import LoadedModel
from clearhead.metrics import evaluation as metrics
from clearhead.models.heads import HeadKind
from clearhead.models.model import Model
from clearhead.tasks.answer_spans import (
    AnswerSpan,
    answers_of,
    evaluate_answers,
    log_sums,
    overlap,
    place_answer,
    window_spans,
)
from clearhead.tasks.encoder_task import head_labels
from clearhead.tasks.span_task import SpanTask
from clearhead.tasks.task import Batch, Skipped, TaskConfig, TaskSpec
from clearhead.tasks.windows import collate_windows, concat_columns, windows
from clearhead.text import Tokenizer

CHUNK = 64  # questions tokenized at a time: their contexts may be long


@dataclass(frozen=True)
class QaResult:
    """The best span, or None where no answer is more likely; the candidates, best first; and the score of no answer."""

    best: AnswerSpan | None
    spans: tuple[AnswerSpan, ...]
    no_answer: float  # score
    no_answer_probability: float

    @property
    def text(self) -> str:
        """The text of the answer; empty where there is none."""
        return "" if self.best is None else self.best.text


@dataclass(frozen=True, eq=False)
class QuestionAnswering(SpanTask):
    """Predicts the first and last token of the answer.

    A long context is read in windows, each together with the question; in a window without the answer the target is
    the first token (Devlin et al. 2019, section 4.3).
    """

    tokenizer: Tokenizer
    settings: TaskConfig = field(default_factory=lambda: TaskConfig(max_len=384))
    threshold: float | None = None  # margin over no answer; None: every question has an answer

    suffix: ClassVar[str] = "QuestionAnswering"
    spec: ClassVar[TaskSpec] = TaskSpec(
        name="qa",
        column_sets=(("question", "context", "answers"), ("question", "context", "answer")),
        metrics=("loss", "exact", "f1"),
        split_by=("context", lambda values: ""),
    )

    @classmethod
    def from_recipe(cls, tokenizer: Tokenizer, settings: TaskConfig, data_info: Mapping[str, Any]) -> Self:
        """Create the task; where training rows have unanswered questions, it may predict no answer."""
        return cls(tokenizer, settings, 0.0 if data_info["unanswered"] else None)

    @classmethod
    def from_model(cls, loaded: LoadedModel) -> Self:
        head_labels(loaded, "span", "answer questions", "qa")
        answers = loaded.metadata.get("answers", {})
        max_len = answers.get("max_len") or min(384, loaded.max_len or 384)
        settings = TaskConfig(max_len=max_len, segments=loaded.has_segments)
        return cls(loaded.require_tokenizer, settings, answers.get("threshold"))

    @property
    def head(self) -> tuple[HeadKind, tuple[str, ...]]:
        """Two scores for each token: the answer starts there, and it ends there."""
        return "span", ("start", "end")

    def encode(self, rows: Rows) -> tuple[InMemoryColumns, list[Skipped]]:
        """Tokenize into a row per window: its tokens, and the answer's first and last, 0 and 0 where it has none."""
        parts: list[InMemoryColumns] = []
        total, lost, stream = 0, 0, iter(rows)
        while chunk := list(islice(stream, CHUNK)):
            total += len(chunk)
            kept = [(row, answers) for row in chunk if (answers := answers_of(row)) is not None]
            lost += len(chunk) - len(kept)
            if not kept:
                continue
            tokens = self.windows(*([row.values[name] for row, _ in kept] for name in ("question", "context")))
            spans = [place_answer(tokens, i, kept[source][1]) for i, source in enumerate(tokens.sources.tolist())]
            single = windows(tokens, len(kept), self.settings.segments)
            ends = np.concatenate([[0], np.cumsum(tokens.layout.host_lengths)]).astype(np.int64)
            columns = {name: Ragged(column.ids, ends) for name, column in single.items() if name != "windows"}
            sizes = Ragged(single["windows"].ids, np.arange(len(spans) + 1, dtype=np.int64))
            parts.append({**columns, "windows": sizes, "label": Ragged.from_lists(spans)})
        columns = concat_columns(parts)
        skipped = Skipped(lost, total, "the answer is not in its context")
        return columns, [skipped] if lost else []

    def collate(self, columns: Columns, examples: Integers, draw: int = 0) -> Batch:
        """Return windows; labels are (2, windows): the first and the last token of the answer."""
        spans, _ = columns["label"].take(examples)
        sizes = columns["ids"].lengths(examples)
        labels = torch.from_numpy(spans.reshape(-1, 2).T + (np.cumsum(sizes) - sizes))
        return collate_windows(columns, examples, labels)

    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        """Return the mean of -log p of both ends, summed over windows."""
        assert isinstance(model, Model)
        scores = model(batch.ids, batch.layout, segments=batch.segments).float()  # (N, 2)
        totals = log_sums(scores, batch.layout.sequence_ids, batch.layout.num_sequences)  # (windows, 2)
        chosen = torch.stack([scores[batch.labels[0], 0], scores[batch.labels[1], 1]], 1)
        return (totals - chosen).sum() / 2

    def input_from(self, values: Mapping[str, Any]) -> tuple[str, str]:
        return values["question"], values["context"]

    def answer(self, loaded: LoadedModel, inputs: Sequence[tuple[str, str]], *, nbest: int = 5) -> Iterator[QaResult]:
        """Yield the answer to each (question, context), in order, with the `nbest` best candidates."""
        for lo in range(0, len(inputs), CHUNK):
            yield from self._answer_chunk(loaded.model, inputs[lo : lo + CHUNK], nbest)

    def _answer_chunk(self, model: nn.Module, inputs: Sequence[tuple[str, str]], nbest: int) -> Iterator[QaResult]:
        contexts = [context for _, context in inputs]
        tokens = self.windows([question for question, _ in inputs], contexts)
        candidates: list[list[AnswerSpan]] = [[] for _ in inputs]
        no_answer = [float("inf")] * len(inputs)
        for i, scores in enumerate(self.window_scores(model, tokens)):
            source = int(tokens.sources[i])
            no_answer[source] = min(no_answer[source], float(scores[0].sum()))
            candidates[source] += window_spans(tokens, i, scores, contexts[source])
        for spans, score in zip(candidates, no_answer, strict=True):
            yield self._result(spans, score, nbest)

    def _result(self, spans: list[AnswerSpan], no_answer: float, nbest: int) -> QaResult:
        best: dict[tuple[int, int], AnswerSpan] = {}
        for span in spans:  # windows overlap: the better score of the same span counts
            previous = best.get((span.start, span.end))
            if previous is None or span.score > previous.score:
                best[span.start, span.end] = span
        ordered = sorted(best.values(), key=lambda span: (-span.score, span.start, span.end))[: max(nbest, 1)]
        none, *shares = torch.softmax(torch.tensor([no_answer, *(span.score for span in ordered)]), 0).tolist()
        ranked = tuple(replace(span, probability=p) for span, p in zip(ordered, shares, strict=True))
        minimum = no_answer + self.threshold if self.threshold is not None else float("-inf")
        return QaResult(ranked[0] if ranked and ranked[0].score > minimum else None, ranked, no_answer, none)

    def evaluate(self, loaded: LoadedModel, rows: Rows) -> metrics.Evaluation:
        """Compare answers with those of the rows: exact match and F1 as in SQuAD (Rajpurkar et al. 2016)."""
        predicted, target = self._predictions(loaded, rows)
        return evaluate_answers([result.text for result in predicted], target)

    def _predictions(self, loaded: LoadedModel, rows: Rows) -> tuple[list[QaResult], list[list[str]]]:
        good = [(row, answers) for row in rows if (answers := answers_of(row)) is not None]
        predicted = list(self.answer(loaded, [self.input_from(row.values) for row, _ in good]))
        return predicted, [[row.values["context"][a:b] for a, b in answers] for row, answers in good]

    def finalize(self, loaded: LoadedModel, rows: Rows) -> tuple[LoadedModel, dict[str, Any]]:
        """Tune the no-answer threshold on the validation rows, where questions may have no answer."""
        answers: dict[str, Any] = {"max_len": self.settings.max_len}
        if self.threshold is None:
            return loaded, answers
        return loaded, {**answers, "threshold": _threshold(*self._predictions(loaded, rows))}


def _threshold(predicted: Sequence[QaResult], target: Sequence[Sequence[str]]) -> float:
    """Return the margin over no answer that gives the best F1 on these questions."""
    gains: list[tuple[float, float]] = []  # margin, and the gain in F1 over predicting no answer
    for result, golds in zip(predicted, target, strict=True):
        if result.spans:
            best = result.spans[0]
            f1 = max(overlap(best.text, gold) for gold in golds) if golds else 0.0
            gains.append((best.score - result.no_answer, f1 - (0.0 if golds else 1.0)))
    gains.sort(reverse=True)
    if not gains:
        return 0.0
    totals = np.cumsum([gain for _, gain in gains])
    ends = np.array([a[0] > b[0] for a, b in pairwise(gains)] + [True])  # equal margins are answered together
    best = int(np.argmax(np.where(ends, totals, -np.inf)))
    if totals[best] <= 0:
        return gains[0][0]
    below = gains[best + 1][0] if best + 1 < len(gains) else gains[best][0] - 1.0
    return (gains[best][0] + below) / 2
