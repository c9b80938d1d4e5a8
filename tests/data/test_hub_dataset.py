"""Data sets of the hub, read from folders that are laid out like them by the code that reads the hub."""

from __future__ import annotations

import json
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from datasets import ClassLabel, Dataset, Features, Image, List, Translation, Value
from PIL import Image as Pillow

from clearhead.data import HubDataset, read_rows
from clearhead.data import hub_dataset as module
from clearhead.data.image_rows import ImageFile

SENTIMENT = Features({"sentence": Value("string"), "label": ClassLabel(names=["negative", "positive"])})
README = """---
license: cc-by-4.0
configs:
- config_name: sst2
  data_files:
  - {split: train, path: sst2/train-*}
  - {split: validation, path: sst2/validation-*}
- config_name: other
  data_files: other/*
---
"""


@pytest.fixture
def glue(tmp_path) -> Path:
    """A folder with two configurations, as `push_to_hub` writes them."""
    folder = tmp_path / "glue"
    for config, split, sentences in (
        ("sst2", "train", ["good", "bad", " ", "who knows"]), ("sst2", "validation", ["fine"]), ("other", "train", ["x"]),
    ):  # fmt: skip
        write(
            folder / config / f"{split}-00000-of-00001.parquet", SENTIMENT, sentence=sentences, label=labels(sentences)
        )
    (folder / "README.md").write_text(README)
    return folder


def labels(sentences: list[str]) -> list[int]:
    return [{"bad": 0, "who knows": -1}.get(sentence, 1) for sentence in sentences]


def write(path: Path, features: Features, **columns: list[Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Dataset.from_dict(columns, features=features).to_parquet(path)


def values(rows) -> list[dict[str, Any]]:
    return [row.values for row in rows]


def test_configurations_and_splits_of_a_folder(glue):
    columns = {"text": "sentence", "label": "label"}
    rows = read_rows(HubDataset(name=str(glue), config="sst2"), columns)
    assert values(rows) == [{"text": "good", "label": "positive"}, {"text": "bad", "label": "negative"}]
    assert [(row.file, row.line) for row in rows][1] == (f"hub:{glue}/sst2/train", 2)
    assert [(skip.line, skip.reason) for skip in rows.skipped] == [
        (3, "'sentence' is empty"), (4, "'label' is null, not text"),
    ]  # fmt: skip
    assert values(read_rows(HubDataset(name=str(glue), config="sst2", split="validation")))[0]["sentence"] == "fine"
    assert values(read_rows(HubDataset(name=str(glue), config="other")))[0]["sentence"] == "x"


def test_answers_in_the_format_of_squad(tmp_path):
    answers = {"text": List(Value("string")), "answer_start": List(Value("int32"))}
    features = Features(
        {"id": Value("string"), "context": Value("string"), "question": Value("string"), "answers": answers}
    )
    write(
        tmp_path / "plain_text" / "train-00000-of-00001.parquet", features, id=["a", "b", "c"],
        context=["a dog and a dog", "nothing here", "no word"], question=["Who?", "Why?", "What?"],
        answers=[
            {"text": ["dog"], "answer_start": [12]}, {"text": [], "answer_start": []},
            {"text": ["cat"], "answer_start": [0]},
        ],
    )  # fmt: skip
    wanted = {"question": "question", "context": "context", "answers": "answers"}
    rows = read_rows(HubDataset(name=str(tmp_path)), wanted)
    assert [row["answers"] for row in values(rows)] == [[{"text": "dog", "start": 12}], []]
    assert rows.skipped[0].reason == "the answer does not occur in its context"


def test_words_and_tags_and_columns_inside_a_column(tmp_path):
    tagged = Features({"tokens": List(Value("string")), "ner_tags": List(ClassLabel(names=["O", "B-PER"]))})
    write(tmp_path / "ner" / "train.parquet", tagged, tokens=[["Ann", "sings"], []], ner_tags=[[1, 0], []])
    rows = read_rows(HubDataset(name=str(tmp_path / "ner")), {"words": "tokens", "tags": "ner_tags"})
    assert values(rows) == [{"words": ["Ann", "sings"], "tags": ["B-PER", "O"]}] and rows.num_skipped == 1

    pair = Features({"translation": Translation(languages=["de", "en"])})
    write(tmp_path / "pairs" / "train.parquet", pair, translation=[{"de": "Hund", "en": "dog"}])
    source = HubDataset(name=str(tmp_path / "pairs"))
    rows = read_rows(source, {"source": "translation.de", "target": "translation.en"})
    assert values(rows) == [{"source": "Hund", "target": "dog"}]
    with pytest.raises(ValueError, match=r"no column 'translation.fr'.*'translation.de', 'translation.en'"):
        read_rows(source, {"source": "translation.fr", "target": "translation.en"})


def test_a_file_without_declared_types(tmp_path):
    (tmp_path / "train.jsonl").write_text(json.dumps({"de": "Hund", "en": "dog", "length": 3}) + "\n")
    rows = read_rows(HubDataset(name=str(tmp_path)))
    assert values(rows) == [{"de": "Hund", "en": "dog", "length": "3"}]


def test_images_in_a_table_and_in_folders(tmp_path):
    file = BytesIO()
    Pillow.new("RGB", (4, 4), "red").save(file, "PNG")
    content = file.getvalue()
    typed = Features({"img": Image(), "label": ClassLabel(names=["cat", "dog"])})
    write(tmp_path / "table" / "train.parquet", typed, img=[{"bytes": content, "path": "a.png"}], label=[1])
    rows = read_rows(HubDataset(name=str(tmp_path / "table")), {"image": "img", "label": "label"})
    assert values(rows) == [{"image": ImageFile("a.png", content), "label": "dog"}]

    for name in ("cat", "dog"):
        folder = tmp_path / "folders" / "train" / name
        folder.mkdir(parents=True)
        (folder / f"{name}.png").write_bytes(content)
    rows = read_rows(HubDataset(name=str(tmp_path / "folders")), {"image": "image", "label": "label"})
    assert values(rows) == [{"image": ImageFile(f"{name}.png", content), "label": name} for name in ("cat", "dog")]


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"config": "sst3"}, "cannot be read: .*sst3.*'sst2'"),
        ({"split": "dev"}, r"cannot be read: .*dev.*\['train', 'validation'\]"),
        ({"revision": "abc"}, "is a folder, which has no revision: remove revision"),
        ({"name": "./nowhere"}, "there is no folder .*nowhere: check the path"),
        ({"name": "nyu-mll/glue"}, "hub:nyu-mll/glue/sst2/train has no revision, .* give the commit to read"),
    ],
)
def test_what_cannot_be_read_is_named(glue, changes, says):
    with pytest.raises(ValueError, match=says):
        read_rows(HubDataset(**({"name": str(glue), "config": "sst2"} | changes)))


def test_a_large_data_set_is_streamed_and_a_folder_read_in_place(glue, monkeypatch):
    import datasets

    load_dataset: Any = datasets.load_dataset
    streamed: list[bool] = []

    def load(name: str, *args: Any, streaming: bool, revision: str | None, **kwargs: Any) -> Any:
        streamed.append(streaming)
        return load_dataset(str(glue), *args, streaming=streaming, **kwargs)

    class Builder:
        def __init__(self, size: int) -> None:
            self.info = type("Info", (), {"download_size": size})

    monkeypatch.setattr("datasets.load_dataset", load)
    for size in (module.STREAM_BYTES, module.STREAM_BYTES + 1):
        monkeypatch.setattr("datasets.load_dataset_builder", lambda *args, size=size, **kwargs: Builder(size))
        rows = read_rows(HubDataset(name="owner/name", config="sst2", revision="abc"), {"text": "sentence"})
        assert [row["text"] for row in values(rows)] == ["good", "bad", "who knows"]
    read_rows(HubDataset(name=str(glue), config="sst2"))
    assert streamed == [False, True, True]
