"""The model registry: the default model of a task, and the names of models."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest

from clearhead.serve.errors import ApiError
from clearhead.serve.model_registry import ModelRegistry, ServedModel, named_models


@pytest.fixture
def registry(monkeypatch) -> ModelRegistry:
    able = {"sst2": ("classify", "embed"), "gpt": ("generate", "chat", "embed"), "talk": ("chat", "generate", "embed"),
            "minilm": ("embed",)}  # fmt: skip
    monkeypatch.setattr(
        ModelRegistry, "_load", lambda _, name, source: ServedModel(name, source, cast(Any, None), able[name])
    )
    return ModelRegistry(dict.fromkeys(able, ""))


@pytest.mark.parametrize(
    ("task", "name"),
    [("classify", "sst2"), ("embed", "minilm"), ("generate", "gpt"), ("chat", "talk"), ("attention", "sst2")],
)
def test_the_model_trained_for_a_task_is_its_default(registry, task, name):
    assert registry.find(None, task).name == name


def test_any_model_that_supports_a_task_is_used_if_none_was_trained_for_it(monkeypatch):
    monkeypatch.setattr(
        ModelRegistry, "_load", lambda _, name, source: ServedModel(name, source, cast(Any, None), ("tag", "embed"))
    )
    registry = ModelRegistry({"first": "", "second": ""})
    assert registry.find(None, "embed").name == "first"
    with pytest.raises(ApiError, match=r"no served model supports 'chat'; served models: first \(tag, embed\), second"):
        registry.find(None, "chat")


def test_a_model_is_named_after_its_folder_its_run_or_its_package(tmp_path: Path, monkeypatch):
    (tmp_path / "runs" / "sst2" / "model").mkdir(parents=True)
    (tmp_path / "gpt").mkdir()
    monkeypatch.chdir(tmp_path)
    given = ["gpt", "runs/sst2/model", "package:some_model", "mine=gpt", "owner/name"]
    assert named_models(given) == {"gpt": "gpt", "sst2": "runs/sst2/model", "some_model": "package:some_model", "mine": "gpt",
                            "owner/name": "owner/name"}  # fmt: skip
    with pytest.raises(ValueError, match="two models are named 'gpt'"):
        named_models(["gpt", "gpt=elsewhere"])
    with pytest.raises(ValueError, match="FOLDER or NAME=FOLDER"):
        named_models(["=gpt"])
