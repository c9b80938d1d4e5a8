import json
import sys
from functools import partial

import pytest
import torch
import typer
from typer.testing import CliRunner

from clearhead.cli.demo import demo
from clearhead.cli.study import study
from clearhead.studies import demo as dates

app = typer.Typer(pretty_exceptions_enable=False)
for command in (demo, study):
    app.command()(command)

run = CliRunner().invoke


@pytest.fixture(autouse=True)
def small(monkeypatch):
    torch.set_num_threads(1)  # so little work is not worth sharing
    monkeypatch.setattr(dates, "measure", partial(dates.measure, examples=200, tested=5))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("demo")


def test_the_demo_shows_a_table_alignments_and_pictures(folder):
    result = run(app, ["demo", "dates", "--out", str(folder), "--seconds", "1"])
    assert result.exit_code == 0, result.output
    for words in ("parameters", "GRU, no attention", "GRU, additive attention", "Transformer", "(expected)", "</s>"):
        assert words in result.stdout
    assert "Transformer: 5/5" in result.stderr
    made = {path.name for path in folder.iterdir() if path.is_file()}
    assert made == {
        "train.tsv", "valid.tsv", "dates.json", "accuracy.svg", "accuracy.png", "alignments.svg", "alignments.png",
    }  # fmt: skip


def test_the_demo_as_json_without_matplotlib(folder, monkeypatch):
    for name in ("accuracy.svg", "alignments.svg"):
        (folder / name).unlink(missing_ok=True)
    monkeypatch.setattr("clearhead.viz.style.can_draw", lambda: False)
    result = run(app, ["demo", "dates", "--out", str(folder), "--seconds", "1", "--json"])
    assert result.exit_code == 0, result.output
    told = json.loads(result.stdout)
    assert told == json.loads((folder / "dates.json").read_text())
    assert told["seed"] == 1 and len(told["measured"]["learners"]) == 3
    assert not (folder / "accuracy.svg").exists()
    result = run(app, ["demo", "dates", "--out", str(folder), "--seconds", "1"])
    assert "clearhead[see]" in result.stdout and "GRU, no attention" in result.stdout


def test_a_folder_of_another_seed_is_refused_in_one_line(folder):
    result = run(app, ["demo", "dates", "--out", str(folder), "--seconds", "1", "--seed", "2"])
    assert result.exit_code == 2
    assert "holds pairs of another seed" in result.stderr.splitlines()[-1]


def test_an_unknown_demo():
    result = run(app, ["demo", "date"])
    assert result.exit_code == 2 and "did you mean 'dates'?" in result.stderr


def test_what_was_typed_is_kept(folder, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["x", "demo", "dates", "--out", "my folder"])
    from clearhead.cli.demo import command_line

    assert command_line() == "clearhead demo dates --out 'my folder'"
