"""`clearhead new`: a recipe that `clearhead train` takes, and one line where there can be none."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from clearhead.cli import app
from clearhead.train import read_recipe
from tests.train.tiny import texts


@pytest.fixture
def here(tmp_path, monkeypatch):
    texts(tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*args: object):
    return CliRunner().invoke(app, ["new", *map(str, args)])


def test_a_recipe_is_written(here):
    for data in (["--data", "a.x", "a.y"], ["--data", "a.x", "--data", "a.y"]):
        (here / "recipe.yaml").unlink(missing_ok=True)
        done = run("translate", *data)
        assert (done.exit_code, done.stderr) == (0, "")
        assert done.stdout == "recipe.yaml written; read it, then run: clearhead train recipe.yaml\n"
        assert read_recipe("recipe.yaml").data.train == {"source": "a.x", "target": "a.y"}


def test_in_another_place(here):
    (here / "recipes").mkdir()
    assert run("language_model", "--data", "a.x", "--out", "recipes/lm.yaml").exit_code == 0
    assert read_recipe("recipes/lm.yaml").data.train == {"text": "../a.x"}


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (["translat", "--data", "a.x", "a.y"], "task 'translat': there is no such name"),
        (["translate", "--data", "a.x", "no.y"], "there is no file no.y"),
        (["translate", "--data", "a.x", "a.y", "--out", "a.x"], "a.x exists already: choose another name with --out"),
        (["translate", "--data", "a.x", "a.y", "--out", "no/r.yaml"], "no/r.yaml"),
    ],
)
def test_what_cannot_be_is_one_line(here, args, says):
    done = run(*args)
    assert done.exit_code == 2
    assert done.stderr.startswith("clearhead: ") and says in done.stderr
    assert done.stderr.count("\n") == 1 and done.stdout == ""
