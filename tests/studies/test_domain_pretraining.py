"""Domain pretraining: halves share no article, passages keep their answer, and the study runs to the end."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clearhead.studies import domain_pretraining
from clearhead.studies.labels_needed import MINILM

WORDS = ["it", "is", "said", "that", "in", "the", "old", "house", "near", "the", "river", "there", "was", "a", "light"]


def asked(number):
    context = f"{' '.join(WORDS)} {number} and Ann {number} saw it, alone. {' '.join(reversed(WORDS))}"
    return {"question": f"who saw {number}?", "context": context,
            "answers": [{"text": f"Ann {number}", "start": context.index("Ann")}]}  # fmt: skip


QUESTIONS = [asked(n) for n in range(24)]


@given(seed=st.integers(0, 50), twice=st.integers(0, 24))
def test_no_article_is_in_both_halves(seed, twice):
    questions = [*QUESTIONS, *QUESTIONS[:twice]]
    mine, rest = domain_pretraining.halves(questions, seed)
    assert len(mine) + len(rest) == len(questions)
    read, held = ({q["context"] for q in part} for part in (mine, rest))
    assert not read & held and len(read) == len(held) == 12


@given(
    before=st.lists(st.sampled_from(WORDS), max_size=40), after=st.lists(st.sampled_from(WORDS), max_size=40),
    around=st.integers(0, 80),
)  # fmt: skip
def test_a_passage_keeps_its_answer(before, after, around):
    context = " ".join([*before, "the answer", *after])
    start = len(" ".join([*before, ""])) if before else 0
    question = {"question": "?", "context": context, "answers": [{"text": "the answer", "start": start}]}
    passage, excerpt = domain_pretraining.passage(question, around), domain_pretraining.excerpt(question, around + 1)
    for short in (passage, excerpt):
        (answer,) = short["answers"]
        assert short["context"][answer["start"] :].startswith("the answer") and short["context"] in context
        assert set(short["context"].split()) <= set(WORDS) | {"answer"}  # cut between words, or at the answer
    assert len(passage["context"]) <= len("the answer") + 2 * around
    assert len(excerpt["context"]) <= around + 1 + len("the answer")


@pytest.mark.slow
def test_the_study_end_to_end(tmp_path):
    given = {"data": "made up", "base_model": MINILM, "num_test": 6, "seeds": 2, "pretraining_steps": 3, "batch_tokens": 512,
             "finetuning_steps": 2, "max_len": 64, "window": 64}  # fmt: skip
    measured = domain_pretraining.measure(tmp_path / "runs", QUESTIONS, QUESTIONS[:2], **given)
    assert (measured.read, measured.held_out, measured.tested_on, measured.trained_on) == (12, 12, 6, 14)
    frozen, whole = measured.words
    assert frozen.steps == whole.steps == (1, 2, 3)
    assert frozen.losses != whole.losses and whole.losses[-1] < whole.losses[0]
    before, after = (one.f1.scores for one in measured.answers)
    assert len(before) == len(after) == 2
    assert measured.gained.scores == pytest.approx([after[0] - before[0], after[1] - before[1]], abs=0.006)
    assert domain_pretraining.measure(tmp_path / "runs", QUESTIONS, QUESTIONS[:2], **given) == measured
    words, answers = domain_pretraining.draw(measured).axes
    assert [text.get_text() for text in answers.get_xticklabels()] == ["original", "domain-pretrained"]
    assert len(words.lines) >= 2
