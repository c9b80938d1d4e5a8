"""Metrics of labels, numbers and translations, with bootstrap confidence intervals and calibration."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from clearhead.metrics.bootstrap import NUM_SAMPLES, Measure, Numbers, bootstrap, interval


@dataclass(frozen=True)
class PerLabel:
    """One label: its number of rows, and its precision, recall and F1 in percent."""

    name: str
    count: int
    precision: float
    recall: float
    f1: float


def single_label_metrics(target: Numbers, predicted: Numbers, count: int) -> dict[str, float]:
    """Return accuracy, F1 and macro F1, in percent; F1 is that of the second label where there are two, else macro.

    `target` and `predicted` are label indices, (n,), out of `count`.
    """
    table = np.bincount(target * count + predicted, minlength=count * count).reshape(count, count)
    correct = np.diagonal(table)
    each = _f1(correct, table.sum(0) - correct, table.sum(1) - correct)
    present = (table.sum(0) + table.sum(1)) > 0  # labels that are neither expected nor predicted do not count
    macro = float(each[present].mean()) if present.any() else 0.0
    f1 = float(each[1]) if count == 2 else macro
    return {"accuracy": 100 * float(correct.sum()) / max(len(target), 1), "f1": 100 * f1, "macro_f1": 100 * macro}


def multi_label_metrics(target: Numbers, predicted: Numbers) -> dict[str, float]:
    """Return micro F1, macro F1 and exact match, in percent; both arrays are (n, labels), 0 or 1."""
    correct = (target & predicted).sum(0)
    false_positive, false_negative = (predicted & ~target).sum(0), (target & ~predicted).sum(0)
    present = (correct + false_positive + false_negative) > 0
    each = _f1(correct, false_positive, false_negative)
    return {
        "micro_f1": 100 * float(_f1(correct.sum(), false_positive.sum(), false_negative.sum())),
        "macro_f1": 100 * float(each[present].mean()) if present.any() else 0.0,
        "exact": 100 * float((target == predicted).all(1).mean()) if len(target) else 0.0,
    }


def correlations(target: Numbers, predicted: Numbers) -> dict[str, float]:
    """Return Spearman and Pearson correlation, in percent."""
    spearman, pearson = _correlation(_ranks(target), _ranks(predicted)), _correlation(target, predicted)
    return {"spearman": 100 * spearman, "pearson": 100 * pearson}


def regression_metrics(target: Numbers, predicted: Numbers) -> dict[str, float]:
    """Return Spearman and Pearson correlation, in percent, and the root mean squared error."""
    rmse = float(np.sqrt(np.mean((target - predicted) ** 2))) if len(target) else 0.0
    return {**correlations(target, predicted), "rmse": rmse}


def bleu_scores(predicted: Sequence[str], references: Sequence[str]) -> dict[str, float]:
    """Return corpus BLEU (Papineni et al. 2002) and chrF (Popović 2015), cased, as sacreBLEU computes them."""
    from sacrebleu.metrics.bleu import BLEU
    from sacrebleu.metrics.chrf import CHRF

    bleu, chrf = (metric.corpus_score(predicted, [references]).score for metric in (BLEU(), CHRF()))
    return {"bleu": round(bleu, 2), "chrf": round(chrf, 2)}


@dataclass(frozen=True, eq=False)
class Ranking:
    """The details of a ranking: recall by depth, the scores of pairs, and the vectors behind them."""

    recall: Numbers  # (K,) percent of the relevant documents among the first 1, 2, ... K
    relevant_scores: Numbers  # of pairs of a query and a relevant document
    other_scores: Numbers  # of the other pairs that were ranked
    queries: Sequence[str]
    documents: Sequence[str]
    query_vectors: Numbers | None = None  # (Q, D)
    document_vectors: Numbers | None = None  # (M, D)
    pairs: Sequence[tuple[int, int]] = ()  # a query and a relevant document


@dataclass(frozen=True, eq=False)
class Evaluation:
    """Answers compared with labels: metrics, confidence intervals, and a table of labels."""

    count: int  # of rows
    measure: Measure
    labels: tuple[PerLabel, ...] = ()
    confusion: Numbers | None = None  # (target, predicted): the confusion matrix, in rows
    confidence: tuple[Numbers, Numbers] | None = None  # (rows,): the score of the prediction, and whether it is correct
    numbers: tuple[Numbers, Numbers] | None = None  # (rows,): expected and predicted numbers
    ranking: Ranking | None = None

    def scores(self) -> dict[str, float]:
        return self.measure(np.arange(self.count))

    def intervals(self, *, seed: int = 0, draws: int = NUM_SAMPLES) -> dict[str, tuple[float, float]]:
        """Return the 95 % confidence interval of each metric, by the bootstrap over rows."""
        samples = bootstrap(self.count, self.measure, seed=seed, draws=draws)
        return {name: interval(values, self.count) for name, values in samples.items()}


def evaluate_numbers(
    target: Numbers, predicted: Numbers, measure: Callable[[Numbers, Numbers], dict[str, float]]
) -> Evaluation:
    """Return the evaluation of predicted numbers."""
    return Evaluation(len(target), lambda some: measure(target[some], predicted[some]), numbers=(target, predicted))


def evaluate_single_label(names: Sequence[str], target: Numbers, probabilities: Numbers) -> Evaluation:
    """Return the evaluation of one label per row: `target` are label indices (n,), `probabilities` (n, labels)."""
    count, predicted = len(names), probabilities.argmax(1)
    correct = target == predicted
    counts = [np.bincount(x, minlength=count) for x in (target[correct], predicted, target)]
    return Evaluation(
        len(target),
        lambda some: single_label_metrics(target[some], predicted[some], count),
        per_label(names, *counts),
        np.bincount(target * count + predicted, minlength=count**2).reshape(count, -1),
        (probabilities.max(1), correct),
    )


def per_label(names: Sequence[str], correct: Numbers, predicted: Numbers, target: Numbers) -> tuple[PerLabel, ...]:
    table: list[PerLabel] = []
    for name, hits, guesses, count in zip(names, correct.tolist(), predicted.tolist(), target.tolist(), strict=True):
        f1 = float(_f1(hits, guesses - hits, count - hits))
        table.append(PerLabel(name, count, 100 * hits / max(guesses, 1), 100 * hits / max(count, 1), 100 * f1))
    return tuple(table)


def best_threshold(target: Sequence[bool] | Numbers, scores: Numbers) -> float:
    """Return the score from which predicting a label gives the best F1 on these rows; 0.5 where no row has it."""
    target = np.asarray(target, dtype=bool)
    if not target.any():
        return 0.5
    order = np.argsort(-scores, kind="stable")
    correct = np.cumsum(target[order])
    f1 = 2 * correct / (np.arange(1, len(target) + 1) + target.sum())
    ends = np.append(scores[order][1:] < scores[order][:-1], True)  # rows with equal scores are predicted together
    best = int(np.argmax(np.where(ends, f1, -1)))
    below = scores[order][best + 1] if best + 1 < len(scores) else 0.0
    return float((scores[order][best] + below) / 2)


def _f1(correct: Any, false_positive: Any, false_negative: Any) -> Any:
    return 2 * correct / np.maximum(2 * correct + false_positive + false_negative, 1)


def _correlation(a: Numbers, b: Numbers) -> float:
    if len(a) < 2 or not a.std() or not b.std():
        return 0.0
    return float(np.corrcoef(a, b)[0, 1])


def _ranks(x: Numbers) -> Numbers:
    """Return the rank of each number; ties share the mean rank."""
    _, inverse, counts = np.unique(x, return_inverse=True, return_counts=True)
    return (np.cumsum(counts) - (counts - 1) / 2)[inverse]


def calibration(confidence: Numbers, correct: Numbers, bins: int = 10) -> list[tuple[float, float, int]]:
    """Return bins of equally many rows by confidence: mean confidence, accuracy, and number of rows."""
    order = np.argsort(confidence, kind="stable")
    parts = [part for part in np.array_split(order, min(bins, max(len(order), 1))) if len(part)]
    return [(float(confidence[part].mean()), float(correct[part].mean()), len(part)) for part in parts]


def calibration_error(confidence: Numbers, correct: Numbers) -> float:
    """Return the expected calibration error, in percent."""
    groups = calibration(confidence, correct)
    return 100 * sum(abs(score - accuracy) * n for score, accuracy, n in groups) / max(len(confidence), 1)
