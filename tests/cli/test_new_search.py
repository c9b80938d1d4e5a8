"""`clearhead new search`: a folder that leads from documents to a trained search."""

import json

import pytest
from typer.testing import CliRunner

from clearhead.cli import app
from clearhead.cli.new_search import split_questions
from clearhead.cli.task_rows import question_rows, question_values
from clearhead.train import read_recipe
from tests.tasks.test_answer import ROOMS, THINGS


@pytest.fixture
def here(tmp_path, monkeypatch):
    docs = tmp_path / "docs"
    docs.mkdir()
    for i, thing in enumerate(THINGS):
        (docs / f"{thing}.md").write_text(
            f"# The {thing}\n\nIt is old. The {thing} is in room {ROOMS[i]}. Come at noon."
        )
    rows = [
        {"question": f"In which room is the {thing}, number {n}?", "answer": f"room {ROOMS[i]}"}
        for i, thing in enumerate(THINGS)
        for n in range(10)
    ]
    (tmp_path / "asked.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*args: object):
    return CliRunner().invoke(app, ["new", "search", *map(str, args)])


def lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_with_questions_there_are_two_recipes(here):
    done = run("--docs", "docs", "--questions", "asked.jsonl")
    assert done.exit_code == 0, done.output
    out = here / "search"
    retriever, reader = read_recipe(out / "retriever.yaml"), read_recipe(out / "reader.yaml")
    assert (retriever.task, reader.task) == ("embed", "answer")
    asked = {row["question"] for name in ("calibration", "test") for row in lines(out / f"{name}.jsonl")}
    mined = lines(out / "passages.jsonl")
    for name in ("calibration", "test"):
        read = question_rows(out / f"{name}.jsonl", {})
        assert [question_values(row.values)["answers"] for row in read] == [
            row["answers"] for row in lines(out / f"{name}.jsonl")
        ]
    assert asked and mined and not asked & {row["question"] for row in mined}, "held-out questions are not trained on"
    assert len(asked) + len({row["question"] for row in mined}) == 80
    for pair in lines(out / "pairs.jsonl"):
        thing = next(thing for thing in THINGS if thing in pair["anchor"])
        assert f"The {thing} is in room" in pair["positive"]
    text = (out / "README.md").read_text()
    for command in ("train search/retriever.yaml", "train search/reader.yaml", "--reader search/runs/reader/model",
                    "calibrate search/index", "eval search/index", "serve search/index"):  # fmt: skip
        assert f"clearhead {command}" in text or command in text
    assert CliRunner().invoke(app, ["check", "search/reader.yaml"]).exit_code == 0


def test_without_questions_the_retriever_learns_from_the_documents(here):
    assert run("--docs", "docs", "--out", "mine").exit_code == 0
    assert {path.name for path in (here / "mine").iterdir()} == {"words", "pairs.jsonl", "retriever.yaml", "README.md"}
    pairs = lines(here / "mine" / "pairs.jsonl")
    assert len(pairs) == len(THINGS)
    assert all(pair["anchor"] in ("It is old.", "Come at noon.") or "is in room" in pair["anchor"] for pair in pairs)
    assert "calibrate" not in (here / "mine" / "README.md").read_text()


@pytest.mark.parametrize(
    ("args", "says"),
    [
        ([], "new search needs documents"),
        (["--docs", "nowhere"], "nowhere"),
        (["--docs", "docs", "--out", "docs"], "docs exists already"),
        (["--docs", "asked.jsonl"], "no text"),
    ],
)
def test_what_cannot_be_is_one_line(here, args, says):
    done = run(*args)
    assert done.exit_code == 2 and says in done.stderr, done.output


def test_questions_about_one_context_stay_together():
    rows = [{"question": f"{q}?", "context": f"context {c}"} for c in range(200) for q in range(3)]
    parts = split_questions(rows)
    contexts = {name: {row["context"] for row in part} for name, part in parts.items()}
    assert sum(len(part) for part in parts.values()) == 600
    assert not contexts["train"] & contexts["test"] and not contexts["train"] & contexts["calibration"]
    assert 0.7 < len(parts["train"]) / 600 < 0.9 and parts["calibration"] and parts["test"]
    assert split_questions(reversed(rows)).keys() == parts.keys()
