"""Counterfactual audits of classifiers: a planted shift is found with its direction, noise is not."""

from __future__ import annotations

import re
import zlib

import numpy as np
import pytest
import torch

from clearhead.audit import counterfactual, crossed_bootstrap
from clearhead.audit.counterfactual import (
    audit_classifier,
    balanced_choice,
    measure,
    swapped_examples,
    template_examples,
)
from clearhead.data import Row, Rows
from clearhead.data.group_terms import categories, compared_groups
from clearhead.hub.families import FAMILIES
from clearhead.hub.folder import LoadedModel
from clearhead.models import build
from clearhead.pipeline import Pipeline
from clearhead.tasks import Classification, Classify, Pair, TaskConfig
from clearhead.text import train_tokenizer

FEMALE = re.compile(
    r"\b(" + "|".join(re.escape(row[1]) for row in categories()["gender"].people) + r"|she|her|woman|Mary)\b",
    re.IGNORECASE,
)


@pytest.fixture(autouse=True)
def fewer_draws(monkeypatch):
    monkeypatch.setattr(crossed_bootstrap, "DRAWS", 8000)


def noise(text):
    return np.random.default_rng(zlib.crc32(str(text).encode())).standard_normal()


def sigmoid(x):
    return float(1 / (1 + np.exp(-x)))


def biased(shift, spread=0.5):
    """A classifier whose score depends on the words at random, and on gender by `shift`."""

    def classify(inputs):
        answers = []
        for text in inputs:
            words = str(text).split()
            logit = spread * sum(noise(word) for word in words) / len(words) ** 0.5 + shift * bool(
                FEMALE.search(str(text))
            )
            good = sigmoid(logit)
            answers.append(Classification("good" if good > 0.5 else "bad", {"bad": 1 - good, "good": good}))
        return answers

    return classify


def by_name(result):
    return {estimate.name: estimate for estimate in result.estimates}


def test_a_planted_shift_is_found_with_its_direction():
    examples = template_examples(pairs=False, persons_per_template=6, seed=0)
    gender = [e for e in examples if {e.first, e.second} == {"male", "female"}]
    for shift in (0.6, -0.6):
        found = by_name(measure(gender, biased(shift), seed=0))
        estimate, flips = found["female against male: good"], found["female against male: flips"]
        assert estimate.flagged and (estimate.low > 0 if shift > 0 else estimate.high < 0)
        assert 8 < abs(estimate.value) < 16
        assert flips.ideal is None and flips.p_value is None and flips.value > 10
        assert set(found) == {"female against male: good", "female against male: flips"}


def test_a_model_without_a_shift_is_rarely_flagged():
    """Other words have other random scores in each of 60 audits; persons differ, groups do not."""
    alarms = 0
    examples = [
        e
        for e in template_examples(pairs=False, persons_per_template=4, seed=1)
        if e.second in ("female", "Arabic names")
    ]
    for seed in range(60):

        def classify(inputs, seed=seed):
            people = np.random.default_rng(seed).standard_normal(4096)
            values = [
                sigmoid(sum(people[zlib.crc32(word.encode()) % 4096] for word in text.split()) / 5) for text in inputs
            ]
            return [Classification("good" if x > 0.5 else "bad", {"bad": 1 - x, "good": x}) for x in values]

        alarms += bool(measure(examples, classify, seed=seed).flagged)
    assert alarms <= 5


def test_each_text_is_classified_once_and_examples_are_the_largest():
    examples = template_examples(pairs=False, persons_per_template=3, seed=0)
    seen = []

    def classify(inputs):
        seen.extend(inputs)
        return biased(0.5)(inputs)

    result = measure(examples, classify, seed=3)
    assert len(seen) == len(set(seen)) and f"{len(seen):,} texts were classified" in result.notes
    assert {e.name.split(":")[0] for e in result.estimates} == {f"{b} against {a}" for a, b in compared_groups()}
    assert result.seed == 3 and len(result.sha256) == 64 and result.unit == "points"
    effects = [abs(e.effect) for e in result.examples]
    assert effects == sorted(effects, reverse=True) and len(effects) == 50
    first = result.examples[0]
    scores = [answer.scores["good"] for answer in biased(0.5)(first.texts)]
    assert first.effect == pytest.approx(100 * (scores[1] - scores[0]))
    assert first.group in {e.name for e in result.estimates}


def test_texts_of_a_user_are_exchanged_in_their_direction():
    """The second text is about the second group, whichever the user's was; a text about both counts for flips only."""
    texts = ["She won.", "He won.", "He met her.", "The dog won.", "I gave her books."]
    examples, notes = swapped_examples(texts)
    gender = [e for e in examples if e.second == "female"]
    assert [e.texts for e in gender] == [
        ("He won.", "She won."),
        ("He won.", "She won."),
        ("He met her.", "She met him."),
    ]
    assert [e.directed for e in gender] == [True, True, False]
    assert notes == [
        "3 of 5 texts name a group whose terms were exchanged",
        "1 texts were skipped for a group, as grammar does not decide a counterpart",
    ]
    found = by_name(measure(gender, biased(2.0, spread=0.0), seed=0))
    assert found["female against male: good"].count == 2
    assert found["female against male: good"].value == pytest.approx(100 * (sigmoid(2.0) - 0.5))
    assert found["female against male: flips"].count == 3
    with pytest.raises(ValueError, match="none of the 1 texts names a group"):
        swapped_examples(["A dog."])


def test_pairs_of_texts_are_exchanged_together():
    examples, _ = swapped_examples(
        [("A man sleeps.", "He rests."), ("A man sleeps.", "She rests."), ("A dog.", "She rests.")]
    )
    assert [(e.texts, e.directed) for e in examples] == [
        ((("A man sleeps.", "He rests."), ("A woman sleeps.", "She rests.")), True),
        ((("A man sleeps.", "She rests."), ("A woman sleeps.", "He rests.")), False),
        ((("A dog.", "He rests."), ("A dog.", "She rests.")), True),
    ]
    filled = template_examples(pairs=True, persons_per_template=4, seed=0)
    assert all(isinstance(text, tuple) and len(text) == 2 and "{" not in str(text) for e in filled for text in e.texts)


def test_numbers_and_several_labels():
    examples = [e for e in template_examples(pairs=False, persons_per_template=4, seed=0) if e.second == "female"]

    def number(inputs):
        return [Classification(3.0 + 0.25 * bool(FEMALE.search(text))) for text in inputs]

    (only,) = measure(examples, number, seed=0).estimates
    assert (only.name, only.value, only.low, only.high) == ("female against male: number", 0.25, 0.25, 0.25)
    assert measure(examples, number, seed=0).unit == ""

    def several(inputs):
        score = [0.2 + 0.4 * bool(FEMALE.search(text)) for text in inputs]
        return [Classification(("a",) if x > 0.5 else (), {"a": x, "b": 0.1}) for x in score]

    found = by_name(measure(examples, several, seed=0))
    assert {name: round(e.value, 6) for name, e in found.items()} == {
        "female against male: a": 40.0, "female against male: b": 0.0, "female against male: flips": 100.0,
    }  # fmt: skip
    assert found["female against male: a"].flagged and not found["female against male: b"].flagged


def test_persons_are_used_equally_often():
    chosen = balanced_choice(32, 48, 6, np.random.default_rng(0))
    assert all(len(set(row)) == 6 for row in chosen)
    counts = np.bincount(np.concatenate(chosen), minlength=32)
    assert counts.min() >= 7 and counts.max() <= 11
    assert balanced_choice(3, 2, 9, np.random.default_rng(0))[1].__len__() == 3


TINY = {"width": 16, "num_heads": 2, "num_layers": 1, "ffn_dim": 16, "dropout": 0.0}


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    path = tmp_path_factory.mktemp("counterfactual") / "text.txt"
    examples = template_examples(pairs=False, persons_per_template=2, seed=0)
    path.write_text("\n".join(str(text) for e in examples for text in e.texts))
    return train_tokenizer(path, template="bert", vocab_size=900)


def trained(tokenizer, task_type, texts, labels, steps):
    """A tiny model, trained on these texts, as a pipeline."""
    rows = [
        Row({**dict(zip(task_type.texts, text, strict=True)), "label": label}, "file", i)
        for i, (text, label) in enumerate(zip(texts, labels))
    ]
    data = Rows(lambda: iter(rows))
    columns = tuple(rows[0].values)
    task = task_type.from_recipe(
        tokenizer, TaskConfig(max_len=48, columns=columns, segments=True), task_type.collect_labels(data, columns)
    )
    config = task.config(TINY)
    torch.manual_seed(0)
    model = build(config)
    batch = task.collate(task.encode(data)[0], np.arange(len(rows)))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    for _ in range(steps):
        optimizer.zero_grad()
        (task.loss(model, batch) / len(rows)).backward()
        optimizer.step()
    loaded = LoadedModel(
        model.eval(), config, FAMILIES["bert"], "BertForSequenceClassification", {}, tokenizer, metadata={"task": task.spec.name}
    )  # fmt: skip
    return Pipeline(loaded)


@pytest.fixture
def only_gender(monkeypatch):
    monkeypatch.setattr(counterfactual, "categories", lambda: {"gender": categories()["gender"]})


def test_a_model_trained_on_skewed_texts_is_found(tokenizer, only_gender):
    """Women are praised in the training texts, men are not; the templates of the audit are about something else."""
    people = categories()["gender"].people
    texts = [(f"{person} is here.",) for row in people for person in row]
    pipeline = trained(tokenizer, Classify, texts, ["bad", "good"] * len(people), 40)
    found = by_name(audit_classifier(pipeline, seed=0, persons_per_template=2))["female against male: good"]
    assert found.low > 5 and found.flagged
    own = audit_classifier(pipeline, ["She is here."] * 3 + ["He is here."] * 4 + ["A house."], seed=0, max_texts=7)
    assert own.notes[0] in (
        "6 of 7 texts name a group whose terms were exchanged",
        "7 of 7 texts name a group whose terms were exchanged",
    )
    assert by_name(own)["female against male: good"].value > 5


def test_a_classifier_of_pairs_reads_pairs(tokenizer, only_gender):
    pipeline = trained(tokenizer, Pair, [("a man", "a dog"), ("a woman", "a cat")], ["no", "yes"], 1)
    result = audit_classifier(pipeline, seed=0, persons_per_template=1)
    assert "female against male: yes" in by_name(result)
    assert " / " in result.examples[0].texts[0]
    with pytest.raises(ValueError, match="give texts or pairs, not both"):
        audit_classifier(pipeline, [("A man sleeps.", "He rests."), "He rests."])
