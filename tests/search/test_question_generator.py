"""Questions written by a model: what it is trained on, what it asks about, and which questions are kept."""

import json
from types import SimpleNamespace
from typing import Any, cast

import pytest
from typer.testing import CliRunner

from clearhead.cli import app
from clearhead.hub.folder import save_folder
from clearhead.pipeline import Pipeline
from clearhead.search import Document, Index, IndexConfig, PassageConfig
from clearhead.search.question_generator import (
    choose_answer,
    generated_questions,
    generator_input,
    generator_rows,
)
from tests.decode.conftest import opened

TEXTS = {
    "a": "The tower was built in 1889 by Gustave Eiffel. It is tall.",
    "b": "Bees make honey. They live in hives of wood.",
    "c": "About 35 percent of the river is in Upper Austria.",
}


@pytest.fixture
def index(tmp_path):
    index = Index.create(str(tmp_path / "index"), IndexConfig(passages=PassageConfig(overlap=0)))
    index.update(Document(name, text) for name, text in TEXTS.items())
    return index


class Parrot:
    """A generator that asks with the words of the sentence."""

    def __init__(self, say=lambda source: source.split(" | ")[1]) -> None:
        self.say, self.read = say, list[str]()

    def translate(self, sources, **options):
        self.read += sources
        return [SimpleNamespace(text=self.say(source)) for source in sources]


def as_pipeline(parrot: Any) -> Pipeline:
    return cast(Pipeline, parrot)


@pytest.mark.parametrize(
    ("sentence", "possible"),
    [
        (TEXTS["a"], {"1889", "Gustave Eiffel"}),
        (TEXTS["b"], set()),
        (TEXTS["c"], {"35 percent", "Upper Austria"}),
        ("he paid 1,250.50 to the Bank of England", {"1,250.50", "Bank of England"}),
        ("élan vital and ölig are no names, Ärzte is", {"Ärzte"}),
        ("", set()),
    ],
)
def test_answers_are_names_and_numbers(sentence, possible):
    found = {choose_answer(f"{sentence}{' ' * n}", "en") for n in range(40)}  # other texts: other choices
    assert {one[0] for one in found if one is not None} == possible
    assert (None in found) == (not possible)


def test_rows_have_the_sentence_of_the_answer(index):
    questions = [
        {"question": "When was it built?", "answers": ["1889"], "context": TEXTS["a"]},
        {"question": "What do bees make?", "answers": ["honey"], "context": None},
        {"question": "Who made bees?", "answers": ["nobody"], "context": None},
        {"question": "Why?", "answers": [], "context": TEXTS["a"]},
    ]
    assert list(generator_rows(index, questions, 5)) == [
        {"source": "1889 | The tower was built in 1889 by Gustave Eiffel.", "target": "When was it built?"},
        {"source": "honey | Bees make honey.", "target": "What do bees make?"},
    ]


def test_questions_that_do_not_find_their_passage_are_dropped(index):
    parrot = Parrot()
    rows = list(generated_questions(index, as_pipeline(parrot)))
    assert {row["context"] for row in rows} == {TEXTS["a"], TEXTS["c"]}
    for row in rows:
        assert row["answers"][0] in row["context"]
        assert generator_input(row["answers"][0], row["question"]) in parrot.read
    assert list(generated_questions(index, as_pipeline(Parrot(lambda source: "unheard words")))) == []
    assert list(generated_questions(index, as_pipeline(Parrot(lambda source: " ")))) == []


def test_commands(index, tmp_path):
    table, out, folder = tmp_path / "asked.csv", tmp_path / "rows.jsonl", tmp_path / "generator"
    table.write_text("question,answer\nWhat do bees make?,honey\n")
    address = str(tmp_path / "index")
    run = CliRunner().invoke(app, ["mine", address, str(table), "--for-generator", "--out", str(out)])
    assert run.exit_code == 0, run.output
    assert json.loads(out.read_text()) == {"source": "honey | Bees make honey.", "target": "What do bees make?"}
    corpus = tmp_path / "corpus.txt"
    corpus.write_text("\n".join([*TEXTS.values(), "1889 | 35 percent | Upper Austria | Gustave Eiffel"] * 20))
    save_folder(opened(corpus, "marian"), folder)
    run = CliRunner().invoke(app, ["mine", address, "--generator", str(folder), "--out", str(out), "--depth", "5"])
    assert run.exit_code == 0, run.output
    assert all(set(json.loads(line)) >= {"question", "context", "answer"} for line in out.read_text().splitlines())
    for wrong in (
        ["mine", str(folder), str(table), "--for-generator"],
        ["mine", address, str(table), "--generator", str(folder)],
    ):
        refused = CliRunner().invoke(app, [*wrong, "--out", str(out)])
        assert refused.exit_code == 2
        assert "--generator" in refused.output
