"""Counterfactual copies and reweighing in a run: of the training rows alone, deterministic, resumed bit for bit."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from clearhead.cards.public_recipe import public_recipe
from clearhead.data.counterfactual_rows import COPIES
from clearhead.data.group_terms import swap
from clearhead.tasks import TASKS, Classify
from clearhead.train import Recipe, TrainingRun, make_recipe, prepare, train
from clearhead.train.data_check import check_data
from clearhead.train.recipe import read_recipe, to_plain, write_recipe
from clearhead.train.run_data import split_parts, training_parts
from clearhead.train.text_augmentation import TextAugmentConfig

PEOPLE = ["he", "she", "my brother", "my sister", "the man", "the woman", "it", "the house", "a tree"]
ENDS = ["is here", "was old", "runs", "is good", "was bad", "gave her books", "sees the street"]
PART = {"file": "rows.tsv", "text": "text", "label": "label"}


@pytest.fixture(scope="module")
def base(tmp_path_factory) -> Path:
    here = tmp_path_factory.mktemp("augmentation")
    draw = random.Random(0)
    texts = list(dict.fromkeys(f"{n} {draw.choice(PEOPLE)} {draw.choice(ENDS)}" for n in range(90)))
    rows = "".join(f"{text}\t{'good' if draw.random() < 0.3 + 0.6 * ('she' in text) else 'bad'}\n" for text in texts)
    (here / "rows.tsv").write_text("text\tlabel\n" + rows)
    return here


def recipe(**data: Any) -> Recipe:
    settings = {
        "steps": 8, "batch_examples": 16, "dtype": "float32", "evaluate_every": 8, "save_every": 3,
        "optimizer": {"lr": 1e-2}, "schedule": {"kind": "linear", "warmup": 2},
    }  # fmt: skip
    return make_recipe({
        "task": "classify", "data": {"train": PART, "validation_rows": 20, "max_len": 32, **data},
        "tokenizer": {"vocab_size": 90}, "train": settings,
        "model": {"width": 16, "num_heads": 2, "num_layers": 1, "ffn_dim": 32, "dropout": 0.1},
    })  # fmt: skip


BOTH = {"augment": "counterfactual", "balance_groups": "gender"}


def texts_of(run: TrainingRun, columns: Any) -> list[str]:
    assert isinstance(run.task, Classify)
    ids = [columns["ids"].take(np.array([i]))[0].tolist() for i in range(len(columns["ids"]))]
    return [run.task.tokenizer.decode(one) for one in ids]


def test_copies_are_in_the_training_data_alone(base, tmp_path):
    messages: list[str] = []
    plain, run = prepare(recipe(), base, tmp_path / "plain"), prepare(
        recipe(augment="counterfactual"), base, tmp_path / "run", messages.append
    )  # fmt: skip
    assert texts_of(run, run.valid) == texts_of(plain, plain.valid), "validation rows stay as they are"
    before, after = texts_of(plain, plain.train), texts_of(run, run.train)
    assert after[: len(before)] == before
    originals = list(split_parts(run.recipe, base)[0])
    pairs = [(row, swap(row.values["text"], "male", "female")) for row in originals]
    named = [(row, found) for row, found in pairs if found.count]
    assert after[len(before) :] == [found.text for _, found in named] and len(named) > 10
    index = run.task.collect_labels(run.parts()[0], ("text", "label"))["names"].index
    labels = run.train["label"].take(np.arange(len(before), len(after)))[0].tolist()
    assert labels == [index(row.values["label"]) for row, _ in named], "a copy has the label of its row"
    unresolved = sum(1 for _, found in pairs if found.unresolved)
    assert f"train: counterfactual copies (gender): {len(named)}, of {len(named)} rows that name a group" in messages
    assert unresolved and any(text.endswith(f"counterpart of a term: {unresolved}") for text in messages)
    assert not any("valid: counterfactual" in text for text in messages)
    counts = json.loads((run.folder / "labels.json").read_text())["counts"]
    assert sum(counts) == len(after), "the balance of labels counts copies"


def test_rows_of_a_group_and_their_copies_stay_in_one_split(base, tmp_path):
    groups = [f"{line}\t{i // 4}" for i, line in enumerate((base / "rows.tsv").read_text().splitlines()[1:])]
    (tmp_path / "rows.tsv").write_text("text\tlabel\tid\n" + "\n".join(groups) + "\n")
    made = recipe(train={**PART, "group": "id"}, augment="counterfactual")
    rows, valid = training_parts(made, tmp_path)
    held = {row.values["group"] for row in valid}
    assert held and not held & {row.values["group"] for row in rows}
    assert any(row.file.startswith(COPIES) for row in rows)


def test_weights_make_labels_independent_of_the_group(base, tmp_path):
    messages: list[str] = []
    run = prepare(recipe(balance_groups="gender"), base, tmp_path / "run", messages.append)
    weights, sizes = run.train["weight"].take(np.arange(len(run.train["weight"])))
    assert set(sizes.tolist()) == {1} and weights.mean() == pytest.approx(1.0, abs=1e-6) and weights.std() > 0.05
    assert "weight" not in run.valid
    labels = run.train["label"].take(np.arange(len(weights)))[0]
    women = np.array(
        [" she " in f" {t} " or "sister" in t or "woman" in t or " her " in t for t in texts_of(run, run.train)]
    )
    women &= np.array([" he " not in f" {t} " for t in texts_of(run, run.train)])
    plain, weighted = labels[women].mean(), np.average(labels[women], weights=weights[women])
    target = labels.mean()
    assert abs(weighted - target) < abs(plain - target) / 3
    assert any(text.startswith("train: rows weigh from ") for text in messages)
    batch = run.task.collate(run.train, np.array([3, 0, 5]))
    assert batch.weights is not None and batch.weights.tolist() == weights[[3, 0, 5]].tolist()


def test_the_same_recipe_gives_the_same_data(base, tmp_path):
    one, other = (prepare(recipe(**BOTH), base, tmp_path / name) for name in ("one", "other"))
    for name in one.train:
        for a, b in zip(one.train[name].take(np.arange(40)), other.train[name].take(np.arange(40)), strict=True):
            assert a.tolist() == b.tolist()


def test_a_stopped_run_is_resumed_to_the_same_bits(base, tmp_path):
    whole, torn = (prepare(recipe(**BOTH), base, tmp_path / name) for name in ("whole", "torn"))
    train(whole, shown=False)

    def stop(step: int, numbers: object) -> None:
        if step == 5:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(torn, trackers=[stop], shown=False)
    train(prepare(recipe(**BOTH), base, tmp_path / "torn"), shown=False)
    a, b = (load_file(tmp_path / name / "model" / "model.safetensors") for name in ("whole", "torn"))
    assert all(torch.equal(a[name], b[name]) for name in a)
    with pytest.raises(ValueError, match="different recipe"):
        prepare(recipe(augment="counterfactual"), base, tmp_path / "torn")


def test_the_data_is_made_anew_where_the_recipe_changes_before_training(base, tmp_path):
    plain = prepare(recipe(), base, tmp_path / "run")
    count = len(plain.train["ids"])
    assert len(prepare(recipe(**BOTH), base, tmp_path / "run").train["ids"]) > count


def test_check_reads_the_rows_without_copies(base):
    plain, both = check_data(recipe(), base, timed=False), check_data(recipe(**BOTH), base, timed=True)
    assert [(p.name, p.rows, p.labels) for p in both.parts] == [(p.name, p.rows, p.labels) for p in plain.parts]
    assert both.findings == plain.findings and both.seconds is not None


@pytest.mark.parametrize("task", ["masked_lm", "replaced_tokens", "language_model"])
def test_running_text_has_copies_too(task, tmp_path):
    text = "".join(f"He saw house number {n}.\nIt was old.\n\n" for n in range(30))
    (tmp_path / "text.txt").write_text(text)
    values: dict[str, Any] = {
        "task": task, "data": {"train": {"text": "text.txt"}, "validation_rows": 6, "max_len": 16},
        "tokenizer": {"vocab_size": 300}, "train": {"steps": 1},
        "model": {"width": 16, "num_heads": 2, "num_layers": 1, "ffn_dim": 32},
    }  # fmt: skip
    if task == "replaced_tokens":
        values["model"] = {"size": "tiny"}
    plain = prepare(make_recipe(values), tmp_path, tmp_path / "plain")
    values["data"]["augment"] = "counterfactual"
    run = prepare(make_recipe(values), tmp_path, tmp_path / "run")
    counts = [int(one.task.lengths(one.train).sum()) for one in (plain, run)]
    assert 1.4 * counts[0] < counts[1] < 2 * counts[0]
    assert int(run.task.lengths(run.valid).sum()) == int(plain.task.lengths(plain.valid).sum())


def test_the_word_is_short_for_the_category_gender(tmp_path):
    made = recipe(augment="counterfactual")
    assert made.data.augment == TextAugmentConfig(counterfactual=("gender",))
    assert recipe(augment={"counterfactual": ["gender"]}) == made
    write_recipe(made, tmp_path / "r.yaml")
    assert read_recipe(tmp_path / "r.yaml") == made and make_recipe(to_plain(made)) == made
    several = recipe(augment={"counterfactual": ["gender", "religion"]})
    assert several.data.augment == TextAugmentConfig(counterfactual=("gender", "religion"))
    assert public_recipe(to_plain(made))["data"]["augment"] == {"counterfactual": ["gender"]}
    assert "augment" not in public_recipe(to_plain(recipe()))["data"]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"augment": "counterfactuals"}, r"data\.augment: .*'counterfactuals'.*did you mean 'counterfactual'"),
        ({"augment": {"counterfactual": ["gendr"]}}, r"counterfactual is 'gendr': .*did you mean 'gender'"),
        ({"augment": {"counterfactual": ["age"]}}, r"'age', whose words have other senses.*choose gender, name_origin"),
        ({"augment": {"counterfactual": "gender"}}, r"give a list of categories, \[gender\]"),
        ({"augment": {"counterfactual": []}}, r"names no category: there are gender"),
        ({"augment": {"counterfactual": ["gender"], "flip": True}}, r"data\.augment\.flip: there is no such name"),
        ({"augment": {"flip": True}}, r"of images, and data.train names none"),
        ({"augment": {"flp": True}}, r"data\.augment\.flp: .*did you mean 'flip'"),
        ({"augment": {"crop_padding": "x"}}, r"^data\.augment\.crop_padding: Input should be a valid integer[^;]*$"),
        ({"balance_groups": "gendr"}, r"data\.balance_groups is 'gendr': .*did you mean 'gender'"),
        ({"balance_groups": "disability"}, r"data\.balance_groups is 'disability', whose words"),
    ],
)
def test_unknown_values_are_refused(data, message):
    with pytest.raises(ValueError, match=message):
        recipe(**data)


@pytest.mark.parametrize(
    ("task", "part", "reason"),
    [
        ("translate", {"source": "a.en", "target": "a.de"}, "targets would have to be exchanged too"),
        ("embed", {"file": "a.csv", "anchor": "a", "positive": "b"}, "negatives of each other"),
        ("answer", {"file": "a.csv", "question": "a", "context": "b", "answer": "c", "negative": "d"}, "index"),
        ("masked_lm", {"shards": "a"}, "tokenized already"),
        ("classify", {"file": "a.csv", "image": "a", "label": "b"}, "persons in the images"),
        ("caption", {"file": "a.csv", "image": "a", "caption": "b"}, "persons in the images"),
        ("draw", {"file": "a.csv", "image": "a", "text": "b"}, "persons in the images"),
    ],
)
def test_tasks_without_copies_are_refused_by_name(task, part, reason):
    values = {"task": task, "data": {"train": part, "augment": "counterfactual"}, "train": {"steps": 1}}
    with pytest.raises(
        ValueError, match=rf"data\.augment is counterfactual, .* the task {task}: .*{reason}.*Remove it"
    ):
        make_recipe(values)


@pytest.mark.parametrize(
    ("task", "part"),
    [
        ("tag", {"file": "a.conll", "words": "1", "tags": "2"}),
        ("classify", {"file": "a.csv", "text": "a", "labels": "b"}),
        ("pair", {"file": "a.csv", "text": "a", "second": "b", "number": "c"}),
        ("masked_lm", {"text": "a.txt"}),
        ("classify", {"file": "a.csv", "image": "a", "label": "b"}),
    ],
)
def test_rows_without_one_label_have_no_weights(task, part):
    values = {"task": task, "data": {"train": part, "balance_groups": "gender"}, "train": {"steps": 1}}
    with pytest.raises(ValueError, match=rf"data\.balance_groups .* task {task} names no column `label` of texts"):
        make_recipe(values)


def test_every_other_task_on_texts_has_copies():
    parts = {
        "classify": PART, "pair": {**PART, "second": "b"}, "tag": {"file": "a.conll", "words": "1", "tags": "2"},
        "qa": {"file": "a.json", "question": "question", "context": "context", "answers": "answers"},
        "rerank": {"file": "a.csv", "anchor": "a", "positive": "b", "negative": "c"},
        "dialogue": {"file": "a.jsonl", "turns": "turns"},
        **{name: {"text": "a.txt"} for name in ("masked_lm", "replaced_tokens", "language_model")},
    }  # fmt: skip
    refused = {"translate", "embed", "answer", "caption", "draw"}
    assert parts.keys() == TASKS.keys() - refused
    for task, part in parts.items():
        values = {"task": task, "data": {"train": part, "augment": "counterfactual"}, "train": {"steps": 1}}
        assert isinstance(make_recipe(values).data.augment, TextAugmentConfig)
