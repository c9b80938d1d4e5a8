"""From a table to answers, as a new user would go: new, check, train, eval, error-analysis, predict, and errors."""

from __future__ import annotations

import csv
import json

import pytest
from typer.testing import CliRunner

from clearhead.cli import app
from tests.train.test_tuning import folder, trained  # noqa: F401
from tests.warm_command import run_command

run = CliRunner()


def said(*words, code=0, **options):
    result = run.invoke(app, [str(word) for word in words], **options)
    assert result.exit_code == code, result.output + result.stderr
    return result


@pytest.mark.parametrize(
    ("task", "file", "part"),
    [
        ("classify", "one.tsv", "{file: one.tsv, text: text, label: label}"),
        ("classify", "several.jsonl", "{file: several.jsonl, text: text, labels: labels}"),
        ("classify", "number.csv", "{file: number.csv, text: text, number: number}"),
        ("pair", "pair.tsv", "{file: pair.tsv, text: text, second: second, label: label}"),
        ("tag", "tags.conll", "{file: tags.conll, words: '1', tags: '2'}"),
        ("qa", "read.jsonl", "{file: read.jsonl, question: question, context: context, answer: answer}"),
    ],
)
def test_new_finds_the_columns_and_check_reads_the_rows(folder, tmp_path, monkeypatch, task, file, part):  # noqa: F811
    monkeypatch.chdir(tmp_path)
    (tmp_path / file).write_bytes((folder / file).read_bytes())
    said("new", task, "--data", file, "--base-model", folder / "start")
    assert part in (tmp_path / "recipe.yaml").read_text()
    told = json.loads(said("check", "recipe.yaml", "--no-time", "--json", "--set", "data.max_len=32").stdout)
    assert sum(p["rows"] for p in told["parts"]) == 120
    assert (
        said("check", "recipe.yaml", "--set", "data.max_len=32", "--set", "train.epochs=1").stdout.count("steps") == 1
    )
    assert not (tmp_path / "runs").exists(), "checking leaves nothing behind"


def test_check_names_what_is_wrong_with_the_rows_and_shows_no_text(folder, tmp_path):  # noqa: F811
    rows = [
        "text\tlabel",
        "the dog\ta",
        "The  dog\ta",
        "the dog\tb",
        "a secret\tb",
        "\ta",
        "one\ttwo\tthree",
        *["x y\tb", "z w\ta"] * 6,
    ]
    (tmp_path / "t.tsv").write_text("\n".join(rows) + "\n")
    (tmp_path / "test.tsv").write_text("text\tlabel\na secret\tb\n")
    recipe = f"""
task: classify
data:
  train: {{file: t.tsv, text: text, label: label}}
  test: {{file: test.tsv, text: text, label: label}}
  validation_rows: 2
model: {{base_model: {folder / "start"}}}
train: {{epochs: 1}}
"""
    (tmp_path / "r.yaml").write_text(recipe)
    out = said("check", tmp_path / "r.yaml", "--no-time").stdout
    assert "secret" not in out and "dog" not in out
    assert "train: same text with different labels: 1" in out or "valid: same text with different labels: 1" in out
    assert "unreadable rows, skipped: 2" in out and "t.tsv line 6" in out
    assert "rows of test that are also in" in out
    assert "duplicate rows" in out


def test_eval_tells_how_sure_it_is_and_draws(trained, folder, tmp_path):  # noqa: F811
    model = trained("one")[0].folder / "model"
    told = json.loads(said("eval", model, folder / "one.tsv", "--json").stdout)
    low, high = told["intervals"]["accuracy"]
    assert told["rows"] == 120 and low <= told["accuracy"] <= high
    assert {label["name"] for label in told["labels"]} == {"animal", "thing"}
    assert sum(label["count"] for label in told["labels"]) == 120
    said("eval", model, folder / "one.tsv", "--plot", tmp_path / "plots")
    assert {path.name for path in (tmp_path / "plots").iterdir()} == {
        f"{name}.{kind}" for name in ("confusion", "labels", "calibration") for kind in ("svg", "png")
    }


@pytest.mark.parametrize(("kind", "file"), [("several", "several.jsonl"), ("number", "number.csv"), ("pair", "pair.tsv"),
                                            ("tag", "tags.conll"), ("qa", "read.jsonl")])  # fmt: skip
def test_every_task_is_measured_answered_and_its_mistakes_listed(trained, folder, kind, file):  # noqa: F811
    model = trained(kind)[0].folder / "model"
    assert json.loads(said("eval", model, folder / file, "--json").stdout)["rows"] == 120
    lines = said("predict", model, folder / file, "--json").stdout.splitlines()
    assert len(lines) == 120 and all(json.loads(line) for line in lines)
    header, *lines = said("predict", model, folder / file).stdout.splitlines()
    assert len(lines) == 120 and {len(line.split("\t")) for line in lines} == {len(header.split("\t"))}
    for line in said("error-analysis", model, folder / file, "-n", "3", "--json").stdout.splitlines():
        mistake = json.loads(line)
        assert mistake["expected"] != mistake["predicted"] and mistake["attended"] and mistake["line"] > 0


@pytest.mark.parametrize("out", ["answers.csv", "answers.tsv"])
def test_predictions_join_the_table_by_row_and_id(trained, tmp_path, out):  # noqa: F811
    """Three rows cannot be read: a wrong number of columns, an empty text, bytes that are not UTF-8."""
    lines = [
        b"key,text",
        b"a7,the old dog",
        b"b1,one,red,car",
        b"c9,",
        b"d4,one red car sees",
        b"\xff\xfe,x",
        b",the dog",
    ]
    (tmp_path / "rows.csv").write_bytes(b"\n".join(lines) + b"\n")
    model = trained("one")[0].folder / "model"
    done = said("predict", model, tmp_path / "rows.csv", "--id", "key", "--out", tmp_path / out)
    assert "3 rows were not predicted" in done.stderr
    with (tmp_path / out).open(newline="") as file:
        rows = list(csv.DictReader(file, delimiter="," if out.endswith("csv") else "\t"))
    assert [row["row"] for row in rows] == ["1", "2", "3", "4", "5", "6"]
    assert [row["key"] for row in rows] == ["a7", "", "c9", "d4", "", ""]  # a broken row has no columns
    assert [row["label"] for row in rows] == ["animal", "", "", "thing", "", "animal"]
    assert "line 3: has 4 columns" in rows[1]["error"] and "'text' is empty" in rows[2]["error"]
    assert "UTF-8" in rows[4]["error"] and not any(rows[i]["error"] for i in (0, 3, 5))
    by_id = {row["key"]: row["label"] for row in rows if row["label"]}
    assert by_id["a7"] == "animal" and by_id["d4"] == "thing"
    found = [json.loads(line) for line in said("predict", model, tmp_path / "rows.csv", "--json").stdout.splitlines()]
    assert [row["row"] for row in found] == [1, 2, 3, 4, 5, 6] and "id" not in found[0]
    assert [row.get("answer") for row in found] == ["animal", None, None, "thing", None, "animal"]
    assert [row.get("line") for row in found] == [None, 3, 4, None, 6, None]


def test_an_id_column_is_found(trained, tmp_path):  # noqa: F811
    (tmp_path / "rows.jsonl").write_text('{"id": 12, "text": "the old dog"}\n{"id": 13, "text": "one red car"}\n')
    model = trained("one")[0].folder / "model"
    found = [json.loads(line) for line in said("predict", model, tmp_path / "rows.jsonl", "--json").stdout.splitlines()]
    assert [(row["id"], row["answer"]) for row in found] == [("12", "animal"), ("13", "thing")]


def test_eval_warns_about_the_training_file(trained, folder, tmp_path):  # noqa: F811
    model = trained("one")[0].folder / "model"
    assert "was trained on" in said("eval", model, folder / "one.tsv").stderr
    other = (folder / "one.tsv").read_text().splitlines()[:50]
    (tmp_path / "other.tsv").write_text("\n".join(other) + "\n")
    assert "trained on" not in said("eval", model, tmp_path / "other.tsv").stderr


def test_lines_of_text_and_a_question_about_a_whole_file(trained, tmp_path):  # noqa: F811
    done = run_command("predict", trained("one")[0].folder / "model", text="the old dog\none red car sees\n")
    assert done.stdout.split()[::2] == ["animal", "thing"], done.stderr
    (tmp_path / "long.txt").write_text("the old red cow sees one\n")
    found = said("predict", trained("qa")[0].folder / "model", tmp_path / "long.txt", "--question", "which one ?")
    assert found.stdout.split("\t")[:3] == ["cow", "12", "15"]


def test_mistakes_as_a_page(trained, folder, tmp_path):  # noqa: F811
    wrong = tmp_path / "wrong.tsv"
    wrong.write_text("text\tlabel\nthe old dog\tthing\nthe small car\tanimal\nthe cat\tanimal\n")
    model = trained("one")[0].folder / "model"
    out = said("error-analysis", model, wrong, "--out", tmp_path / "page.html").stdout
    assert "wrong.tsv:2" in out and "wrong.tsv:3" in out and "wrong.tsv:4" not in out
    assert "<!doctype html>" in (tmp_path / "page.html").read_text().lower()


@pytest.mark.parametrize(
    ("words", "fault"),
    [
        (["eval", "MODEL", "nothing.tsv"], "nothing.tsv"),
        (["eval", "MODEL", "other.csv"], "has no column 'text' for the field 'text'"),
        (["predict", "MODEL", "other.csv", "--column", "text"], "write it as --column text=NAME"),
        (["predict", "START", "other.csv"], "does not classify, tag or answer questions, nor write captions"),
        (["new", "classify", "--data", "empty.csv"], "empty.csv"),
        (["check", "words.yaml"], "no labels to check"),
    ],
)
def test_what_cannot_be_is_told_in_a_line(trained, folder, tmp_path, monkeypatch, words, fault):  # noqa: F811
    monkeypatch.chdir(tmp_path)
    (tmp_path / "other.csv").write_text("a,b\n1,2\n")
    (tmp_path / "empty.csv").write_text("")
    (tmp_path / "words.yaml").write_text("task: language_model\ndata: {train: {text: a.txt}}\ntrain: {steps: 1}\n")
    places = {"MODEL": trained("one")[0].folder / "model", "START": folder / "start"}
    result = said(*(places.get(word, word) for word in words), code=2)
    assert fault in result.stderr and "Traceback" not in result.stderr


def test_several_seeds_and_their_spread(folder, tmp_path):  # noqa: F811
    from clearhead.train.recipe import write_recipe
    from tests.train.test_tuning import recipe

    write_recipe(recipe("one", epochs=1, model={"base_model": str(folder / "start")}), tmp_path / "r.yaml")
    text = (tmp_path / "r.yaml").read_text().replace("file: one.tsv", f"file: {folder / 'one.tsv'}")
    (tmp_path / "r.yaml").write_text(text)
    told = json.loads(said("train", tmp_path / "r.yaml", "--seeds", "2", "--json").stdout)
    best = [run_["best accuracy"] for run_ in told["runs"]]
    assert [run_["seed"] for run_ in told["runs"]] == [1, 2]
    assert told["spread"]["best accuracy"] == pytest.approx([sum(best) / 2, abs(best[0] - best[1]) / 2**0.5])
    assert (tmp_path / "runs" / "r-seed-2" / "model").is_dir()


def test_marked_text_is_drafted_measured_and_answered(trained, folder, tmp_path, monkeypatch):  # noqa: F811
    """A doccano export all the way: names are judged by F1, and the text is all that an answer needs."""
    monkeypatch.chdir(tmp_path)
    words = [line.split("\t")[0] for line in (folder / "one.tsv").read_text().splitlines()[1:]]
    spans = [[[t.index(a), t.index(a) + 3, "ANIMAL"] for a in ("dog", "cat", "cow", "pig") if a in t] for t in words]
    lines = [json.dumps({"text": t, "label": s}) for t, s in zip(words, spans, strict=True)]
    lines[5] = json.dumps({"text": words[5], "label": [[0, 999, "ANIMAL"]]})
    (tmp_path / "marked.jsonl").write_text("\n".join(lines) + "\n")
    assert (
        "clearhead check recipe.yaml"
        in said("new", "tag", "--data", "marked.jsonl", "--base-model", folder / "start").stdout
    )
    assert "metric: f1" in (tmp_path / "recipe.yaml").read_text()
    model = trained("tag")[0].folder / "model"
    told = json.loads(said("eval", model, "marked.jsonl", "--json").stdout)
    assert told["rows"] == 119 and told["f1"] > 90
    assert len(said("predict", model, "marked.jsonl").stdout.splitlines()) == 121


def test_check_asks_whether_a_rare_label_is_a_slip(folder, tmp_path):  # noqa: F811
    lines = (folder / "one.tsv").read_text().replace("\tanimal\n", "\tanimla\n", 1)
    (tmp_path / "t.tsv").write_text(lines)
    made = "task: classify\ndata: {train: {file: t.tsv, text: text, label: label}, validation_rows: 9}\n"
    (tmp_path / "r.yaml").write_text(f"{made}model: {{base_model: {folder / 'start'}}}\ntrain: {{epochs: 1}}\n")
    out = said("check", tmp_path / "r.yaml", "--no-time").stdout
    assert "'animla': did you mean 'animal'? data.rename: {animla: animal} fixes it" in " ".join(out.split())
