"""The shelf: who answers where nobody is named, and what models are called."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest

from clearhead.serve.faults import Fault
from clearhead.serve.shelf import Shelf, Shelved, named


@pytest.fixture
def shelf(monkeypatch) -> Shelf:
    able = {"sst2": ("classify", "embed"), "gpt": ("generate", "chat", "embed"), "talk": ("chat", "generate", "embed"),
            "minilm": ("embed",)}  # fmt: skip
    monkeypatch.setattr(Shelf, "_load", lambda _, name, source: Shelved(name, source, cast(Any, None), able[name]))
    return Shelf(dict.fromkeys(able, ""))


@pytest.mark.parametrize(
    ("task", "who"),
    [("classify", "sst2"), ("embed", "minilm"), ("generate", "gpt"), ("chat", "talk"), ("attention", "sst2")],
)
def test_who_was_made_for_it_answers(shelf, task, who):
    assert shelf.of(None, task).name == who


def test_who_can_answers_where_nobody_was_made_for_it(monkeypatch):
    monkeypatch.setattr(
        Shelf, "_load", lambda _, name, source: Shelved(name, source, cast(Any, None), ("tag", "embed"))
    )
    shelf = Shelf({"first": "", "second": ""})
    assert shelf.of(None, "embed").name == "first"
    with pytest.raises(Fault, match=r"no model here can chat; there are: first \(tag, embed\), second"):
        shelf.of(None, "chat")


def test_a_model_is_called_by_its_folder_its_run_or_its_package(tmp_path: Path, monkeypatch):
    (tmp_path / "runs" / "sst2" / "model").mkdir(parents=True)
    (tmp_path / "gpt").mkdir()
    monkeypatch.chdir(tmp_path)
    given = ["gpt", "runs/sst2/model", "package:some_model", "mine=gpt", "owner/name"]
    assert named(given) == {"gpt": "gpt", "sst2": "runs/sst2/model", "some_model": "package:some_model", "mine": "gpt",
                            "owner/name": "owner/name"}  # fmt: skip
    with pytest.raises(ValueError, match="two models are called gpt"):
        named(["gpt", "gpt=elsewhere"])
    with pytest.raises(ValueError, match="FOLDER or NAME=FOLDER"):
        named(["=gpt"])
