"""Ragged columns: what goes in comes out, in memory and from disk; a changed byte is found."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clearhead.data import Ragged, open_columns, save_columns
from clearhead.files import IntegrityError, read_manifest, write_manifest

EXAMPLES = st.lists(st.lists(st.integers(0, 2**31), max_size=8), max_size=12)


def lists(column: Ragged) -> list[list[int]]:
    return [column.ids[a:b].tolist() for a, b in zip(column.offsets[:-1], column.offsets[1:], strict=True)]


@given(EXAMPLES, st.data())
def test_what_goes_in_comes_out(examples, data):
    column = Ragged.from_lists(examples)
    assert len(column) == len(examples)
    assert lists(column) == examples
    assert column.lengths().tolist() == list(map(len, examples))
    some = data.draw(st.lists(st.integers(0, len(examples) - 1), max_size=20) if examples else st.just([]))
    ids, sizes = column.take(np.array(some, dtype=np.int64))
    assert ids.dtype == np.int64
    assert ids.tolist() == [token for i in some for token in examples[i]]
    assert sizes.tolist() == [len(examples[i]) for i in some]


@pytest.mark.parametrize(("largest", "dtype"), [(2**16 - 1, np.uint16), (2**16, np.uint32), (0, np.uint16)])
def test_ids_are_as_small_as_the_vocabulary_allows(largest, dtype):
    column = Ragged.from_lists([[1, largest]])
    assert column.ids.dtype == dtype
    assert lists(column) == [[1, largest]]


def test_ids_that_cannot_be():
    for bad in (-1, 2**32):
        with pytest.raises(OverflowError):
            Ragged.from_lists([[bad]])


def test_columns_on_disk(tmp_path):
    columns = {"source": Ragged.from_lists([[1, 2], [], [70_000]]), "target": Ragged.from_lists([[3], [4], [5]])}
    save_columns(columns, tmp_path / "train", {"tokenizer": "abc"})
    found, facts = open_columns(tmp_path / "train")
    assert facts["tokenizer"] == "abc"
    assert list(found) == ["source", "target"]
    assert {name: lists(column) for name, column in found.items()} == {
        "source": [[1, 2], [], [70_000]],
        "target": [[3], [4], [5]],
    }
    assert isinstance(found["source"].ids, np.memmap), "tokens stay on disk"


def test_a_changed_byte_is_found(tmp_path):
    save_columns({"text": Ragged.from_lists([[1, 2], [3]])}, tmp_path / "train", {})
    for name in ("text.ids.npy", "text.offsets.npy"):
        path = tmp_path / "train" / name
        whole = path.read_bytes()
        path.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
        with pytest.raises(IntegrityError, match=name):
            open_columns(tmp_path / "train")
        path.write_bytes(whole)
    open_columns(tmp_path / "train")


def test_a_column_that_names_a_file_elsewhere(tmp_path):
    save_columns({"text": Ragged.from_lists([[1]])}, tmp_path / "other", {})
    save_columns({"text": Ragged.from_lists([[1]])}, tmp_path / "train", {})
    write_manifest(tmp_path / "train", {**read_manifest(tmp_path / "train").metadata, "columns": ["../other/text"]})
    with pytest.raises(ValueError, match="refused"):
        open_columns(tmp_path / "train")


def test_a_pickle_is_not_opened(tmp_path):
    save_columns({"text": Ragged.from_lists([[1]])}, tmp_path / "train", {})
    np.save(tmp_path / "train" / "text.offsets.npy", np.array([{}], dtype=object), allow_pickle=True)
    write_manifest(tmp_path / "train", read_manifest(tmp_path / "train").metadata)
    with pytest.raises(ValueError, match="pickle"):
        open_columns(tmp_path / "train")
