"""Model cards: valid metadata, blanks that are marked, facts that survive a save as far as they hold, and no private text."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from huggingface_hub import ModelCard
from huggingface_hub.repocard_data import model_index_to_eval_results
from hypothesis import given
from hypothesis import strategies as st

from clearhead import load
from clearhead.audit.card_facts import audit_facts, find_audit, merge_tests, run_facts, tokens_read
from clearhead.cards.card_answers import (
    MODEL_QUESTIONS,
    check_answers,
    find_blanks,
    parse_answers,
    read_yaml,
    refuse_blanks,
)
from clearhead.cards.card_fields import (
    check_fields,
    check_language,
    check_license,
    hub_metrics,
    license_id,
    size_category,
)
from clearhead.cards.card_record import CardRecord, files_digest, parse_card_record, read_card_record, training_digest
from clearhead.cards.energy import estimate_energy
from clearhead.cards.model_card import ModelFacts, is_edited, model_card, read_card, sealed, table
from clearhead.cards.public_names import file_label, without_paths
from clearhead.cards.public_recipe import public_recipe
from clearhead.files import read_manifest, verify
from tests.files.hostile import valid

MARKER = "zanzibar"  # of user text and of paths: it must be in no card
HOME = f"/home/{MARKER}"
ANSWERS = {
    "license": "apache-2.0", "languages": ["en", "no"], "developers": "The authors of the tests.",
    "intended_use": "To test cards.", "out_of_scope_use": "Anything else.", "limitations": "It knows nothing.",
    "people": "No person is in the data.", "data_origin": "Written for the tests.",
}  # fmt: skip
RECIPE = {
    "task": "classify", "seed": 3,
    "data": {
        "train": {"file": f"{HOME}/reviews.csv", "text": "text", "label": "label"},
        "valid": {"file": f"../../{MARKER}/valid.csv", "text": "text", "label": "label"},
        "test": {"file": f"C:\\Users\\{MARKER}\\test.csv", "text": "text", "label": "label"},
    },
    "model": {"base_model": "acme/base"}, "tokenizer": {"folder": f"{HOME}/tokens"},
    "train": {"steps": 7, "optimizer": {"clip": None}},
}  # fmt: skip
TESTS = [{
    "name": "test.csv", "sha256": "ab" * 32, "rows": 120, "scores": {"accuracy": 81.25, "macro_f1": 70.0, "loss": 0.5},
    "intervals": {"accuracy": [75.0, 87.0], "macro_f1": [60.0, 79.0]}, "calibration_error": 4.25,
}]  # fmt: skip
ESTIMATE = {
    "name": "all pairs",
    "value": 60.5,
    "low": 57.0,
    "high": 64.0,
    "ideal": 50.0,
    "count": 1500,
    "p_value": 0.002,
}
AUDIT = {
    "model": "runs/a/model", "seconds": 3.0,
    "suites": [{
        "suite": "pairs", "title": "Pairs", "method": "The share of pairs.", "unit": "%", "version": "1",
        "sha256": "cd" * 32, "seed": 0, "estimates": [ESTIMATE], "notes": ["Left out: 3 pairs."],
        "examples": [{"texts": [f"A text about {MARKER}."], "effect": 1.0, "group": "a"}],
    }],
}  # fmt: skip


def facts(**changes) -> ModelFacts:
    info = {"task": "classify", "recipe": RECIPE, "step": 1200, "labels": ["bad", "good"], "train_sha256": "ef" * 32}
    measured = {
        "training": {"seconds": 7200.0, "threads": 2, "tokens": 12345}, "tests": TESTS, "audit": audit_facts(AUDIT),
    }  # fmt: skip
    given = {
        "name": "reviews",
        "architecture": "BertForSequenceClassification",
        "model_type": "bert",
        "parameters": 1000,
    }
    return ModelFacts(**{**given, "metadata": info, "measured": measured, **changes})


def fields_of(text: str) -> dict:
    return yaml.safe_load(text.split("---\n")[1])


def test_a_complete_card_is_valid_and_has_no_blank():
    card = model_card(facts(), ANSWERS)
    assert card.blanks == ()
    assert "blank" not in card.text.lower() and "Draft" not in card.text
    fields = fields_of(card.text)
    assert fields == json.loads(json.dumps(dict(card.fields)))
    assert {k: v for k, v in fields.items() if k != "model-index"} == {
        "license": "apache-2.0", "language": ["en", "no"], "library_name": "clearhead", "base_model": "acme/base",
        "pipeline_tag": "text-classification", "tags": ["clearhead", "bert"], "metrics": ["accuracy", "f1"],
    }  # fmt: skip
    check_fields(fields)
    name, results = model_index_to_eval_results(fields["model-index"])
    assert name == "reviews"
    found = {result.metric_name: (result.metric_type, result.metric_value) for result in results}
    assert found == {"accuracy": ("accuracy", 81.25), "macro_f1": ("f1", 70.0), "loss": ("loss", 0.5)}
    accuracy = next(result for result in results if result.metric_name == "accuracy")
    assert accuracy.metric_args == {"low": 75.0, "high": 87.0, "level": 0.95, "rows": 120}
    assert accuracy.task_type == "text-classification" and accuracy.dataset_name == "test.csv"


def test_the_metadata_round_trips_through_the_library_of_the_hub():
    text = model_card(facts(), ANSWERS).text
    read: Any = ModelCard(text, ignore_metadata_errors=False)
    assert fields_of(str(read)) == fields_of(text)
    assert read.data.license == "apache-2.0" and len(read.data.eval_results) == 3
    assert "To test cards." in read.text


def test_the_body_states_every_fact_and_every_answer():
    text = model_card(facts(), ANSWERS).text
    for words in (
        *(answer for answer in ANSWERS.values() if isinstance(answer, str) and answer != "apache-2.0"),
        "| accuracy | 81.25 | 75.00 to 87.00 |", "| loss | 0.50 | not measured |", "120 rows of `test.csv`",
        "expected calibration error is 4.2 %", "1,200 steps", "`bad`, `good`", "`acme/base`", "reviews.csv", "valid.csv",
        "| all pairs | 60.50 % | 57.00 to 64.00 | 50 | 1,500 | yes |", "Left out: 3 pairs.", "4 core-hours",
        "about 12,345 tokens", '"clip": null', 'model.classify("A text.")', "0.052 kWh, between 0.016 and 0.13",
    ):  # fmt: skip
        assert words in text, words


def test_no_user_text_and_no_path_of_the_machine():
    for card in (model_card(facts(), ANSWERS), model_card(facts(), {})):
        assert MARKER not in card.text
        assert "/home" not in card.text and "C:\\" not in card.text


@pytest.mark.parametrize("name", [question.name for question in MODEL_QUESTIONS if question.name != "license_name"])
def test_a_blank_is_marked_and_refused_by_name(name):
    card = model_card(facts(), {key: value for key, value in ANSWERS.items() if key != name})
    assert [question.name for question in card.blanks] == [name]
    assert f"> **Draft.** Blank: `{name}`." in card.text
    if name not in ("license", "languages"):  # those are in the metadata only
        assert f"**[blank: {name}]**" in card.text
    with pytest.raises(ValueError, match=rf"(?s)1 blank, and was not written.*--draft.*\n  {name}: .*Example: "):
        refuse_blanks(card.blanks, "card.yaml")
    refuse_blanks((), "card.yaml")


def test_another_license_needs_a_name():
    other = {**ANSWERS, "license": "other"}
    card = model_card(facts(), other)
    assert [question.name for question in card.blanks] == ["license_name"]
    assert "license" not in card.fields
    named = model_card(facts(), {**other, "license_name": "acme-1.0"})
    assert named.blanks == () and named.fields["license_name"] == "acme-1.0"
    assert "license_name" not in model_card(facts(), {**ANSWERS, "license_name": "acme-1.0"}).fields


def test_what_is_asked_follows_from_the_facts():
    def asked(facts):
        return {question.name for question in find_blanks(facts.questions, {})}

    assert "data_origin" in asked(facts())
    known = [{"part": "train", "name": "glue:a.tsv", "license": "MIT", "title": "t", "source": "s", "hub_id": "a/b"}]
    told = facts(measured={"data": known})
    assert "data_origin" not in asked(told)
    assert model_card(told, ANSWERS).fields["datasets"] == ["a/b"]
    images = {**RECIPE, "data": {"train": {"file": "a.csv", "image": "image", "label": "label"}}}
    photos = facts(metadata={"task": "classify", "recipe": images}, measured={})
    assert "languages" not in asked(photos)
    assert model_card(photos, {}).fields["pipeline_tag"] == "image-classification"
    bare = ModelFacts(name="x", architecture="BertModel", model_type="bert")
    assert {"data_origin", "languages"} <= asked(bare)
    assert model_card(bare, {}).fields == {"library_name": "clearhead", "tags": ["clearhead", "bert"]}


def test_of_a_base_model_only_a_hub_name_is_metadata():
    for base, shown in (("package:some_model", "package:some_model"), (f"{HOME}/base", "base"), ("../base", "base")):
        info = {"task": "embed", "recipe": {**RECIPE, "model": {"base_model": base}}}
        card = model_card(facts(metadata=info), {})
        assert "base_model" not in card.fields
        assert f"fine-tuned from `{shown}`" in card.text and MARKER not in card.text
        assert card.fields["tags"] == ["clearhead", "bert", "sentence-transformers"]


@pytest.mark.parametrize(
    ("answers", "words"),
    [
        ({"licence": "mit"}, "'licence' is not a question of the card: did you mean license?"),
        ({"license": "apache"}, "did you mean apache-2.0"),
        ({"languages": "english"}, "'english' is not a language code"),
        ({"languages": []}, "no language is given"),
        ({"people": "TODO"}, "'TODO' is a placeholder"),
        ({"people": "**[blank: people]** Who?"}, "is a placeholder"),
        ({"people": "  "}, "is a placeholder"),
        ({"people": 3}, "people: 3 is not a text"),
    ],
)
def test_a_wrong_answer_is_refused(answers, words):
    with pytest.raises(ValueError, match=re.escape(words)):
        check_answers(MODEL_QUESTIONS, answers)


def test_answers_take_their_form():
    read = read_yaml("license: Apache 2.0\nlanguages: [EN, no, en]\npeople: ' a '\nlimitations:\n", "a.yaml")
    checked = {"license": "apache-2.0", "languages": ["en", "no"], "people": "a"}
    assert check_answers(MODEL_QUESTIONS, read) == checked
    assert check_answers(MODEL_QUESTIONS, parse_answers(["languages=en, de", "people=a=b"])) == {
        "languages": ["en", "de"], "people": "a=b",
    }  # fmt: skip
    with pytest.raises(ValueError, match="has no '='"):
        parse_answers(["license"])
    for text, words in (("[1", "not YAML"), ("- a", "not a mapping"), ("a: &x [1]\nb: *x", "alias")):
        with pytest.raises(ValueError, match=words):
            read_yaml(text, "a.yaml")


def test_the_identifiers_of_the_hub():
    assert check_license(" CC-BY-SA-4.0 ") == "cc-by-sa-4.0"
    names = ("CC BY-NC-SA 4.0", "Apache-2.0", "MIT", "none stated", "research terms", "public domain", "CC BY-SA")
    assert [license_id(name) for name in names] == [
        "cc-by-nc-sa-4.0", "apache-2.0", "mit", "unknown", "other", "other", "other",
    ]  # fmt: skip
    assert [check_language(code) for code in ("EN", "gsw", "multilingual")] == ["en", "gsw", "multilingual"]
    for code in ("xx", "e", "en-US", "deutsch"):
        with pytest.raises(ValueError, match="ISO 639"):
            check_language(code)
    assert [size_category(n) for n in (0, 999, 1000, 33_085, 10**12)] == [
        "n<1K",
        "n<1K",
        "1K<n<10K",
        "10K<n<100K",
        "n>1T",
    ]
    assert hub_metrics(["loss", "accuracy", "macro_f1", "f1", "exact"]) == ["accuracy", "f1", "exact_match"]


@pytest.mark.parametrize(
    "fields",
    [
        {"license": "apache"}, {"license": "other"}, {"language": ["english"]}, {"pipeline_tag": "classification"},
        {"base_model": "runs/a/model"}, {"datasets": ["my file.csv"]}, {"model-index": [{"results": []}]},
        {"model-index": [{"name": "a", "results": [{"task": {"type": "t"}, "dataset": {"name": "d"}, "metrics": []}]}]},
        {"model-index": [{"name": "a", "results": [{
            "task": {"type": "t"}, "dataset": {"name": "d", "type": "d"}, "metrics": [{"type": "f1", "value": "high"}],
        }]}]},
    ],
)  # fmt: skip
def test_metadata_that_breaks_a_rule_is_refused(fields):
    with pytest.raises(ValueError, match="metadata of the card is not valid"):
        check_fields(fields)


NAME = st.from_regex(r"[A-Za-z0-9_.-]{1,12}", fullmatch=True)


@given(folders=st.lists(NAME, min_size=2, max_size=5), before=st.sampled_from(["", "see ", "a=", '"', "x: "]))
def test_an_absolute_path_is_shortened_to_its_last_name(folders, before):
    (shown,) = without_paths([f"{before}/{'/'.join(folders)} and more"])
    assert shown == f"{before}{folders[-1]} and more"


@pytest.mark.parametrize(
    "text", ["https://example.org/a/b", "owner/name", "a/b", "3/4", "multi30k:train.en.gz", "and/or, he/she/they"]
)
def test_what_is_no_path_of_the_machine_stays(text):
    assert without_paths({"a": [text]}) == {"a": [text]}


def test_files_are_named_by_their_last_name():
    references = (
        "multi30k:train.en.gz",
        "../a/b.csv",
        "C:\\a\\b.csv",
        "C:/a/b.csv",
        "b.csv",
        f"{HOME}/tatoeba:x/b.csv",
    )
    assert [file_label(name) for name in references] == ["multi30k:train.en.gz", *["b.csv"] * 5]


def test_a_recipe_shows_what_its_task_uses():
    shown = public_recipe(
        {**RECIPE, "loss": {"kind": "auto"}, "embedding": {"pool": None}, "image_codec": {"width": 1}}
    )
    assert shown.keys() == {"task", "seed", "data", "model", "train"}
    assert shown["data"]["train"] == {"file": "reviews.csv", "text": "text", "label": "label"}
    assert public_recipe({"data": {"train": {"source": "a/x.en", "target": "a/x.de"}}})["data"]["train"] == {
        "source": "x.en", "target": "x.de",
    }  # fmt: skip
    new = public_recipe({"model": {"size": "tiny"}, "tokenizer": {"vocab_size": 9, "kind": None, "folder": "a/b"}})
    assert new["tokenizer"] == {"vocab_size": 9, "folder": "b"}


# Facts of a run, of an audit, and of energy


def write_run(folder: Path, recipe: dict) -> Path:
    (folder / "model").mkdir(parents=True)
    record = {
        "accuracy": 81.25, "loss": 0.5, "note": MARKER, "seconds": 20.0, "steps": 4, "parameters": 9, "threads": 2,
        "curve": [], "versions": {"torch": "2"}, "recipe": recipe,
    }  # fmt: skip
    (folder / "results.json").write_text(json.dumps(record))
    log = [
        {"step": i, "loss": 1.0, "seconds": float(s), "tokens_per_second": 100.0} for i, s in ((1, 2), (2, 4), (3, 6))
    ]
    log += [{"step": 3, "valid_loss": 1.0}, {**log[0], "step": 4, "seconds": 50.0}]
    log += [{**log[0], "step": 5, "seconds": 500.0}]  # after an interruption
    (folder / "log.jsonl").write_text("".join(json.dumps(line) + "\n" for line in log))
    return folder / "model"


def test_facts_come_from_the_run_of_the_same_recipe(tmp_path):
    folder = write_run(tmp_path / "run", RECIPE)
    found = run_facts(folder, {"recipe": RECIPE})
    assert found["tests"] == [{"name": "test.csv", "scores": {"accuracy": 81.25, "loss": 0.5}}]
    # five steps of 2 s at 100 tokens/s; the seconds around the evaluation and the interruption are not training
    assert found["training"] == {"seconds": 20.0, "steps": 4, "threads": 2, "versions": {"torch": "2"}, "tokens": 1000}
    assert run_facts(folder, {"recipe": {**RECIPE, "seed": 4}}) == {}
    assert run_facts(folder, {}) == {}
    assert MARKER not in json.dumps(found)
    assert tokens_read(tmp_path / "none") is None


def test_an_evaluation_with_intervals_is_not_replaced_by_scores_without():
    plain = {"name": "test.csv", "scores": {"accuracy": 80.0, "loss": 0.4}}
    assert merge_tests([], [plain], TESTS) == [{**TESTS[0], "scores": {**TESTS[0]["scores"]}}]
    assert merge_tests(TESTS, [plain]) == TESTS
    assert [test["name"] for test in merge_tests([plain], [{**plain, "name": "b.csv"}])] == ["test.csv", "b.csv"]


def test_an_audit_is_taken_without_its_examples():
    found = audit_facts(AUDIT)
    assert MARKER not in json.dumps(found)
    assert found["suites"][0]["estimates"] == [ESTIMATE]
    for record in (
        {},
        {"suites": [{}]},
        {"suites": [{**AUDIT["suites"][0], "estimates": [{**ESTIMATE, "low": None}]}]},
    ):
        with pytest.raises(ValueError, match="run the audit again"):
            audit_facts(record)


def test_an_audit_of_another_model_is_not_taken(tmp_path):
    folder = tmp_path / "runs" / "a" / "model"
    folder.mkdir(parents=True)
    record = folder.parent / "audit.json"
    assert find_audit(folder, str(folder)) is None
    for model, same in (
        ("runs/a/model", True), (str(folder), True), ("./runs/a/model", True), ("runs/b/model", False), ("", False),
    ):  # fmt: skip
        record.write_text(json.dumps({**AUDIT, "model": model}))
        assert (find_audit(folder, str(folder)) is not None) == same, model
    with pytest.raises(ValueError, match="is the audit of '', not of"):
        find_audit(folder, str(folder), record)
    with pytest.raises(ValueError, match="there is no file"):
        find_audit(folder, str(folder), tmp_path / "none.json")


def test_energy_is_core_hours_times_power():
    energy = estimate_energy(7200, 2)
    assert energy.core_hours == 4.0
    assert energy.kwh == pytest.approx(4 * 10 * 1.3 / 1000)
    assert (energy.low, energy.high) == pytest.approx((4 * 4 / 1000, 4 * 20 * 1.6 / 1000))


# The card in a folder


def card_of(folder: Path, **changes) -> CardRecord:
    """Write answers and facts for a folder, as the command does."""
    manifest = read_manifest(folder)
    record = CardRecord(
        answers=ANSWERS, measured={"tests": TESTS}, training=training_digest(manifest.metadata),
        files=files_digest(manifest),
    )  # fmt: skip
    record = replace(record, **changes)
    record.write(folder / "card.yaml")
    return record


@pytest.fixture
def saved(tmp_path) -> Path:
    load(valid(tmp_path / "base")).save(tmp_path / "saved")
    return tmp_path / "saved"


def test_a_saved_folder_has_a_draft(saved):
    text = read_card(saved)
    assert text is not None and not is_edited(text)
    assert "> **Draft.** Blank: `license`" in text and fields_of(text)["library_name"] == "clearhead"
    assert not (saved / "card.yaml").exists()
    verify(saved)


def test_answers_and_facts_survive_a_save_of_the_same_model(saved, tmp_path):
    card_of(saved)
    verify(saved)
    load(saved).save(tmp_path / "again")
    text = read_card(tmp_path / "again")
    assert text is not None and "Draft" not in text
    assert "To test cards." in text and "| accuracy | 81.25 | 75.00 to 87.00 |" in text
    kept = read_card_record(tmp_path / "again" / "card.yaml")
    assert kept.answers == ANSWERS and kept.measured == {"tests": TESTS}
    verify(tmp_path / "again")


def test_scores_do_not_survive_a_change_of_the_weights(saved, tmp_path):
    card_of(saved)
    model = load(saved)
    with torch.no_grad():
        next(iter(model.model.parameters())).add_(1)
    model.save(tmp_path / "changed")
    text = read_card(tmp_path / "changed")
    assert text is not None and "To test cards." in text
    assert "81.25" not in text and "records no scores" in text


def test_nothing_survives_another_training(saved, tmp_path):
    card_of(saved)
    load(saved).save(tmp_path / "tuned", metadata={"task": "classify", "recipe": RECIPE, "step": 9})
    text = read_card(tmp_path / "tuned")
    assert text is not None and "To test cards." not in text and "Blank: `license`" in text
    assert not (tmp_path / "tuned" / "card.yaml").exists()


def test_a_new_head_is_another_model(saved, tmp_path):
    card_of(saved)
    load(saved, head="sequence", labels=["a", "b"]).save(tmp_path / "head")
    assert not (tmp_path / "head" / "card.yaml").exists()


def test_facts_that_were_edited_by_hand_do_not_hold(saved):
    path = saved / "card.yaml"
    card_of(saved)
    text = path.read_text()
    path.write_text(text.replace("81.25", "99.99"))
    assert read_card_record(path).measured == {} and read_card_record(path).answers == ANSWERS
    path.write_text(text.replace("To test cards.", "Another use."))
    edited = read_card_record(path)
    assert edited.measured == {"tests": TESTS} and edited.answers["intended_use"] == "Another use."


@pytest.mark.parametrize(
    "content", [b"answers: [", b"\xff", b"answers: 3", b"answers: {license: apache}", b"answers: {x: y}"]
)
def test_a_damaged_record_does_not_stop_a_save(saved, tmp_path, content):
    (saved / "card.yaml").write_bytes(content)
    model = load(saved)
    with pytest.warns(UserWarning, match="answers of the model card are not saved"):
        model.save(tmp_path / "again")
    assert read_card(tmp_path / "again") is not None and not (tmp_path / "again" / "card.yaml").exists()


@pytest.mark.parametrize("content", [b"answers: [", b"\xff", b"answers: 3", b"x" * (1 << 21)])
def test_a_damaged_record_is_named(content):
    with pytest.raises(ValueError, match=r"card\.yaml"):
        parse_card_record(content)


def test_answers_written_by_hand_are_for_their_folder():
    record = parse_card_record(b"answers: {license: mit}\nmeasured: {tests: []}\n")
    assert record.kept("a", "b").answers == {"license": "mit"}
    assert record.kept("a", "b").measured == {}


@given(text=st.text(max_size=200), change=st.text(min_size=1, max_size=5))
def test_an_edit_of_a_card_is_detected(text, change):
    card = sealed(text)
    assert not is_edited(card)
    assert is_edited(change + card) and is_edited(card + change) and is_edited(text)


def test_a_table_keeps_its_cells():
    assert table(("a", "b"), [["x|y\nz", "<b>"]]) == ["| a | b |", "| --- | --- |", "| x\\|y z | &lt;b> |"]


def test_a_card_that_is_no_text_is_no_card(tmp_path):
    assert read_card(tmp_path) is None
    (tmp_path / "README.md").write_bytes(b"\xff\xfe")
    assert read_card(tmp_path) is None
    (tmp_path / "README.md").write_bytes(b"a" * (1 << 21))
    assert read_card(tmp_path) is None
