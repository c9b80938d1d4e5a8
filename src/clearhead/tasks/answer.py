"""Answering from several passages: one model ranks the passages and finds the answer in a single pass."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any, ClassVar, Self

import torch
from torch import Tensor, nn

from clearhead.data import Columns, InMemoryColumns, Integers, Ragged, Rows
from clearhead.hub.folder import LoadedModel
from clearhead.metrics import evaluation as metrics
from clearhead.metrics.calibration import Calibration, fit_calibration
from clearhead.models.heads import HeadKind
from clearhead.models.model import Model
from clearhead.tasks.answer_spans import (
    AnswerSpan,
    answers_of,
    evaluate_answers,
    log_sums,
    measured,
    place_answer,
    plain,
    window_spans,
)
from clearhead.tasks.encoder_task import head_labels
from clearhead.tasks.ranking_task import example_columns, negatives
from clearhead.tasks.span_task import SpanTask
from clearhead.tasks.task import Batch, Skipped, TaskConfig, TaskSpec
from clearhead.tasks.windows import collate_windows, concat_columns
from clearhead.text import Tokenizer

CHUNK = 32  # questions tokenized at a time: each has several passages
LABELS = ("start", "end", "relevance")
WEIGHTS = (0.0, 0.25, 0.5, 1.0, 2.0)  # of the relevance, tried on the validation rows
RANK_WEIGHTS = (0.0, 0.25, 0.5, 1.0, 1.5, 2.0, 3.0)  # of the place in the search, tried on questions to an index

QuestionAndPassages = tuple[str, Sequence[str]]


@dataclass(frozen=True)
class PassageSpan(AnswerSpan):
    """A candidate answer, `passages[passage][start:end]`."""

    passage: int = 0


Read = tuple[list[PassageSpan], list[float]]  # candidates without the relevance, and the relevance of each passage


@dataclass(frozen=True)
class ReaderResult:
    """The best answer; all candidates, best first, each text once; and the relevance of each passage."""

    best: PassageSpan | None  # None: no answer is more likely
    spans: tuple[PassageSpan, ...]  # probabilities are shares among all candidates and no answer
    probability: float  # that the best candidate is right, calibrated on the validation rows
    relevance: tuple[float, ...]  # logits: 0 is that of a passage without the answer

    @property
    def text(self) -> str:
        """The text of the answer; empty where there is none."""
        return "" if self.best is None else self.best.text


@dataclass(frozen=True, eq=False)
class PassageReader(SpanTask):
    """Predicts in which passage the answer is, and where it starts and ends there (Karpukhin et al. 2020, section 6).

    The three scores are normalized over all passages of a question (Clark and Gardner 2018), together with a fixed
    score of 0 for no answer, so that scores of different passages are comparable and 0 is the border.
    """

    tokenizer: Tokenizer
    settings: TaskConfig = field(default_factory=lambda: TaskConfig(max_len=256))
    relevance_weight: float = 1.0  # in the score of a span: start + end + weight * relevance
    calibration: Calibration = field(default_factory=Calibration)
    threshold: float | None = None  # of the probability; None: every question has an answer
    rank_weight: float = 0.0  # of the logarithm of a passage's rank in the search, which lowers the score

    suffix: ClassVar[str] = "TokenClassification"
    spec: ClassVar[TaskSpec] = TaskSpec(
        name="answer",
        column_sets=(("question", "context", "answer", "negative"),),
        metrics=("loss", "exact", "f1"),
        split_by=("context", lambda values: ""),
    )

    @classmethod
    def from_recipe(cls, tokenizer: Tokenizer, settings: TaskConfig, data_info: Mapping[str, Any]) -> Self:
        """Create the task; where training rows have unanswered questions, it may predict no answer."""
        return cls(tokenizer, settings, threshold=0.5 if data_info["unanswered"] else None)

    @classmethod
    def from_model(cls, loaded: LoadedModel) -> Self:
        if head_labels(loaded, "token", "answer from passages", "answer") != LABELS:
            raise ValueError(f"{loaded.architecture} has other labels than {', '.join(LABELS)}: it tags tokens")
        answers = loaded.metadata.get("answers", {})
        max_len = answers.get("max_len") or min(256, loaded.max_len or 256)
        settings = TaskConfig(max_len=max_len, segments=loaded.has_segments)
        return cls(
            loaded.require_tokenizer, settings, answers.get("relevance_weight", 1.0),
            Calibration(**answers.get("calibration", {})), answers.get("threshold"),
        )  # fmt: skip

    @property
    def head(self) -> tuple[HeadKind, tuple[str, ...]]:
        """Three scores for each token; the relevance is read from the first token of a window."""
        return "token", LABELS

    def encode(self, rows: Rows) -> tuple[InMemoryColumns, list[Skipped]]:
        """Tokenize all passages of a question; the label of a window is the first and last token of its answer."""
        parts: list[InMemoryColumns] = []
        total, lost, stream = 0, 0, iter(rows)
        while chunk := list(islice(stream, CHUNK)):
            total += len(chunk)
            kept = [(row, answers) for row in chunk if (answers := answers_of(row)) is not None]
            lost += len(chunk) - len(kept)
            if not kept:
                continue
            groups = [self.input_from(row.values) for row, _ in kept]
            pairs = [(i, k, passage) for i, (_, passages) in enumerate(groups) for k, passage in enumerate(passages)]
            tokens = self.windows([groups[i][0] for i, _, _ in pairs], [passage for _, _, passage in pairs])
            labels: list[list[int]] = [[] for _ in kept]
            windows: list[list[int]] = [[] for _ in kept]
            for w, pair in enumerate(tokens.sources.tolist()):
                question, passage, _ = pairs[pair]
                labels[question] += place_answer(tokens, w, kept[question][1] if passage == 0 else [])
                windows[question].append(w)
            columns = example_columns(tokens, windows, self.settings.segments)
            parts.append({**columns, "label": Ragged.from_lists(labels)})
        skipped = Skipped(lost, total, "the answer is not in its context")
        return concat_columns(parts), [skipped] if lost else []

    def collate(self, columns: Columns, examples: Integers, draw: int = 0) -> Batch:
        """Return all windows of these questions; labels are (2, windows), 0 where a window has no answer."""
        spans, _ = columns["label"].take(examples)
        return collate_windows(columns, examples, torch.from_numpy(spans.reshape(-1, 2).T.copy()))

    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        """Return the mean of -log p of start, end and passage, summed over questions; 0 is the score of no answer.

        Where several windows have the answer, the probability is the sum over them.
        """
        assert isinstance(model, Model) and batch.example_ids is not None
        scores = model(batch.ids, batch.layout, segments=batch.segments).float()  # (N, 3)
        of = batch.example_ids  # (W,)
        count = int(of[-1]) + 1 if len(of) else 0
        first = batch.layout.offsets[:-1]  # (W,)
        nothing = scores.new_zeros(count, 1)
        questions = torch.arange(count, device=of.device)
        tokens, windows = torch.cat([of[batch.layout.sequence_ids], questions]), torch.cat([of, questions])
        spans = log_sums(torch.cat([scores[:, :2], nothing.expand(-1, 2)]), tokens, count)  # (questions, 2)
        passages = log_sums(torch.cat([scores[first, 2:], nothing]), windows, count)  # (questions, 1)
        with_answer = batch.labels[1] > 0  # (W,)
        begin, end = (first + batch.labels)[:, with_answer]
        chosen = torch.stack([scores[begin, 0], scores[end, 1], scores[first[with_answer], 2]], 1)
        known, place = torch.unique(of[with_answer], return_inverse=True)
        wanted = scores.new_zeros(count, 3).index_copy(0, known, log_sums(chosen, place, len(known)))
        return (torch.cat([spans, passages], 1) - wanted).sum() / 3

    def input_from(self, values: Mapping[str, Any]) -> QuestionAndPassages:
        return values["question"], [values["context"], *negatives(values.get("negative", []))]

    def answer(
        self, loaded: LoadedModel, inputs: Sequence[QuestionAndPassages], *, nbest: int = 5
    ) -> Iterator[ReaderResult]:
        """Yield the answer to each question from its passages, in order, with the `nbest` best candidates."""
        for lo in range(0, len(inputs), CHUNK):
            for spans, relevance in self.read(loaded.model, inputs[lo : lo + CHUNK]):
                yield self.result(spans, relevance, nbest)

    def read(self, model: nn.Module, inputs: Sequence[QuestionAndPassages]) -> Iterator[Read]:
        """Yield the candidates of each question, scored without the relevance, and the relevance of each passage."""
        pairs = [(i, k, passage) for i, (_, passages) in enumerate(inputs) for k, passage in enumerate(passages)]
        found: list[list[PassageSpan]] = [[] for _ in inputs]
        relevance = [[-math.inf] * len(passages) for _, passages in inputs]
        if pairs:
            tokens = self.windows([inputs[i][0] for i, _, _ in pairs], [passage for _, _, passage in pairs])
            for w, scores in enumerate(self.window_scores(model, tokens)):
                question, passage, text = pairs[int(tokens.sources[w])]
                relevance[question][passage] = max(relevance[question][passage], float(scores[0, 2]))
                spans = window_spans(tokens, w, scores[:, :2], text)
                found[question] += [PassageSpan(s.text, s.start, s.end, s.score, passage=passage) for s in spans]
        yield from zip(found, relevance, strict=True)

    def result(self, spans: Sequence[PassageSpan], relevance: Sequence[float], nbest: int = 5) -> ReaderResult:
        """Return the answer to a question from the candidates in its passages."""
        ranked = merge_spans(spans, relevance, (self.relevance_weight, self.rank_weight))
        probability = self.calibration.probability(features(ranked, relevance)) if ranked else 0.0
        answered = bool(ranked) and (self.threshold is None or probability >= self.threshold)
        return ReaderResult(
            ranked[0] if answered else None, tuple(ranked[: max(nbest, 1)]), probability, tuple(relevance)
        )

    def evaluate(self, loaded: LoadedModel, rows: Rows) -> metrics.Evaluation:
        """Compare answers with those of the rows: exact match and F1 as in SQuAD (Rajpurkar et al. 2016)."""
        good = self._usable(rows)
        predicted = self.answer(loaded, [inputs for inputs, _ in good])
        return evaluate_answers([result.text for result in predicted], [targets for _, targets in good])

    def _usable(self, rows: Rows) -> list[tuple[QuestionAndPassages, list[str]]]:
        """Return the input of each row with the texts of its answers; rows that cannot be used are left out."""
        return [
            (self.input_from(row.values), [row.values["context"][a:b] for a, b in answers])
            for row in rows
            if (answers := answers_of(row)) is not None
        ]

    def finalize(self, loaded: LoadedModel, rows: Rows) -> tuple[LoadedModel, dict[str, Any]]:
        """Fit the weight of the relevance and the calibration on the validation rows."""
        good = self._usable(rows)
        read = [
            found
            for lo in range(0, len(good), CHUNK)
            for found in self.read(loaded.model, [inputs for inputs, _ in good[lo : lo + CHUNK]])
        ]
        targets = [answers for _, answers in good]
        weights = fit_weights(read, targets)
        calibration = fit_calibration(*outcomes(read, targets, weights))
        return loaded, {
            "max_len": self.settings.max_len, "relevance_weight": weights[0], "threshold": self.threshold,
            "calibration": calibration.to_dict(),
        }  # fmt: skip


Weights = tuple[float, float]  # of the relevance of a passage, and of the logarithm of its rank in the search


def merge_spans(spans: Sequence[PassageSpan], relevance: Sequence[float], weights: Weights) -> list[PassageSpan]:
    """Return the candidates of all passages, best first, with their shares of the probability; each text once.

    The share of a text is the sum over the places where it was found; its place is the best of them.
    """
    prior = [weights[0] * value - weights[1] * math.log(rank) for rank, value in enumerate(relevance, 1)]
    at = {
        (s.passage, s.start, s.end): s for s in sorted(spans, key=lambda s: s.score)
    }  # windows overlap: keep the best
    scored = [replace(s, score=s.score + prior[s.passage]) for s in at.values()]
    shares = torch.softmax(torch.tensor([0.0, *(s.score for s in scored)], dtype=torch.float64), 0)[1:].tolist()
    by_text: dict[str, PassageSpan] = {}
    for span, share in sorted(zip(scored, shares, strict=True), key=lambda pair: (-pair[0].score, pair[0].passage)):
        key = plain(span.text) or span.text
        known = by_text.get(key)
        by_text[key] = replace(
            span if known is None else known, probability=share + (known.probability if known else 0)
        )
    return sorted(by_text.values(), key=lambda s: (-s.probability, s.passage, s.start))


def fit_weights(
    read: Sequence[Read], targets: Sequence[Sequence[str]], rank_weights: Sequence[float] = (0.0,)
) -> Weights:
    """Return the weights with the most right answers; of equals the first of the rank, and a relevance nearest to 1.

    Ranks count only where the passages are in the order of a search.
    """
    choices = [(weight, rank_weight) for rank_weight in rank_weights for weight in WEIGHTS]
    return max(choices, key=lambda pair: (sum(outcomes(read, targets, pair)[1]), -abs(pair[0] - 1.0)))


def outcomes(
    read: Sequence[Read], targets: Sequence[Sequence[str]], weights: Weights
) -> tuple[list[tuple[float, float, float]], list[float]]:
    """Return what the calibration reads of each question, and whether its best candidate is right."""
    inputs, right = list[tuple[float, float, float]](), list[float]()
    for (spans, relevance), wanted in zip(read, targets, strict=True):
        ranked = merge_spans(spans, relevance, weights)
        inputs.append(features(ranked, relevance))
        right.append(float(bool(ranked) and bool(wanted) and measured(ranked[0].text, wanted)[0]))
    return inputs, right


def features(ranked: Sequence[PassageSpan], relevance: Sequence[float]) -> tuple[float, float, float]:
    """Return what the calibration reads: log-odds of the best answer, its lead over the second, and its relevance."""
    if not ranked:
        return 0.0, 0.0, 0.0
    share = min(max(ranked[0].probability, 1e-6), 1 - 1e-6)
    second = max(ranked[1].probability, 1e-6) if len(ranked) > 1 else 1e-6
    return math.log(share / (1 - share)), math.log(share / second), relevance[ranked[0].passage]
