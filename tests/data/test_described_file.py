"""Files that nobody described: whether their first line names columns, and where their licenses are known from."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clearhead.cards.card_fields import check_fields, license_id
from clearhead.data import DATASETS
from clearhead.data.data_card import file_facts
from clearhead.data.data_sources import data_sources, file_source
from clearhead.data.described_file import described_rows, has_header
from clearhead.data.rows import Row, Rows


@pytest.mark.parametrize(
    ("first", "named"),
    [
        ("text\tlabel", True), ("review text (en)\tclass", True), ("A dog runs.\tEin Hund rennt.", False), ("1\t2", False),
        ("good\tIt is fine", False), ("text\ttext", False), ("really?\tlabel", False), ("Überschrift\tBewertung", True),
    ],
)  # fmt: skip
def test_a_header_is_recognized(tmp_path, first, named):
    path = tmp_path / "a.tsv"
    path.write_text(first + "\n" + "good\tIt was long\nbad\tIt was dull\n" * 3, encoding="utf-8")
    assert has_header(path) == named
    rows = described_rows(path)
    assert rows is not None
    names = set(next(iter(rows)).values)
    assert names == (set(first.split("\t")) if named else {"1", "2"})
    assert len(list(rows)) == (6 if named else 7)


def test_formats_are_read_by_their_names(tmp_path):
    (tmp_path / "a.conll").write_text("dogs NOUN\nrun VERB\n\ncats NOUN\n")
    (tmp_path / "a.conllu").write_text(
        "\n".join("\t".join([str(i), w, w, t, *"______"]) for i, w, t in ((1, "a", "X"), (2, "b", "Y")))
    )
    (tmp_path / "a.txt").write_text("one line\nanother\n")
    (tmp_path / "a.jsonl").write_text('{"a": "x", "b": "y"}\n')
    (tmp_path / "a.zip").write_bytes(b"PK")

    def first(name):
        rows = described_rows(tmp_path / name)
        assert rows is not None
        return next(iter(rows)).values

    assert first("a.conll") == {"words": ["dogs", "run"], "tags": ["NOUN", "VERB"]}
    assert first("a.conllu") == {"words": ["a", "b"], "tags": ["X", "Y"]}
    assert first("a.txt") == {"text": "one line"}
    assert first("a.jsonl") == {"a": "x", "b": "y"}
    assert described_rows(tmp_path / "a.zip") is None


@given(st.lists(st.sampled_from(["a b", "A  B", "c", "C", "d e f"]), min_size=1, max_size=30))
def test_the_facts_of_a_column_are_those_of_its_values(texts):
    rows = [Row({"text": text, "label": text[0].lower()}, "f", i) for i, text in enumerate(texts)]
    facts = file_facts("f", 1, "0" * 64, Rows(lambda: iter(rows)))
    assert facts.rows == len(texts)
    assert facts.duplicates == len(texts) - len({" ".join(text.lower().split()) for text in texts})
    text, label = facts.columns
    assert (text.different, text.longest, text.labels) == (len(set(texts)), max(map(len, texts)), ())
    if label.labels:
        assert sum(count for _, count in label.labels) == len(texts)
        assert dict(label.labels) == {
            one: sum(t[0].lower() == one for t in texts) for one in {t[0].lower() for t in texts}
        }


def test_licenses_come_from_the_catalog():
    recipe = {"data": {
        "train": {"source": "multi30k:train.en.gz", "target": "/home/x/own.de"},
        "test": {"file": "tatoeba:fra-eng.zip/fra.txt", "source": "1", "target": "2"},
    }}  # fmt: skip
    known, own, member = data_sources(recipe)
    assert known["license"] == "none stated" and known["hub_id"] == "bentrevett/multi30k" and len(known["sha256"]) == 64
    assert own == {"part": "train", "name": "own.de"}
    assert member["part"] == "test" and member["license"] == "CC BY 2.0"
    archive = next(file for file in DATASETS["tatoeba"].files if file.name == "fra-eng.zip")
    assert member["sha256"] == archive.sha256
    (table,) = data_sources({"data": {"train": {"file": "a/b.csv", "text": "t", "label": "l"}}}, "ab" * 32)
    assert table == {"part": "train", "name": "b.csv", "sha256": "ab" * 32}
    assert file_source("nothing:a.csv") == {"name": "nothing:a.csv"}


def test_every_license_of_the_catalog_has_an_identifier():
    for dataset in DATASETS.values():
        check_fields({"license": license_id(dataset.license), "license_name": "x"})
    assert {name for name, one in DATASETS.items() if license_id(one.license) == "cc-by-sa-4.0"} >= {"squad", "xquad"}
    names = [dataset.hub_id for dataset in DATASETS.values() if dataset.hub_id is not None]
    assert "nyu-mll/glue" in names
    check_fields({"datasets": names})
