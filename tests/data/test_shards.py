"""Shards: blocks hold every token once, in order, with its sentence and its document; the same blocks, the same bytes."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clearhead.data.shards import SIZES, ShardBlock, ShardRange, Shards, block_size_of, packed, write_shard
from clearhead.files import write_manifest

DOCUMENTS = st.lists(st.lists(st.lists(st.integers(0, 2**17), max_size=30), max_size=6), max_size=12)


@given(documents=DOCUMENTS, size=st.integers(1, 40))
def test_packing_loses_nothing_and_adds_nothing(documents, size):
    blocks = list(packed(documents, size))
    assert all(0 < len(block.tokens) <= size for block in blocks)
    every = [token for document in documents for sentence in document for token in sentence]
    assert [token for block in blocks for token in block.tokens.tolist()] == every
    found: dict[int, list[int]] = {}
    for block in blocks:
        assert block.sentences[-1] == len(block.tokens) and block.starts[0] == 0
        for number, (tokens, ends) in zip(block.documents.tolist(), block.pieces(), strict=True):
            assert len(tokens) and ends[-1] == len(tokens)
            found.setdefault(number, []).extend(tokens.tolist())
    for number, document in enumerate(documents):
        assert found.get(number, []) == [token for sentence in document for token in sentence]


@given(documents=DOCUMENTS, size=st.integers(8, 40))
def test_sentences_are_whole_where_they_fit(documents, size):
    """No block ends inside a sentence that a block could hold."""
    sentences = [s for document in documents for s in document if s]
    pieces = []
    for block in packed(documents, size):
        ends = [0, *block.sentences.tolist()]
        pieces += [block.tokens[a:b].tolist() for a, b in itertools.pairwise(ends)]
    for sentence in sentences:
        parts = [sentence[i : i + size] for i in range(0, len(sentence), size)]
        assert pieces[: len(parts)] == parts
        pieces = pieces[len(parts) :]
    assert not pieces


@given(documents=DOCUMENTS)
def test_a_block_comes_back_from_its_bytes(documents):
    for block in packed(documents, 25):
        again = ShardBlock.from_bytes(block.to_bytes())
        for name in ("tokens", "sentences", "starts", "documents"):
            np.testing.assert_array_equal(getattr(again, name), getattr(block, name))


@given(cut=st.integers(0, 200), junk=st.binary(max_size=30))
def test_what_is_no_block_is_refused(cut, junk):
    data = next(packed([[[1, 2, 3], [4, 70_000]]], 10)).to_bytes()
    for bad in (data[: min(cut, len(data) - 1)], data + b"x", junk):
        with pytest.raises(ValueError, match="block"):
            ShardBlock.from_bytes(bad)


def test_shards_are_read_anywhere_and_checked(tmp_path):
    pytest.importorskip("array_record")
    folder = tmp_path / "shards"
    folder.mkdir()
    blocks = list(packed([[[i, i + 1], [i + 2]] for i in range(0, 300, 3)], 7))
    names = []
    for number, part in enumerate((blocks[:20], blocks[20:21], [], blocks[21:])):
        name = f"shard-{number}.array_record"
        sizes, _ = write_shard(folder / name, part)
        assert sizes.tolist() == [[len(b.tokens), len(b.sentences), len(b.documents)] for b in part]
        (folder / name).with_suffix(SIZES).write_bytes(sizes.tobytes())
        names.append((name, len(part)))
    write_manifest(folder, {"blocks": names, "block": 7, "tokenizer": {"vocabulary": "a hash"}})
    shards = Shards(folder)
    assert len(shards) == len(blocks) and shards.size == 7
    order = np.random.default_rng(0).permutation(len(blocks)).tolist()
    for i, block in zip(order, shards.take(order), strict=True):
        np.testing.assert_array_equal(block.tokens, blocks[i].tokens)
    assert shards.sizes(order)[:, 0].tolist() == [len(blocks[i].tokens) for i in order]
    columns = ShardRange(shards, 10, 30).columns()
    chosen = np.array([12, 3, 29])
    for name, part in (("ids", "tokens"), ("ends", "sentences"), ("starts", "starts")):
        taken, lengths = columns[name].take(chosen)
        each = [getattr(blocks[10 + i], part) for i in chosen]
        np.testing.assert_array_equal(taken, np.concatenate(each))
        assert lengths.tolist() == columns[name].lengths(chosen).tolist() == [len(one) for one in each]
    assert len(columns["ids"]) == 30 and block_size_of(columns) == 7
    assert len(Shards(folder, folder)) == 2 * len(blocks)
    with pytest.raises(IndexError, match="there is no block"):
        shards[len(blocks)]
    path = folder / names[0][0]
    path.write_bytes(path.read_bytes()[:-1] + b"!")
    with pytest.raises(ValueError, match=names[0][0]):
        Shards(folder)
