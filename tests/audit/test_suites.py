"""The suites: which model each fits, what each lacks to run, options that are of no use, and that each runs."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
import torch

from clearhead.audit import suites, underspecified_questions
from clearhead.audit.suites import SUITES, AuditOptions, choose_suites
from clearhead.data.catalog import DATASETS
from clearhead.hub.families import FAMILIES
from clearhead.hub.folder import LoadedModel
from clearhead.models import build
from clearhead.pipeline import Pipeline
from clearhead.tasks import Classify, Embed, Pair, QuestionAnswering, TaskConfig
from clearhead.text import train_tokenizer
from tests.audit.made_up_people import sentences, train_on
from tests.audit.test_continuations import Judge, Writer
from tests.audit.test_translation_gender import translator  # noqa: F401

TINY = {"width": 16, "num_heads": 2, "num_layers": 1, "ffn_dim": 16, "dropout": 0.0}
KINDS = ("masked", "causal", "translator", "classifier", "pairs", "encoder", "reader")
FIT = {
    "encoder": ["associations"], "masked": ["crows_pairs", "associations"],
    "causal": ["crows_pairs", "continuations"], "translator": ["winomt"],
    "classifier": ["counterfactual"], "pairs": ["counterfactual"], "reader": ["underspecified_questions"],
}  # fmt: skip


@pytest.fixture(scope="module")
def models(tmp_path_factory, translator):  # noqa: F811
    """A model of each kind that learned nothing, or next to nothing."""
    folder = tmp_path_factory.mktemp("suites")
    (folder / "text.txt").write_text("the people here are kind and the others are late\n" * 50)
    tokenizer = train_tokenizer(folder / "text.txt", template="bert", vocab_size=60)

    def bert(task_type, architecture, labels=None) -> Pipeline:
        columns = (*task_type.texts, "label") if labels else ()
        settings = TaskConfig(max_len=64, columns=columns, segments=True)
        task = task_type(tokenizer, settings) if labels is None else task_type.from_recipe(tokenizer, settings, labels)
        config = task.config(TINY)
        torch.manual_seed(0)
        metadata = {"task": task.spec.name}
        return Pipeline(
            LoadedModel(build(config).eval(), config, FAMILIES["bert"], architecture, {}, tokenizer, metadata=metadata)
        )

    def labels(task_type):
        from clearhead.data import Row, Rows

        rows = [Row({**dict.fromkeys(task_type.texts, "x"), "label": name}, "f", 1) for name in ("bad", "good")]
        return task_type.collect_labels(Rows(lambda: iter(rows)), tuple(rows[0].values))

    return {
        "masked": Pipeline(train_on(sentences(0.9, 0)[:60], folder / "m", "masked_lm", steps=1)),
        "causal": Pipeline(train_on(sentences(0.9, 0)[:60], folder / "c", "language_model", steps=1)),
        "translator": translator,
        "classifier": bert(Classify, "BertForSequenceClassification", labels(Classify)),
        "pairs": bert(Pair, "BertForSequenceClassification", labels(Pair)),
        "encoder": bert(Embed, "BertModel"),
        "reader": bert(QuestionAnswering, "BertForQuestionAnswering"),
    }


@pytest.fixture
def data(tmp_path, monkeypatch) -> Path:
    """Small files in the place of the data sets."""
    table = "sent_more,sent_less,stereo_antistereo,bias_type,annotations\n"
    rows = [
        f"{a} is {w}.,{b} is {w}.,stereo,age,[['age']]\n"
        for a, b, w in zip("bdfgklmn", "dfgklmnp", ["lazy", "kind"] * 4, strict=True)
    ]
    (tmp_path / "crows_pairs_anonymized.csv").write_text(table + "".join(rows))
    for name in suites.BOLD:
        groups = {f"{name}_{i}": {"n": [f"Cats {j}" for j in range(4)]} for i in range(3)}
        (tmp_path / f"{name}_prompt.json").write_text(json.dumps(groups))
    lines = [
        "male\t1\tThe baker sang because he won.\tThe baker",
        "female\t1\tThe baker sang because she won.\tThe baker",
    ]
    for name in ("en.txt", "en_pro.txt", "en_anti.txt"):
        (tmp_path / name).write_text("\n".join(lines) + "\n")

    def located(reference, base):
        return tmp_path / str(reference).partition(":")[2]

    monkeypatch.setattr(suites, "locate", located)
    monkeypatch.setattr("clearhead.audit.translation_gender.locate", located)
    monkeypatch.setattr("clearhead.audit.estimates.DRAWS", 50)
    monkeypatch.setattr("clearhead.audit.crossed_bootstrap.DRAWS", 2000)
    monkeypatch.setattr("clearhead.audit.word_association.PERMUTATIONS", 50)
    return tmp_path


@pytest.fixture
def missing(monkeypatch):
    def refuse(reference, base):
        name = str(reference).partition(":")[0]
        raise ValueError(f"{name} is not in DATA: import a copy: clearhead data {name} --from FOLDER")

    monkeypatch.setattr(suites, "locate", refuse)


def names(loaded, *given, **options) -> list[str]:
    return [suite.name for suite in choose_suites(loaded, given, AuditOptions(**options))[0]]


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_of_model_has_its_suites(models, data, kind):
    judge = cast("Pipeline", Judge())
    assert names(models[kind].loaded, **({"judge": judge} if kind == "causal" else {})) == FIT[kind]


def test_all_suites_are_held_by_these_tests():
    assert {name for fitting in FIT.values() for name in fitting} == set(SUITES)


@pytest.mark.parametrize("name", SUITES)
def test_the_data_of_a_suite_is_in_the_catalog(name):
    suite = SUITES[name]
    for file in suite.files:
        dataset, _, member = file.partition(":")
        assert dataset in DATASETS and member
    assert suite.name == name and suite.title and suite.reads
    assert all(hasattr(AuditOptions(), option) for option in suite.options)


@pytest.mark.parametrize(("name", "kind"), [(name, next(kind for kind in FIT if name in FIT[kind])) for name in SUITES])
def test_each_suite_runs(models, data, monkeypatch, name, kind):
    """With a progress report, the seed and the name of the table in its result."""
    reports: list[tuple[int, int]] = []
    pipeline: Any = models[kind]
    if name == "continuations":
        pipeline = Writer()
    if name == "underspecified_questions":
        some = underspecified_questions.questions(seed=0)[:32]
        monkeypatch.setattr(underspecified_questions, "questions", lambda **options: some)
    options = AuditOptions(
        seed=4, judge=cast("Pipeline", Judge()), on_progress=lambda done, total: reports.append((done, total)),
        texts=["He sleeps.", "She sings."] if name == "counterfactual" else None,
    )  # fmt: skip
    result = SUITES[name].run(pipeline, options)
    assert (result.suite, result.seed) == (name, 4) and len(result.sha256) == 64 and result.estimates
    assert result.own_texts == (name == "counterfactual")
    if name != "associations":
        assert reports[-1][0] == reports[-1][1] > 0


def test_a_suite_that_does_not_exist_or_does_not_fit_is_refused(models):
    loaded = models["classifier"].loaded
    with pytest.raises(ValueError, match="there is no suite 'crows': there are crows_pairs, continuations, winomt"):
        choose_suites(loaded, ["crows"])
    with pytest.raises(
        ValueError, match=r"winomt audits translators .*, but the model is BertForSequenceClassification"
    ):
        choose_suites(loaded, ["winomt"])


def test_a_model_without_a_suite_is_refused_with_the_list_of_suites(models):
    tagger = replace(models["classifier"].loaded, metadata={"task": "tag"})
    with pytest.raises(
        ValueError, match=r"no suite audits BertForSequenceClassification\. There are crows_pairs: masked"
    ):
        choose_suites(tagger)


def test_models_of_images_fit_no_suite_of_texts(models):
    for kind in ("masked", "causal", "translator", "classifier", "encoder"):
        loaded = models[kind].loaded
        config = SimpleNamespace(
            **{name: getattr(loaded.config, name) for name in ("encoder", "decoder", "head")}, patches=16
        )
        images = replace(loaded, config=cast("Any", config))
        assert not [suite.name for suite in SUITES.values() if suite.fits(images)]
    assert not SUITES["crows_pairs"].fits(replace(models["causal"].loaded, metadata={"task": "draw"}))


def test_missing_data_is_named_with_the_command_that_gets_it(models, missing):
    loaded = models["masked"].loaded
    found, left_out = choose_suites(loaded)
    assert [suite.name for suite in found] == ["associations"]
    assert left_out == [
        "the suite crows_pairs is left out: crows_pairs is not in DATA: import a copy: clearhead data crows_pairs --from FOLDER"
    ]
    with pytest.raises(ValueError, match="the suite crows_pairs cannot run: crows_pairs is not in DATA: import a copy"):
        choose_suites(loaded, ["crows_pairs"])
    assert names(loaded, "crows_pairs", pairs=Path("own.csv")) == ["crows_pairs"]
    with pytest.raises(ValueError, match=r"crows_pairs is left out.*; the suite continuations is left out"):
        choose_suites(models["causal"].loaded)


def test_a_suite_without_its_judge_is_left_out_or_refused(models, data):
    loaded = models["causal"].loaded
    found, left_out = choose_suites(loaded)
    assert [suite.name for suite in found] == ["crows_pairs"]
    assert left_out == [
        "the suite continuations is left out: it needs a classifier of sentiment: give its folder with --judge"
    ]
    with pytest.raises(ValueError, match="the suite continuations cannot run: it needs a classifier of sentiment"):
        choose_suites(loaded, ["continuations"])


def test_a_judge_that_cannot_judge_is_refused_before_anything_runs(models, data):
    judge = cast("Pipeline", Judge(labels=("spam", "ham")))
    with pytest.raises(ValueError, match="no label for positive texts: its labels are spam, ham"):
        choose_suites(models["causal"].loaded, (), AuditOptions(judge=judge))


def test_a_translator_of_an_unknown_language_is_refused_with_the_option(models, data):
    unknown = replace(models["translator"].loaded, metadata={})
    with pytest.raises(ValueError, match="the target language of this model is not known"):
        choose_suites(unknown)
    assert names(unknown, language="de") == ["winomt"]


@pytest.mark.parametrize(("kind", "option", "value"), [
    ("masked", "texts", ["a"]), ("classifier", "pairs", Path("p.csv")), ("encoder", "judge", Judge()),
    ("masked", "judge_label", "good"), ("reader", "language", "de"),
])  # fmt: skip
def test_options_that_are_of_no_use_are_refused(models, data, kind, option, value):
    with pytest.raises(ValueError, match=rf"--{option.replace('_', '-')} is for the suite .*: leave --.* out"):
        choose_suites(models[kind].loaded, (), AuditOptions(**{option: value}))


def test_fewer_pairs_are_drawn_from_the_whole_file(models, data):
    run = SUITES["crows_pairs"].run
    found = [
        [e.texts[0] for e in run(models["masked"], AuditOptions(max_examples=4, seed=seed)).examples]
        for seed in range(6)
    ]
    assert all(len(some) == 4 for some in found) and len({tuple(some) for some in found}) > 1
    assert set(np.concatenate(found)) > {"b is lazy.", "n is kind."}  # the first and the last
    assert len(run(models["masked"], AuditOptions(max_examples=100)).examples) == 8


def test_own_pairs_are_named_in_the_result(models, data):
    own = data / "own.csv"
    own.write_text((data / "crows_pairs_anonymized.csv").read_text())
    result = SUITES["crows_pairs"].run(models["masked"], AuditOptions(pairs=own))
    assert result.own_texts and result.notes[0] == "the pairs are those of own.csv, not of CrowS-Pairs"
    assert not SUITES["crows_pairs"].run(models["masked"], AuditOptions()).own_texts
