"""Texts about groups: differences by a judge of fixed scores, the judge's own bias, prompts of all groups."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from clearhead.audit.continuations import (
    MAX_NEW_TOKENS,
    Prompt,
    audit_continuations,
    continuation_result,
    draw_prompts,
    judge_label,
    positive_label,
    read_prompts,
)
from clearhead.pipeline import Pipeline
from clearhead.tasks import Classification


class Judge:
    """A classifier whose score depends on words: 0.9 with `nice`, 0.4 otherwise; 0.2 more with `she`."""

    def __init__(self, labels=("neg", "pos"), task="classify", patches=None) -> None:
        head = SimpleNamespace(labels=labels)
        config = SimpleNamespace(head=head, patches=patches)
        self.loaded = SimpleNamespace(architecture="Judge", config=config, metadata={"task": task}, extra_files={})

    def classify(self, texts):
        scores = [(0.7 if "nice" in t else 0.4) + 0.2 * ("she" in t.lower().split()) for t in texts]
        return [Classification("pos" if s > 0.5 else "neg", {"neg": 1 - s, "pos": s}) for s in scores]


class Writer:
    """Writes `nice` after each prompt of a text about cats, and `so` after others."""

    def __init__(self) -> None:
        self.calls: list[tuple[list[str], dict[str, Any]]] = []

    def generate(self, prompts, **options):
        self.calls.append((list(prompts), options))
        return [SimpleNamespace(text=" nice" if "Cats" in prompt else " so") for prompt in prompts]


def pipeline(made) -> Pipeline:
    return cast("Pipeline", made)


def prompts(count: int = 40) -> list[Prompt]:
    animals = [
        Prompt(domain="animal", group=g, text=f"{g} {i} are") for g in ("Cats", "Dogs", "Cows") for i in range(count)
    ]
    people = [
        Prompt(domain="gender", group=g, text=f"{w} {i} is")
        for g, w in (("men", "He"), ("women", "She"))
        for i in range(count)
    ]
    return animals + people


def measured(**options):
    writer = Writer()
    found = audit_continuations(pipeline(writer), pipeline(Judge()), prompts(), data_sha256="ab" * 32, **options)
    return writer, found


def test_differences_of_a_judge_with_fixed_scores():
    _, found = measured(seed=2)
    values = {e.name: (round(e.value, 6), e.count) for e in found.estimates}
    assert values == {
        "the judge: women minus men": (20.0, 80),
        "animal: Cats": (30.0, 40), "animal: Dogs": (-15.0, 40), "animal: Cows": (-15.0, 40),
        "gender: women": (20.0, 40),  # one difference of two groups
    }  # fmt: skip
    assert all(e.ideal == 0 and e.flagged for e in found.estimates)
    assert (found.suite, found.seed, found.sha256, found.unit) == ("continuations", 2, "ab" * 32, "points")
    assert "'pos'" in found.method and "80 of 200 texts" in found.notes[0]
    cats = [e for e in found.examples if e.group == "Cats"]
    assert cats[0].texts == ("Cats 0 are nice",) and cats[0].effect == pytest.approx(20)  # 70 against a mean of 50
    assert len(found.examples) == 200


def test_each_prompt_has_a_seed_of_its_own_and_progress_is_reported(monkeypatch):
    monkeypatch.setattr("clearhead.audit.continuations.CHUNK", 64)
    reports: list[tuple[int, int]] = []
    writer, _ = measured(seed=10, on_progress=lambda done, total: reports.append((done, total)))
    assert reports == [(64, 200), (128, 200), (192, 200), (200, 200)]
    assert [seed for _, options in writer.calls for seed in options["seed"]] == list(range(10, 210))
    assert [p for some, _ in writer.calls for p in some] == [p.text for p in prompts()]
    assert all(o["max_new_tokens"] == MAX_NEW_TOKENS and o["temperature"] == 1 for _, o in writer.calls)


def test_the_bias_of_the_judge_has_the_direction_women_minus_men():
    """Half of the texts name men, half women: both exchanges have the same direction."""
    _, found = measured()
    assert found.estimates[0].value == pytest.approx(20) and found.estimates[0].low == pytest.approx(20)


def test_without_texts_about_men_or_women_the_bias_of_the_judge_is_not_measured():
    animals = [prompt for prompt in prompts() if prompt.domain == "animal"]
    found = audit_continuations(pipeline(Writer()), pipeline(Judge()), animals, data_sha256="")
    assert found.notes == ("no text names men or women, so the judge's own bias is not measured",)
    assert [e.name for e in found.estimates] == ["animal: Cats", "animal: Dogs", "animal: Cows"]


def test_small_groups_are_not_tested():
    some = [Prompt(domain="d", group=g, text=g) for g in "ab" for _ in range(29)]
    (found,) = continuation_result(some, ["t"] * 58, np.arange(58.0), label="pos", data_sha256="", seed=0).estimates
    assert found.too_small and found.p_value is None and found.name == "d: b"
    assert found.value == pytest.approx(29.0)


@pytest.mark.parametrize(("labels", "wanted", "found"), [
    (("neg", "pos"), None, "pos"), (("NEGATIVE", "POSITIVE"), None, "POSITIVE"), (("0", "1"), None, "1"),
    (("bad", "Good"), None, "Good"), (("neg", "pos", "joy"), "joy", "joy"),
])  # fmt: skip
def test_the_label_of_positive_texts(labels, wanted, found):
    assert positive_label(labels, wanted) == found


def test_a_judge_without_a_positive_label_is_refused():
    with pytest.raises(
        ValueError, match=r"no label for positive texts: its labels are spam, ham; name .* --judge-label"
    ):
        judge_label(pipeline(Judge(labels=("spam", "ham"))))
    with pytest.raises(ValueError, match="no label 'joy': its labels are neg, pos"):
        judge_label(pipeline(Judge()), "joy")
    with pytest.raises(ValueError, match="its labels are none"):
        judge_label(pipeline(Judge(labels=())))


@pytest.mark.parametrize("judge", [Judge(task="tag"), Judge(task="pair"), Judge(patches=16)])
def test_a_judge_that_does_not_classify_texts_is_refused(judge):
    with pytest.raises(ValueError, match="the judge is Judge, which does not classify texts: give a classifier"):
        judge_label(pipeline(judge))


@pytest.fixture
def files(tmp_path):
    content = {"a": {"n": [f" a{i}" for i in range(50)], "m": ["last"]}, "b": {"n": ["b0", "b1"]}}
    (tmp_path / "one.json").write_text(json.dumps(content))
    (tmp_path / "two.json").write_text(json.dumps({"c": {"n": [f"c{i}" for i in range(30)]}}))
    return {"one": tmp_path / "one.json", "two": tmp_path / "two.json"}


def test_prompts_are_drawn_from_each_group(files):
    found = read_prompts(files, per_group=10, seed=1)
    counts = {(p.domain, p.group): sum(q.group == p.group for q in found) for p in found}
    assert counts == {("one", "a"): 10, ("one", "b"): 2, ("two", "c"): 10}
    assert len({p.text for p in found}) == 22 and all(p.text == p.text.strip() for p in found)
    assert found == read_prompts(files, per_group=10, seed=1) != read_prompts(files, per_group=10, seed=2)


def test_fewer_prompts_are_of_all_groups(files):
    assert len(draw_prompts(files)) == 40 + 2 + 30
    found = draw_prompts(files, 9)
    assert {p.group for p in found} == {"a", "b", "c"} and len(found) == 3 + 2 + 3
    assert draw_prompts(files, 500) == draw_prompts(files)
    with pytest.raises(ValueError, match="2 examples are too few for prompts about 3 groups: give at least 3"):
        draw_prompts(files, 2)
