"""RELIABILITY 10, for the files alone: a hostile folder is refused at once, in little memory, and nothing outside it is opened."""

from __future__ import annotations

import pytest

from tests.files.hostile import FILES, HOSTILE, valid
from tests.files.trials import check, try_all


@pytest.fixture(scope="module")
def trials(tmp_path_factory):
    return try_all("files", FILES, tmp_path_factory.mktemp("hostile"))


@pytest.mark.parametrize("name", sorted(FILES))
def test_refused(trials, name):
    check(trials[name])
    assert trials[name]["named"], "it says where"


def test_a_good_folder_passes(trials):
    assert trials["valid"]["kind"] == "", trials["valid"]
    assert trials["valid"]["outside"] == []


def test_there_are_enough():
    assert len(FILES) >= 50 and len(HOSTILE) > len(FILES)


def test_the_good_folder_opens_in_transformers(tmp_path):
    transformers = pytest.importorskip("transformers")
    folder = valid(tmp_path / "bert", manifest=True)
    model, report = transformers.AutoModel.from_pretrained(folder, output_loading_info=True)
    assert not report["missing_keys"] and not report["unexpected_keys"]
    tokens = transformers.AutoTokenizer.from_pretrained(folder)("a b", return_tensors="pt")
    assert model(**tokens).last_hidden_state.shape == (1, 4, 16)
