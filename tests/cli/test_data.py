from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest
import typer
from rich.console import Console
from typer.testing import CliRunner

from clearhead.cli import data as command
from clearhead.data import DATASETS, Dataset, RemoteFile, datasets

CONTENT = b"a\tb\n"


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch) -> Path:
    monkeypatch.setenv("CLEARHEAD_DATA", str(tmp_path / "home"))
    file = RemoteFile("a.tsv", hashlib.sha256(CONTENT).hexdigest(), len(CONTENT), "https://example.org/a.tsv")
    toy = Dataset(
        name="toy", title="a toy", examples=1, source="owner/toy at 0", license="MIT", about="[note] No.", files=(file,)
    )
    monkeypatch.setitem(DATASETS, "toy", toy)
    return tmp_path / "home"


def run(*words: object):
    app = typer.Typer()
    app.command()(command.data)
    return CliRunner().invoke(app, [str(w) for w in words], env={"COLUMNS": "100"})


def test_all_are_listed():
    listed = run().stdout
    assert all(name in listed for name in DATASETS)
    found = {one["name"]: one for one in json.loads(run("--json").stdout)}
    assert found.keys() == DATASETS.keys() and not any(one["available"] for one in found.values())
    assert found["multi30k"]["fetchable"] and not found["glue"]["fetchable"]
    assert found["multi30k"]["bytes"] == sum(file["bytes"] for file in found["multi30k"]["files"])


@pytest.mark.parametrize("width", [80, 120])
def test_the_table_fits(width):
    console = Console(width=width, record=True, file=open("/dev/null", "w"), highlight=False)  # noqa: SIM115
    with console.file:
        command.show_all(console, [command.describe(one) for one in DATASETS.values()])
    lines = console.export_text().split("\n")
    assert len(lines) == len(DATASETS) + 4  # a line each, the header, the foot and the air between
    assert max(map(len, lines[: len(DATASETS) + 1])) <= width


def test_one_is_shown_and_taken(home, tmp_path):
    shown = run("toy")
    assert shown.exit_code == 0
    for words in (
        "a toy",
        "MIT",
        "owner/toy at 0",
        "[note] No.",
        "clearhead data toy --fetch, or --from FOLDER",
        "a.tsv",
    ):
        assert words in " ".join(shown.stdout.split()), words
    (tmp_path / "a.tsv").write_bytes(CONTENT)
    taken = run("toy", "--from", tmp_path)
    assert taken.exit_code == 0 and "yes, in" in taken.stdout
    assert (home / "toy" / "a.tsv").read_bytes() == CONTENT
    found = json.loads(run("toy", "--json").stdout)
    assert found["available"] and found["files"][0]["available"] and found["folder"] == str(home / "toy")


def test_fetching_goes_through_the_one_opener(monkeypatch, home):
    asked = []

    def fetch(name, on_progress):
        asked.append(name)
        on_progress(4)

    monkeypatch.setattr(datasets, "fetch", fetch)
    assert run("toy", "--fetch").exit_code == 0 and asked == ["toy"]


def test_mistakes_are_one_line(tmp_path):
    for words, says in (
        (("tooy",), "there is no data set 'tooy'"),
        (("toy", "--from", tmp_path), "does not hold toy: a.tsv is missing"),
        (("toy", "--from", tmp_path, "--fetch"), "give only one of them"),
        (("--fetch",), "no data set is named"),
        (("glue", "--fetch"), "import a copy: clearhead data glue --from FOLDER"),
    ):
        done = run(*words)
        assert done.exit_code == 2 and done.stderr.startswith("clearhead: ") and says in done.stderr
        assert done.stderr.count("\n") == 1 and done.stdout == ""


def test_brackets_are_text():
    shown = run("winobias")
    assert "[entity] and [pronoun]" in " ".join(shown.stdout.split())
