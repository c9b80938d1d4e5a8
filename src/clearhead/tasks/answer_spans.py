"""Answers as spans of a text: where they are, which are best, and how SQuAD compares them."""

import re
import string
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from clearhead.data import Row
from clearhead.data.squad import nearest
from clearhead.metrics.evaluation import Evaluation, Numbers
from clearhead.text import TokenBatch

MAX_ANSWER_TOKENS = 30
SPANS_PER_WINDOW = 20  # candidates of each window


@dataclass(frozen=True)
class AnswerSpan:
    """A candidate answer, `context[start:end]`, its score, and its probability among the candidates."""

    text: str
    start: int
    end: int
    score: float
    probability: float = 0.0


def answers_of(row: Row) -> list[tuple[int, int]] | None:
    """Return the character ranges of a row's answers: [] for no answer, None where its text is not in the context."""
    answers = row.values["answers"] if "answers" in row.values else row.values["answer"]
    if isinstance(answers, list) and answers and isinstance(answers[0], dict):  # SQuAD: with their places
        return [(a["start"], a["start"] + len(a["text"])) for a in answers]
    texts = [t for text in ([answers] if isinstance(answers, str) else answers) if (t := text.strip())]
    found = [(start, start + len(t)) for t in texts if (start := nearest(row.values["context"], t)) is not None]
    return found if found or not texts else None


def place_answer(tokens: TokenBatch, window: int, answers: list[tuple[int, int]]) -> list[int]:
    """Return the first and last token of the first answer in this window; 0 and 0 where part of it is outside."""
    if not answers:
        return [0, 0]
    start, end = answers[0]
    rows = tokens.layout.rows(window)
    assert tokens.offsets is not None
    at, own = tokens.offsets[rows].numpy(), (tokens.parts[rows] == 1).numpy()
    inside = np.flatnonzero(own & (at[:, 0] < end) & (at[:, 1] > start))
    context = np.flatnonzero(own)
    same = tokens.sources == tokens.sources[window]
    begins, ends = (not (0 <= i < len(same) and bool(same[i])) for i in (window - 1, window + 1))  # with the text
    if not len(inside) or (not begins and at[context[0], 0] > start) or (not ends and at[context[-1], 1] < end):
        return [0, 0]
    return [int(inside[0]), int(inside[-1])]


def window_spans(tokens: TokenBatch, window: int, scores: Tensor, context: str) -> list[AnswerSpan]:
    """Return the best spans of one window, from the scores of its tokens, (T, 2)."""
    rows = tokens.layout.rows(window)
    assert tokens.offsets is not None
    own = (tokens.parts[rows] == 1).nonzero()[:, 0]
    if not len(own):
        return []
    starts, ends = scores[own, 0], scores[own, 1]  # (C,)
    padded = torch.cat([ends, ends.new_full((MAX_ANSWER_TOKENS - 1,), float("-inf"))])
    sums = starts.unsqueeze(1) + padded.unfold(0, MAX_ANSWER_TOKENS, 1)  # (C, M): first token, last minus first
    top = sums.flatten().topk(min(SPANS_PER_WINDOW, sums.numel()))
    at = tokens.offsets[rows][own]
    spans: list[AnswerSpan] = []
    for score, place in zip(top.values.tolist(), top.indices.tolist(), strict=True):
        if score == float("-inf"):
            break
        first, more = divmod(place, MAX_ANSWER_TOKENS)
        a, b = int(at[first, 0]), int(at[first + more, 1])
        spans.append(AnswerSpan(context[a:b], a, b, score))
    return spans


def log_sums(x: Tensor, ids: Tensor, count: int) -> Tensor:
    """Return the log-sum-exp of each column over the rows of equal id, (N, C) to (count, C)."""
    of = ids.unsqueeze(1).expand_as(x)
    empty = x.new_zeros(count, x.shape[1])
    top = empty.scatter_reduce(0, of, x.detach(), reduce="amax", include_self=False)
    return empty.scatter_add(0, of, (x - top.gather(0, of)).exp()).log() + top


_ARTICLES = re.compile(r"\b(a|an|the)\b")
_MARKS = set(string.punctuation)


def plain(text: str) -> str:
    """Normalize as SQuAD does: lower case, without punctuation, articles and repeated spaces."""
    text = "".join(c for c in text.lower() if c not in _MARKS)
    return " ".join(_ARTICLES.sub(" ", text).split())


def measured(predicted: str, target: Sequence[str]) -> tuple[float, float]:
    """Return exact match and F1 of words, the best over the correct answers; "" is correct where there are none."""
    golds = target or [""]
    exact = max(float(plain(predicted) == plain(gold)) for gold in golds)
    return exact, max(overlap(predicted, gold) for gold in golds)


def overlap(guess: str, gold: str) -> float:
    """Return the F1 of the words of two answers."""
    a, b = plain(guess).split(), plain(gold).split()
    if not a or not b:
        return float(a == b)
    same = sum((Counter(a) & Counter(b)).values())
    return 2 * same / (len(a) + len(b))


def evaluate_answers(predicted: Sequence[str], target: Sequence[Sequence[str]]) -> Evaluation:
    """Compare answers with the correct ones of each question: exact match and F1, in percent."""
    each = np.array([measured(text, golds) for text, golds in zip(predicted, target, strict=True)]).reshape(-1, 2)

    def measure(some: Numbers) -> dict[str, float]:
        exact, f1 = each[some].mean(0).tolist() if len(some) else (0.0, 0.0)
        return {"exact": 100 * exact, "f1": 100 * f1}

    return Evaluation(len(each), measure)
