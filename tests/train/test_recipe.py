"""Recipes: read, changed, written; every error is one line with a suggestion."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from clearhead.train.recipe import OptimizerConfig, make_recipe, read_recipe, to_plain, write_recipe
from tests.train.tiny import values


def changed(path: str, value: Any) -> dict[str, Any]:
    made = copy.deepcopy(values())
    *above, last = path.split(".")
    inside = made
    for name in above:
        inside = inside.setdefault(name, {})
    inside[last] = value
    return made


def test_what_is_left_out_has_its_default(tmp_path):
    least = {"task": "language_model", "data": {"train": {"text": "a.txt"}}, "train": {"steps": 5}}
    made = make_recipe(least)
    assert (made.seed, made.model, made.tokenizer.vocab_size) == (1, {}, 8000)
    assert made.train.optimizer == OptimizerConfig()
    assert made.train.schedule.kind == "noam"
    assert made.data.valid is None


def test_a_recipe_is_written_and_read_as_it_was(tmp_path):
    made = make_recipe(values(optimizer={"betas": [0.8, 0.9], "lr": "1e-3"}, patience=3))
    write_recipe(made, tmp_path / "r.yaml")
    assert read_recipe(tmp_path / "r.yaml") == made
    assert made.train.optimizer.betas == (0.8, 0.9) and made.train.optimizer.lr == 1e-3
    assert make_recipe(to_plain(made)) == made
    yaml.safe_dump(to_plain(made))  # nothing in it but plain values


@settings(max_examples=30)  # each is written and synced
@given(
    steps=st.integers(1, 10**7),
    lr=st.floats(0, 10),
    clip=st.none() | st.floats(1e-6, 100),
    text=st.text(st.characters(codec="utf-8", exclude_categories=["C", "Zl", "Zp"]), min_size=1),
)
def test_any_recipe_goes_to_yaml_and_back(tmp_path_factory, steps, lr, clip, text):
    path = tmp_path_factory.mktemp("yaml") / "r.yaml"
    made = make_recipe(
        {**values(steps=steps, optimizer={"lr": lr, "clip": clip}), "data": {"train": {"source": text, "target": text}}}
    )
    write_recipe(made, path)
    assert read_recipe(path) == made


def test_changes_from_the_command_line(tmp_path):
    path = tmp_path / "r.yaml"
    path.write_text(yaml.safe_dump(values()))
    made = read_recipe(
        path, ["train.steps=7", "model.dropout=0.5", "train.optimizer.clip=null", "data.valid={source: a, target: b}", "train.optimizer.lr=1e-4"]
    )  # fmt: skip
    assert (made.train.steps, made.model["dropout"], made.train.optimizer.clip) == (7, 0.5, None)
    assert made.data.valid == {"source": "a", "target": "b"}
    assert made.train.optimizer.lr == 1e-4


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ("train.steps", "'train.steps' has no value: write name=value"),
        ("train.steps.more=3", "steps is 12, which has no keys"),
        ("train.steps=[1", "'train.steps=.1': the value is not YAML: while parsing"),
        ("train.stpes=3", "train.stpes: there is no such name; did you mean 'steps'"),
        ("=3", "there is no such name"),
        ("nothing.at.all=3", "nothing: there is no such name"),
    ],
)
def test_changes_that_are_none(tmp_path, change, says):
    path = tmp_path / "r.yaml"
    path.write_text(yaml.safe_dump(values()))
    with pytest.raises(ValueError, match=says) as caught:
        read_recipe(path, [change])
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("path", "value", "says"),
    [
        ("taks", "translate", "taks: there is no such name; did you mean 'task'"),
        ("task", "translaet", "task is 'translaet': there is no such name; did you mean 'translate'"),
        ("data.trian", {}, "data.trian: there is no such name; did you mean 'train'"),
        ("train.optimizer.lrr", 1, "train.optimizer.lrr: there is no such name; did you mean 'lr'"),
        ("train.schedule", {"knd": "noam"}, "train.schedule.knd: there is no such name; did you mean 'kind'"),
        ("train.schedule", "noam", "train.schedule: "),
        ("train.steps", "many", "train.steps: Input should be a valid integer"),
        ("train.steps", 0, "steps is 0: it must be at least 1"),
        ("train.steps", 1.5, "train.steps: Input should be a valid integer"),
        ("train.dtype", "float16", "train.dtype: Input should be 'auto', 'float32' or 'bfloat16'"),
        ("train.label_smoothing", 1.0, "label_smoothing is 1.0"),
        ("train.gradient_accumulation", 0, "gradient_accumulation is 0: it must be at least 1"),
        ("train.dropout_parts", 0, "dropout_parts is 0: it must be at least 1"),
        ("train", {"steps": 1, "gradient_accumulation": 2, "dropout_parts": 4}, "give one of them"),
        ("train.optimizer.clip", 0, "clip is 0"),
        ("train.optimizer.lr", float("nan"), "train.optimizer.lr: Input should be a finite number"),
        ("train.optimizer.lr", float("inf"), "train.optimizer.lr: Input should be a finite number"),
        ("train.optimizer.lr", -1, "lr is -1"),
        ("train.optimizer.betas", [0.9], "train.optimizer.betas"),
        ("train.average", 4, "average is 4, but only 3 checkpoints are kept: raise keep"),
        ("train.patience", 0, "patience is 0: it must be at least 1, or null"),
        ("train.metric", "perplexty", "train.metric is 'perplexty': there is no such name; did you mean 'perplexity'"),
        ("data.max_len", 1, "max_len is 1: it must be at least 2"),
        ("data.validation_rows", 0, "validation_rows is 0"),
        ("data.train", {"source": "a.x"}, "data.train.target is missing"),
        ("data.train", {"file": "a.tsv"}, "data.train.source is missing"),
        ("data.train", {"src": "a", "target": "b"}, "data.train.src: there is no such name"),
        ("data.valid", {"source": "a.x"}, "data.valid.target is missing"),
        ("data.train.source", 5, "data.train.source: Input should be a valid string"),
        ("data", None, "data: "),
        ("data", "a.x", "data: "),
        ("train", {}, "give exactly one of train.steps and train.epochs"),
        ("tokenizer.kind", "bpee", "tokenizer.kind: Input should be 'bpe'"),
        ("seed", -1, "seed is -1"),
        ("seed", 2**63, "seed is 9223372036854775808"),
        ("model", [1], "model: "),
    ],
)
def test_errors_are_one_line(path, value, says):
    with pytest.raises(ValueError, match=says) as caught:
        make_recipe(changed(path, value))
    assert "\n" not in str(caught.value)
    assert "pydantic" not in str(caught.value)


def test_several_errors_are_reported_together():
    with pytest.raises(ValueError, match=r"train.steps: .*; train.keep: "):
        make_recipe(values(steps="x", keep="y"))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (b"a: [1", "is not YAML: while parsing"),
        (b"\xff\xfe", "is not YAML: 'utf-8' codec"),
        (b"- a\n- b\n", "is not a recipe"),
        (b"", "is not a recipe"),
        (b"a: !!python/object/apply:os.system ['false']\n", "is not YAML: could not determine a constructor"),
    ],
)
def test_files_that_are_no_recipes(tmp_path, text, says):
    path = tmp_path / "r.yaml"
    path.write_bytes(text)
    with pytest.raises(ValueError, match=says) as caught:
        read_recipe(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)
