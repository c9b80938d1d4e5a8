"""A recipe whose data is on the hub: the same tokens as from a file, and keys that belong to it alone."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from clearhead.train import make_recipe, prepare
from tests.train.tiny import values


@pytest.mark.parametrize("task", ["classify", "qa"])
def test_a_data_set_of_the_hub_gives_the_tokens_of_its_file(tmp_path, task):
    """The same rows in a file, and in a folder laid out like a data set of the hub."""
    from datasets import ClassLabel, Dataset, Features, List, Value

    folder = tmp_path / "hub" / "train"
    folder.mkdir(parents=True)
    part: dict[str, str]
    if task == "classify":
        texts, labels = (
            [f"{word} film" for word in ["good", "bad", "fine", "poor", "great", "dull"]],
            [1, 0, 1, 0, 1, 0],
        )
        names = ["negative", "positive"]
        table = "".join(f"{text}\t{names[label]}\n" for text, label in zip(texts, labels, strict=True))
        (tmp_path / "file.tsv").write_text(f"text\tlabel\n{table}")
        features = Features({"sentence": Value("string"), "label": ClassLabel(names=names)})
        rows = Dataset.from_dict({"sentence": texts, "label": labels}, features=features)
        part, renamed = {"file": "file.tsv", "text": "text", "label": "label"}, {"text": "sentence"}
    else:
        words = ["ant", "bee", "cat", "dog", "eel", "fox"]
        contexts = [f"the {word} sees another {word} now" for word in words]
        places = [
            [{"text": word, "answer_start": context.rindex(word)}]
            for word, context in zip(words, contexts, strict=True)
        ]
        paragraphs = [
            {"context": context, "qas": [{"id": str(i), "question": "who?", "answers": found}]}
            for i, (context, found) in enumerate(zip(contexts, places, strict=True))
        ]
        (tmp_path / "file.json").write_text(json.dumps({"data": [{"title": "t", "paragraphs": paragraphs}]}))
        answers = {"text": List(Value("string")), "answer_start": List(Value("int32"))}
        features = Features({"question": Value("string"), "context": Value("string"), "answers": answers})
        spans = [{key: [found[key] for found in given] for key in answers} for given in places]
        columns = {"question": ["who?"] * len(words), "context": contexts, "answers": spans}
        rows = Dataset.from_dict(columns, features=features)
        part, renamed = {"file": "file.json", **{name: name for name in columns}}, {}
    rows.to_parquet(folder / "train-00000-of-00001.parquet")
    (tmp_path / "hub" / "README.md").write_text("configs:\n- config_name: default\n")

    def tokens(part: dict[str, str], out: str) -> dict[tuple[int, str], list[Any]]:
        settings = values()
        settings |= {"task": task, "data": {"train": part, "validation_rows": 1, "max_len": 32}}
        settings["tokenizer"] = {"vocab_size": 60}
        run = prepare(make_recipe(settings), tmp_path, tmp_path / out)
        return {
            (number, name): [part.tolist() for part in column.take(np.arange(len(column)))]
            for number, columns in enumerate((run.train, run.valid))
            for name, column in columns.items()
        }

    on_hub = part | renamed | {"file": "hub:./hub"}
    assert tokens(part, "a") == tokens(on_hub, "b") != {}


def test_the_keys_of_the_hub_belong_to_it_alone():
    settings = values()
    settings["data"]["train"] = {"file": "a.tsv", "source": "a", "target": "b", "split": "train"}
    with pytest.raises(
        ValueError, match=r"data.train.split belongs to a data set of the hub: give file: hub:OWNER/NAME"
    ):
        make_recipe(settings)
    settings["data"]["train"]["file"] = "hub:owner/name"
    assert make_recipe(settings).data.train["split"] == "train"


def test_a_card_names_the_data_set_and_its_commit(tmp_path):
    from clearhead.data.data_sources import data_sources

    part = {"file": "hub:owner/name", "config": "one", "split": "train", "revision": "abc", "text": "a", "label": "b"}
    assert data_sources({"data": {"train": part}}) == [
        {
            "part": "train", "name": "owner/name/one/train", "hub_id": "owner/name",
            "source": "the Hugging Face hub, commit abc",
        }
    ]  # fmt: skip
    (local,) = data_sources({"data": {"train": {"file": f"hub:{tmp_path}/mine", "text": "a", "label": "b"}}})
    assert local == {"part": "train", "name": "mine"}
