"""Underspecified questions: habits of a reader cancel, and what remains is a preference between groups."""

from __future__ import annotations

import zlib

import numpy as np
import pytest
import torch

from clearhead.audit import crossed_bootstrap, underspecified_questions
from clearhead.audit.underspecified_questions import audit_reader, measure_reader, questions, score
from clearhead.data.group_terms import categories
from clearhead.hub.families import FAMILIES
from clearhead.hub.folder import LoadedModel
from clearhead.models import build
from clearhead.pipeline import Pipeline
from clearhead.tasks import AnswerSpan, PassageReader, QuestionAnswering, TaskConfig
from clearhead.text import train_tokenizer

ASKED = questions(seed=0)
GENDER = [q for q in ASKED if q.second == "female" and q.attributes == ("negative", "positive")]


@pytest.fixture(autouse=True)
def fewer_draws(monkeypatch):
    monkeypatch.setattr(crossed_bootstrap, "DRAWS", 8000)


def reader(question, chance):
    """Answers each reading with the two persons; `chance(asks, place, person)` is that of the second group's person.

    `asks` is 1 for the attribute and -1 for its opposite, `place` is 0 where the person comes first.
    """
    first, second = question.persons
    answers = []
    for i, (_, context) in enumerate(question.readings()):
        at = {person: context.lower().index(person.lower()) for person in (first, second)}
        p = chance(1 if i < 2 else -1, int(at[second] > at[first]), question)
        answers.append([
            AnswerSpan(person, at[person], at[person] + len(person), 0.0, share)
            for person, share in ((first, 1 - p), (second, p))
        ])  # fmt: skip
    return answers


def measured(asked, chance):
    answers = iter([spans for question in asked for spans in reader(question, chance)])
    return measure_reader(asked, lambda readings: [next(answers) for _ in readings], seed=0)


def test_the_measures_by_hand():
    """Probabilities of the second person: 0.9 and 0.6 asked, 0.4 and 0.2 for the opposite; first where it comes last."""
    chances = {(1, 1): 0.9, (1, 0): 0.6, (-1, 1): 0.4, (-1, 0): 0.2}
    found = score(GENDER[0], reader(GENDER[0], lambda asks, place, _: chances[asks, place]))
    assert found.preference == pytest.approx(0.45)  # B is 0.75 - 0.3 for the second, 0.25 - 0.7 for the first
    assert found.positional_error == pytest.approx((0.3 + 0.2) / 2)
    assert found.answered == pytest.approx(1.0)
    # the first person is ahead by -0.8, -0.2, 0.2 and 0.6; it comes first in readings 0 and 2
    assert found.first_lead == pytest.approx((-0.8 + 0.2 + 0.2 - 0.6) / 4)
    # the second against the first for the opposite: |0.9 - 0.6|, |0.6 - 0.8|, and the same the other way round
    assert found.attributive_error == pytest.approx((0.3 + 0.2) / 2)


def test_habits_cancel():
    """A reader that names the first person, or always the same one, has no preference; it has errors."""
    for habit, first_lead in (
        (lambda asks, place, q: 0.1 + 0.7 * (1 - place), 60.0),
        (lambda asks, place, q: 0.9, 0.0),
    ):
        result = measured(ASKED, habit)
        found = {e.name: e for e in result.estimates}
        assert result.flagged == ()
        assert all(abs(e.value) < 1e-9 for e in result.estimates if e.ideal is not None)
        assert abs(found["attributive error (epsilon)"].value) > 10
        assert found["lead of the person that comes first"].value == pytest.approx(first_lead, abs=15)
    assert found["positional error (delta)"].value == pytest.approx(0)


def test_a_planted_preference_is_found():
    """A probability that moves by 0.1 with the attribute, and by -0.1 with its opposite: C is 0.2."""

    def chance(asks, place, question):
        draw = np.random.default_rng(zlib.crc32(repr((question.persons, question.paragraph, asks)).encode()))
        lean = 0.1 * asks * question.sign if question.second == "Muslim" else 0.0
        return float(np.clip(0.5 + lean + 0.1 * draw.standard_normal() - 0.2 * place, 0, 1))

    result = measured(ASKED, chance)
    (only,) = result.flagged
    assert only.name == "Muslim against Christian: negative rather than positive"
    assert only.low > 0 and only.value == pytest.approx(20, abs=3)
    assert result.examples[0].effect == max((e.effect for e in result.examples), key=abs)
    assert len(result.examples[0].texts) == 3


def test_a_reader_without_a_preference_is_rarely_flagged(monkeypatch):
    """Each two persons, and each two groups with each attribute, have random habits; five comparisons in 60 audits."""
    monkeypatch.setattr(crossed_bootstrap, "DRAWS", 1500)
    asked = [q for q in ASKED if q.second in ("female", "Arabic names", "Muslim", "old", "gay")]
    alarms = 0
    for seed in range(60):
        draw = np.random.default_rng(seed)
        habit = {key: draw.standard_normal() for q in asked for key in (q.persons, (q.second, q.kind))}

        def chance(asks, place, question, draw=draw, habit=habit):
            return float(
                np.clip(0.5 + 0.1 * asks * (habit[question.persons] + habit[question.second, question.kind]), 0, 1)
            )

        alarms += bool(measured(asked, chance).flagged)
    assert alarms <= 5


def test_only_answers_that_name_one_person_count():
    question = GENDER[0]
    context = question.readings()[0][1]
    spans = [
        AnswerSpan(context, 0, len(context), 0.0, 0.5),
        AnswerSpan("the", len(context) - 3, len(context), 0.0, 0.25),
    ]
    second = context.lower().index(question.persons[1].lower())
    inside = AnswerSpan("x", second + 1, second + 3, 0.0, 0.25)
    found = score(question, [[*spans, inside], [], [], []])
    assert found.probabilities[0].tolist() == [0.0, 0.25]
    assert found.answered == pytest.approx(0.25 / 4)


def test_a_person_is_found_as_a_whole_word():
    """ "Ana" is not in "Susana", nor "the man" in "the manager"."""
    from clearhead.audit.underspecified_questions import _place

    assert _place("Susana met Ana.", "Ana") == (11, 14)
    assert _place("The manager met the man.", "the man") == (16, 23)


def test_the_questions_are_balanced():
    for question in ASKED:
        readings = question.readings()
        (asked, forward), (_, backward), (opposite, _), _ = readings
        assert asked != opposite and forward != backward and "{" not in forward
        assert [context for _, context in readings] == [forward, backward] * 2
        places = [forward.lower().index(person.lower()) for person in question.persons]
        assert places[0] < places[1] or question.persons[0].lower() in question.persons[1].lower()
    assert len({q.scene for q in GENDER}) == len({q.kind for q in GENDER}) == len({q.persons for q in GENDER}) == 32
    assert sum(q.sign for q in GENDER) == 0
    names = {q.name for q in ASKED}
    assert len(names) == sum(len(c.groups) - 1 for c in categories().values()) + 1
    assert questions(seed=0) == ASKED != questions(seed=1)


TINY = {"width": 16, "num_heads": 2, "num_layers": 1, "ffn_dim": 16, "dropout": 0.0}


@pytest.mark.parametrize(
    ("task_type", "architecture"),
    [(QuestionAnswering, "BertForQuestionAnswering"), (PassageReader, "BertForTokenClassification")],
)
def test_readers_of_both_tasks_are_asked(tmp_path, monkeypatch, task_type, architecture):
    path = tmp_path / "text.txt"
    path.write_text("\n".join(part for q in ASKED[::20] for reading in q.readings() for part in reading))
    tokenizer = train_tokenizer(path, template="bert", vocab_size=400)
    task = task_type(tokenizer, TaskConfig(max_len=96, segments=True))
    config = task.config(TINY)
    torch.manual_seed(0)
    loaded = LoadedModel(
        build(config).eval(), config, FAMILIES["bert"], architecture, {}, tokenizer, metadata={"task": task.spec.name}
    )
    monkeypatch.setattr(underspecified_questions, "questions", lambda **options: GENDER[: 32 * options["rounds"]])
    result = audit_reader(Pipeline(loaded), seed=0, rounds=1)
    found = {e.name: e for e in result.estimates}
    assert 5 < found["names one of the two persons"].value < 100
    assert result.notes == ("128 questions were asked",)
    assert result.unit == "points" and len(result.sha256) == 64
