"""`clearhead course`: copies of the notebooks, and what is missing."""

import ast
import json
import re
import sys

import pytest
from typer.testing import CliRunner

from clearhead.cli import app, course
from clearhead.data.catalog import DATASETS

run = CliRunner().invoke


@pytest.fixture
def complete(monkeypatch):
    """A machine where nothing is missing."""
    monkeypatch.setattr(course, "PACKAGES", {})
    monkeypatch.setattr(course, "DATASETS", ())


def test_the_notebooks_are_copied(complete, tmp_path):
    result = run(app, ["course", str(tmp_path / "new" / "course")])
    assert result.exit_code == 0, result.output
    copies = sorted((tmp_path / "new" / "course").iterdir())
    assert [path.read_bytes() for path in copies] == [path.read_bytes() for path in course.notebooks()]
    assert [path.name[0] for path in copies] == ["1", "2", "3"]
    assert "everything is here" in result.output


def test_a_notebook_with_work_in_it_is_kept(complete, tmp_path):
    run(app, ["course", str(tmp_path)])
    mine = next(tmp_path.glob("2-*"))
    original = mine.read_bytes()
    mine.write_text("my answers")
    result = run(app, ["course", str(tmp_path)])
    assert result.exit_code == 2
    assert mine.name in result.stderr and "--overwrite" in result.stderr
    assert mine.read_text() == "my answers"
    assert run(app, ["course", str(tmp_path), "--overwrite"]).exit_code == 0
    assert mine.read_bytes() == original


def test_copying_twice_changes_nothing(complete, tmp_path):
    assert [run(app, ["course", str(tmp_path)]).exit_code for _ in range(2)] == [0, 0]


def test_what_is_missing_is_named_with_its_command(tmp_path, monkeypatch):
    monkeypatch.setenv("CLEARHEAD_DATA", str(tmp_path / "no-data"))
    monkeypatch.setattr(course, "PACKAGES", {"json": "never shown", "no_such_package": "pip install it"})
    result = run(app, ["course", str(tmp_path / "course"), "--json"])
    assert result.exit_code == 1
    answer = json.loads(result.stdout)
    assert answer["missing"] == {
        "no_such_package": "pip install it",
        **{name: f"clearhead data {name} --fetch" for name in course.DATASETS},
    }
    assert len(answer["notebooks"]) == 3
    assert "clearhead data multi30k --fetch" in run(app, ["course", str(tmp_path / "course")]).output


def test_an_installation_without_notebooks_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(course, "__file__", str(tmp_path / "a" / "b" / "c" / "course.py"))
    result = run(app, ["course", str(tmp_path / "course")])
    assert result.exit_code == 2 and "no course notebooks" in result.stderr


def code_of(path) -> str:
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    return "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "code")


def test_the_check_knows_every_package_and_data_set_of_the_notebooks():
    base = {"clearhead", "torch", "numpy"}
    for path in course.notebooks():
        code = code_of(path)
        used = {name for name in DATASETS if re.search(rf"['\"]{name}:", code)}
        assert used and used <= set(course.DATASETS), path.name
        nodes = list(ast.walk(ast.parse(code.replace("%matplotlib inline", ""))))
        modules = {alias.name for n in nodes if isinstance(n, ast.Import) for alias in n.names}
        modules |= {str(n.module) for n in nodes if isinstance(n, ast.ImportFrom)}
        outside = {name.partition(".")[0] for name in modules} - set(sys.stdlib_module_names) - base
        assert outside <= set(course.PACKAGES), path.name


def test_the_data_sets_can_be_downloaded():
    for name in course.DATASETS:
        assert all(file.url is not None for file in DATASETS[name].files), name
