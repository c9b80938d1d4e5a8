"""How well an index answers: retrieval, answers and probabilities, and the stage at which each question fails."""

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from clearhead.metrics.evaluation import Evaluation, Numbers, calibration_error
from clearhead.search.ask import Answerer, AskResult
from clearhead.search.index import Index
from clearhead.search.mining import has_answer
from clearhead.tasks.answer_spans import measured

DEPTHS = (1, 5, 10, 20)

Stage = Literal["right", "not retrieved", "not ranked", "not read", "not answered", "answered without evidence"]
STAGES: dict[str, str] = {
    "right": "the answer is right, or rightly none",
    "not retrieved": "no passage with the answer was found",
    "not ranked": "a passage with the answer was found, and another one preferred",
    "not read": "the right passage was preferred, and other words of it taken",
    "not answered": "the right answer was found, and held back as too unlikely",
    "answered without evidence": "there is no answer, but one was given",
}


@dataclass(frozen=True)
class QuestionOutcome:
    """A question, what is expected, and what came of it."""

    question: str
    expected: tuple[str, ...]  # empty: there is no answer
    rank: int | None  # of the first passage with the answer, from 1; None: not among the first
    stage: Stage
    exact: float
    f1: float
    seconds: float
    result: AskResult | None  # None: retrieval alone was measured


def evaluate_index(
    index: Index,
    answerer: Answerer | None,
    questions: Sequence[Mapping[str, Any]],
    log: Callable[[int], object] = lambda done: None,
) -> tuple[Evaluation, list[QuestionOutcome]]:
    """Ask all questions, and return the metrics with the outcome of each; without a reader, measure retrieval alone.

    A row has `question`, `answers`, and `query` if another text is searched for.
    A passage is right if it has an answer of the question. Recall and MRR are over the questions that have an answer,
    EM and F1 over all; `best_exact` and `best_f1` are those of the best candidate, whether it is given or held back.
    """
    outcomes: list[QuestionOutcome] = []
    for done, row in enumerate(questions, 1):
        outcomes.append(_outcome(index, answerer, row))
        log(done)
    return Evaluation(len(outcomes), _measure(outcomes, answerer is not None)), outcomes


def stage_counts(outcomes: Sequence[QuestionOutcome]) -> dict[str, int]:
    """Return how many questions ended at each stage."""
    counts = Counter(outcome.stage for outcome in outcomes)
    return {stage: counts[stage] for stage in STAGES if counts[stage]}


def _outcome(index: Index, answerer: Answerer | None, row: Mapping[str, Any]) -> QuestionOutcome:
    question, expected = row["question"], [text for text in row["answers"] if text.strip()]
    query = row.get("query", question)
    found = index.search(query, max(DEPTHS))
    rank = next((i for i, passage in enumerate(found, 1) if has_answer(passage.text, expected)), None)
    if answerer is None:
        stage: Stage = "right" if rank is not None else "not retrieved"
        return QuestionOutcome(question, tuple(expected), rank, stage, 0.0, 0.0, 0.0, None)
    begin = time.perf_counter()
    result = answerer.ask(question, query=query)
    seconds = time.perf_counter() - begin
    text = "" if result.answer is None else result.answer.text
    exact, f1 = measured(text, expected)
    return QuestionOutcome(question, tuple(expected), rank, _stage(result, expected, exact), exact, f1, seconds, result)


def _stage(result: AskResult, expected: Sequence[str], exact: float) -> Stage:
    if exact:
        return "right"
    if not expected:
        return "answered without evidence"
    if not any(has_answer(one.passage.text, expected) for one in result.passages):
        return "not retrieved"
    best = result.candidates[0] if result.candidates else None
    if best is None or not has_answer(best.passage.text, expected):
        return "not ranked"
    if not measured(best.text, expected)[0]:
        return "not read"
    return "not answered"


def _measure(outcomes: Sequence[QuestionOutcome], with_answers: bool) -> Callable[[Numbers], dict[str, float]]:
    ranks = np.array([np.inf if o.rank is None else o.rank for o in outcomes])
    asked = np.array([bool(o.expected) for o in outcomes])
    exact, f1 = (np.array([getattr(o, name) for o in outcomes]) for name in ("exact", "f1"))
    given = np.array([o.result is not None and o.result.answer is not None for o in outcomes])
    p = np.array([0.0 if o.result is None else o.result.probability for o in outcomes])
    right = np.array([_is_right(o) for o in outcomes])
    best_f1 = np.array([_best_f1(o) for o in outcomes])
    seconds = np.array([o.seconds for o in outcomes])

    def measure(some: Numbers) -> dict[str, float]:
        ranked = ranks[some][asked[some]]
        scores = {f"recall_{k}": 100 * float((ranked <= k).mean()) if len(ranked) else 0.0 for k in DEPTHS}
        scores["mrr"] = 100 * float(np.where(ranked <= 10, 1 / ranked, 0.0).mean()) if len(ranked) else 0.0
        if with_answers:
            scores |= {
                "exact": 100 * float(exact[some].mean()), "f1": 100 * float(f1[some].mean()),
                "best_exact": 100 * float(right[some].mean()), "best_f1": 100 * float(best_f1[some].mean()),
                "answered": 100 * float(given[some].mean()), "auroc": 100 * _auroc(p[some], right[some]),
                "answerability_auroc": 100 * _auroc(p[some], asked[some]),
                "ece": calibration_error(p[some], right[some]),
                "precision_50": 100 * _precision(p[some], right[some], 0.5),
                "p50_ms": 1e3 * float(np.quantile(seconds[some], 0.5)),
                "p99_ms": 1e3 * float(np.quantile(seconds[some], 0.99)),
            }  # fmt: skip
        return scores

    return measure


def _is_right(outcome: QuestionOutcome) -> bool:
    """Return whether the best candidate is right, answered or held back: what the probability speaks of."""
    if outcome.result is None or not outcome.result.candidates:
        return False
    return bool(outcome.expected) and measured(outcome.result.candidates[0].text, outcome.expected)[0] == 1.0


def _best_f1(outcome: QuestionOutcome) -> float:
    """Return the F1 of the best candidate, answered or held back."""
    if outcome.result is None or not outcome.result.candidates or not outcome.expected:
        return 0.0
    return measured(outcome.result.candidates[0].text, outcome.expected)[1]


def _auroc(p: Numbers, right: Numbers) -> float:
    """Return the probability that a right answer has a higher score than a wrong one; 0.5 where one kind is missing."""
    from sklearn.metrics import roc_auc_score

    return float(roc_auc_score(right, p)) if 0 < right.sum() < len(right) else 0.5


def _precision(p: Numbers, right: Numbers, coverage: float) -> float:
    """Return the share of right answers among this share of the most probable ones."""
    count = max(1, round(len(p) * coverage))
    return float(right[np.argsort(-p, kind="stable")[:count]].mean()) if len(p) else 0.0
