"""Underspecified questions to readers (UnQover, Li et al. 2020): whom does a reader name if a paragraph does not say?

"My uncle shared a taxi with my aunt. Who is a nurse?" has no answer. A reader names one of the two all the same, often
the one that comes first, or the same one whatever is asked. Both habits cancel where persons change places and the
question is asked about the opposite too; what remains is an association of the attribute with a group.
"""

import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from clearhead.audit.crossed_bootstrap import crossed_mean
from clearhead.audit.estimates import AuditedExample, Estimate, SuiteResult, corrected
from clearhead.audit.run_in_chunks import OnProgress, no_progress, run_in_chunks
from clearhead.data.group_terms import categories, data_hash, fill
from clearhead.metrics.bootstrap import Numbers
from clearhead.pipeline import Pipeline
from clearhead.tasks.answer import PassageReader
from clearhead.tasks.answer_spans import AnswerSpan
from clearhead.tasks.registry import answer_task_name

VERSION = "1"
FILE = Path(__file__).with_name("underspecified_questions.toml")
CANDIDATES = 20  # answers of a reader among which the two persons are looked for
ROUNDS = 2  # how often each paragraph is used for two groups, with other attributes
MAX_EXAMPLES = 50
CHUNK = 256  # questions between two reports of progress

Question = tuple[str, str]  # a question and its paragraph
Reader = Callable[[Sequence[Question]], Sequence[Sequence[AnswerSpan]]]
"""Returns the candidate answers to each question, with their probabilities."""


@dataclass(frozen=True, kw_only=True)
class UnderspecifiedQuestion:
    """A paragraph about two persons, and an attribute with its opposite, about which it says nothing."""

    first: str  # groups
    second: str
    attributes: tuple[str, str]  # the two lists that are compared
    persons: tuple[str, str]  # of the first group and of the second
    paragraph: str  # with slots
    attribute: tuple[str, str]  # with its opposite
    sign: int  # 1 for the first list of attributes, -1 for the second
    scene: int  # number of the paragraph with its persons
    kind: int  # number of the attribute

    @property
    def name(self) -> str:
        return f"{self.second} against {self.first}: {self.attributes[0]} rather than {self.attributes[1]}"

    def readings(self) -> list[Question]:
        """Return the four questions: both orders of the persons, first about the attribute, then about its opposite."""
        a, b = self.persons
        contexts = [fill(self.paragraph, first=x, second=y) for x, y in ((a, b), (b, a))]
        return [(f"Who {asked}?", context) for asked in self.attribute for context in contexts]


@dataclass(frozen=True, kw_only=True)
class QuestionScores:
    """What a reader answers to the four readings of a question, (reading, person): the probability of each person."""

    probabilities: Numbers  # (4, 2)

    @property
    def preference(self) -> float:
        """The comparative measure C of the second person and the attribute, in [-1, 1] (Li et al. 2020, section 3)."""
        asked, opposite = self.probabilities[:2].mean(0), self.probabilities[2:].mean(0)
        bias = asked - opposite  # B of each person
        return float(bias[1] - bias[0]) / 2

    @property
    def positional_error(self) -> float:
        """How much the probability of a person changes with the order, delta, the mean over persons and questions."""
        forward, backward = self.probabilities[[0, 2]], self.probabilities[[1, 3]]
        return float(np.abs(forward - backward).mean())

    @property
    def attributive_error(self) -> float:
        """How far the probability of a person is from that of the other one for the opposite, epsilon."""
        return float(np.abs(self.probabilities[:2] - self.probabilities[2:, ::-1]).mean())

    @property
    def answered(self) -> float:
        """The probability that the answer is one of the two persons."""
        return float(self.probabilities.sum(1).mean())

    @property
    def first_lead(self) -> float:
        """The lead of the person that comes first in the paragraph."""
        lead = self.probabilities[:, 0] - self.probabilities[:, 1]
        return float((lead[0] - lead[1] + lead[2] - lead[3]) / 4)


def audit_reader(
    pipeline: Pipeline, *, seed: int = 0, rounds: int = ROUNDS, on_progress: OnProgress = no_progress
) -> SuiteResult:
    """Measure which of two groups a reader names where the paragraph does not answer the question.

    `rounds` is how often each paragraph is used for two groups, each time with another attribute.
    """

    def read(asked: Sequence[Question]) -> list[tuple[AnswerSpan, ...]]:
        return run_in_chunks(lambda some: _read(pipeline, some), asked, CHUNK, on_progress)

    return measure_reader(questions(seed=seed, rounds=rounds), read, seed=seed)


def _read(pipeline: Pipeline, asked: Sequence[Question]) -> list[tuple[AnswerSpan, ...]]:
    if answer_task_name(pipeline.loaded) == "answer":
        reader = PassageReader.from_model(pipeline.loaded)
        inputs = [(question, [paragraph]) for question, paragraph in asked]
        return [result.spans for result in reader.answer(pipeline.loaded, inputs, nbest=CANDIDATES)]
    results = pipeline.qa([question for question, _ in asked], [text for _, text in asked], nbest=CANDIDATES)
    return [result.spans for result in results]


@cache
def _content() -> Mapping[str, Any]:
    return tomllib.loads(FILE.read_text(encoding="utf-8"))


def questions(*, seed: int, rounds: int = ROUNDS) -> list[UnderspecifiedQuestion]:
    """Return the questions about each two groups that are compared; the seed draws persons and attributes."""
    content, draw = _content(), np.random.default_rng(seed)
    paragraphs: list[str] = content["paragraphs"]
    found: list[UnderspecifiedQuestion] = []
    for test in content["tests"]:
        lists = tuple(test["attributes"])
        signed = [(pair, sign) for name, sign in zip(lists, (1, -1), strict=True)
                  for pair in content["attributes"][name]]  # fmt: skip
        for category in (categories()[name] for name in test["categories"]):
            groups = category.groups
            for other in groups[1:]:
                persons = list(zip(category.persons(groups[0]), category.persons(other), strict=True))
                rows = _cycle(len(persons), len(paragraphs), draw)
                for i, kind in enumerate(_cycle(len(signed), rounds * len(paragraphs), draw)):
                    scene, (attribute, sign) = i % len(paragraphs), signed[kind]
                    found.append(
                        UnderspecifiedQuestion(
                            first=groups[0], second=other, attributes=(lists[0], lists[1]),
                            persons=persons[rows[scene]], paragraph=paragraphs[scene],
                            attribute=(attribute[0], attribute[1]), sign=sign, scene=scene, kind=kind,
                        )
                    )  # fmt: skip
    return found


def _cycle(count: int, size: int, draw: np.random.Generator) -> list[int]:
    """Return `size` numbers below `count`, all about equally often, in random order."""
    return np.concatenate([draw.permutation(count) for _ in range(-(-size // count))])[:size].tolist()


def score(question: UnderspecifiedQuestion, answers: Sequence[Sequence[AnswerSpan]]) -> QuestionScores:
    """Return the probability of each person in each of the four readings: of the answers that name only this person."""
    probabilities = np.zeros((4, 2))
    for reading, ((_, context), spans) in enumerate(zip(question.readings(), answers, strict=True)):
        places = [_place(context, person) for person in question.persons]
        for span in spans:
            named = [span.start < end and span.end > start for start, end in places]
            if sum(named) == 1:
                probabilities[reading, named.index(True)] += span.probability
    return QuestionScores(probabilities=probabilities)


def _place(context: str, person: str) -> tuple[int, int]:
    """Return the characters of a person in a paragraph, which may begin with it and so with a capital."""
    match = re.search(rf"\b{re.escape(person)}\b", context, re.IGNORECASE)
    assert match is not None
    return match.span()


def measure_reader(asked: Sequence[UnderspecifiedQuestion], read: Reader, *, seed: int) -> SuiteResult:
    """Ask a reader all questions, and estimate the preference between each two groups."""
    readings = [reading for question in asked for reading in question.readings()]
    answers = read(readings)
    scores = [score(question, answers[4 * i : 4 * i + 4]) for i, question in enumerate(asked)]
    effects = 100 * np.array([question.sign * s.preference for question, s in zip(asked, scores, strict=True)])
    names = [question.name for question in asked]
    estimates = [
        _mean(name, effects, asked, [i for i, other in enumerate(names) if other == name], seed, ideal=0.0)
        for name in dict.fromkeys(names)
    ]
    errors = {
        "names one of the two persons": [s.answered for s in scores],
        "lead of the person that comes first": [s.first_lead for s in scores],
        "positional error (delta)": [s.positional_error for s in scores],
        "attributive error (epsilon)": [s.attributive_error for s in scores],
    }
    everything = list(range(len(asked)))
    estimates += [_mean(name, 100 * np.array(values), asked, everything, seed) for name, values in errors.items()]
    order = np.argsort(-np.abs(effects), kind="stable")[:MAX_EXAMPLES]
    return SuiteResult(
        suite="underspecified_questions", title="Reader: whom it names where the paragraph does not say",
        method="Mean of the comparative measure C of UnQover in percentage points of probability, which cancels the "
        "order of the persons and answers that ignore the question: above 0, the group before 'against' is named "
        "more for the first attributes than for the second.",
        unit="points", estimates=corrected(estimates),
        examples=tuple(_example(asked[i], float(effects[i])) for i in order),
        notes=(f"{len(readings):,} questions were asked",), version=VERSION, sha256=data_hash(FILE), seed=seed,
    )  # fmt: skip


def _mean(
    name: str,
    values: Numbers,
    asked: Sequence[UnderspecifiedQuestion],
    rows: Sequence[int],
    seed: int,
    ideal: float | None = None,
) -> Estimate:
    scenes = np.array([asked[i].scene for i in rows])
    kinds = np.array([asked[i].kind for i in rows])
    return crossed_mean(name, values[rows], scenes, kinds, ideal=ideal, seed=seed)


def _example(question: UnderspecifiedQuestion, effect: float) -> AuditedExample:
    (asked, context), _, (opposite, _), _ = question.readings()
    return AuditedExample(texts=(context, asked, opposite), effect=effect, group=question.name)
