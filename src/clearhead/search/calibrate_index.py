"""Fits an index to questions with known answers: the weight of the vectors, and the probability of an answer."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from clearhead.metrics.calibration import MIN_ROWS, fit_calibration
from clearhead.search.ask import FIRST, MORE, SURE, Answerer
from clearhead.search.index import Index, fuse
from clearhead.search.index_calibration import IndexCalibration, ReaderCalibration, coverage_curve, threshold_for
from clearhead.search.mining import has_answer
from clearhead.tasks.answer import RANK_WEIGHTS, Read, fit_weights, outcomes

VECTOR_WEIGHTS = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
DEPTH = 100  # passages of each ranking, as in a search
FOLDS = 5

Question = Mapping[str, Any]  # question and answers; no answers: the documents do not say
Log = Callable[[str, int], object]  # what is done, and how many questions so far


def calibrate_index(
    index: Index,
    answerer: Answerer | None,
    questions: Sequence[Question],
    *,
    precision: float | None = None,
    log: Log = lambda what, done: None,
) -> IndexCalibration:
    """Fit on these questions, and keep the result with the index; use other questions to measure it.

    Without a reader the fusion alone is fitted. `precision` sets the probability from which on answers are given, such
    that this share of them is right on these questions; the default is a probability of 0.5.
    """
    if len(questions) < 2 * MIN_ROWS:
        raise ValueError(f"{len(questions)} questions are too few to fit anything: give at least {2 * MIN_ROWS}")
    known = index.calibration.readers if index.calibration is not None else ()
    index.vector_weight = fit_vector_weight(index, questions, log) if index.has_vectors else 0.5
    if answerer is not None:
        fitted = fit_reader(answerer, questions, precision, log)
        known = (*(one for one in known if one.reader != fitted.reader), fitted)
    calibration = IndexCalibration(questions=len(questions), vector_weight=index.vector_weight, readers=known)
    index.keep_calibration(calibration)
    return calibration


def fit_vector_weight(index: Index, questions: Sequence[Question], log: Log) -> float:
    """Return the weight of the vectors with the best MRR@10 of a passage with the answer; of equals the middle one."""
    scores = np.zeros(len(VECTOR_WEIGHTS))
    for done, row in enumerate(questions, 1):
        wanted = _answers(row)
        if wanted:
            rankings = [index.search(row["question"], DEPTH, mode=mode) for mode in ("words", "vectors")]
            right = {(p.source, p.start) for found in rankings for p in found if has_answer(p.text, wanted)}
            places = [{(p.source, p.start): rank for rank, p in enumerate(found, 1)} for found in rankings]
            for i, weight in enumerate(VECTOR_WEIGHTS):
                best = fuse(places[0], places[1], weight)[:10]
                scores[i] += next((1 / rank for rank, (id, _) in enumerate(best, 1) if id in right), 0.0)
        log("search", done)
    best = np.flatnonzero(scores == scores.max())
    return VECTOR_WEIGHTS[min(best, key=lambda i: abs(VECTOR_WEIGHTS[i] - 0.5))]


def fit_reader(
    answerer: Answerer, questions: Sequence[Question], precision: float | None, log: Log
) -> ReaderCalibration:
    """Fit the weights of the relevance and of the rank in the search, and the probability that an answer is right.

    Both situations of a question are fitted: the first passages were read, and all of them. The curve comes from
    probabilities that were fitted without their question.
    """
    read: list[Read] = []
    for done, row in enumerate(questions, 1):
        read.append(answerer.read(row["question"], answerer.index.search(row["question"], FIRST + MORE)))
        log("read", done)
    targets = [_answers(row) for row in questions]
    weights = fit_weights(read, targets, RANK_WEIGHTS)
    first = [([s for s in spans if s.passage < FIRST], relevance[:FIRST]) for spans, relevance in read]
    x_first, right_first = outcomes(first, targets, weights)
    x_all, right_all = outcomes(read, targets, weights)
    p, right = np.zeros(len(read)), np.zeros(len(read))
    for fold in range(FOLDS):
        held = np.arange(len(read)) % FOLDS == fold
        part = fit_calibration(_pick(x_first + x_all, ~held), _pick(right_first + right_all, ~held))
        for i in np.flatnonzero(held):
            p[i], right[i] = part.probability(x_first[i]), right_first[i]
            if p[i] < SURE:
                p[i], right[i] = part.probability(x_all[i]), right_all[i]
    return ReaderCalibration(
        reader=answerer.fingerprint,
        relevance_weight=weights[0],
        rank_weight=weights[1],
        calibration=fit_calibration(x_first + x_all, right_first + right_all),
        threshold=0.5 if precision is None else threshold_for(p.tolist(), right.tolist(), precision),
        curve=coverage_curve(p.tolist(), right.tolist()),
    )


def _answers(row: Question) -> list[str]:
    return [text for text in row["answers"] if text.strip()]


def _pick(values: Sequence[Any], chosen: np.ndarray) -> list[Any]:
    """Return the chosen questions of a list that has all of them once or several times over."""
    return [value for i, value in enumerate(values) if chosen[i % len(chosen)]]
