"""Shards in an object store: the blocks of the files on disk, read by ranges, and checked."""

from __future__ import annotations

from contextlib import suppress

import numpy as np
import pytest

from clearhead.data.shards import INDEX, SIZES, ShardBlock, Shards, packed, write_shard
from clearhead.files import read_manifest, write_manifest
from clearhead.files.record_chunks import record_of
from clearhead.files.s3_folder import cache_home, upload_folder
from tests.train.shards import made_shards


def large_blocks(count: int) -> list[ShardBlock]:
    """Blocks that are longer than the distance between two headers of the file, and short ones between them."""
    draw = np.random.default_rng(0)
    documents = [
        [draw.integers(0, 70_000, size=draw.integers(1, 60_000 if i % 3 else 20)).tolist()] for i in range(count)
    ]
    return list(packed(documents, 50_000))


def test_the_records_of_a_file_by_their_places(tmp_path):
    blocks = large_blocks(12)
    path = tmp_path / "x.array_record"
    _, table = write_shard(path, blocks)
    data = path.read_bytes()
    assert len(data) > 3 << 16 and len(table) == len(blocks)
    for block, place in zip(blocks, table.tolist(), strict=True):
        assert record_of(data[place[0] : place[1]], place) == block.to_bytes()


def test_a_changed_bit_is_found(tmp_path):
    blocks = large_blocks(4)
    path = tmp_path / "x.array_record"
    _, table = write_shard(path, blocks)
    place = table[1].tolist()
    chunk = path.read_bytes()[place[0] : place[1]]
    for i in (*range(32, 60), len(chunk) // 2, len(chunk) - 1):
        flipped = chunk[:i] + bytes([chunk[i] ^ 4]) + chunk[i + 1 :]
        with suppress(ValueError):
            assert record_of(flipped, place) == blocks[1].to_bytes(), "a byte that carries no data"
    for wrong in (b"", chunk[:-1], chunk[:-1] + bytes([chunk[-1] ^ 1]), bytes(len(chunk))):
        with pytest.raises(ValueError, match="its bytes were changed"):
            record_of(wrong, place)


@pytest.fixture
def both(tmp_path, bucket) -> tuple[Shards, Shards]:
    folder = made_shards(tmp_path / "shards")
    upload_folder(folder, bucket / "shards")
    return Shards(folder), Shards(str(bucket / "shards"))


def test_the_blocks_on_disk(both):
    here, there = both
    assert there.is_remote and not here.is_remote and len(here) == len(there)
    wanted = np.random.default_rng(0).permutation(len(here))
    assert (here.sizes(wanted) == there.sizes(wanted)).all()
    there.request(wanted[:9])
    for a, b in zip(here.take(wanted), there.take(wanted), strict=True):
        assert a.to_bytes() == b.to_bytes()
    assert there.take([3, 3])[1].to_bytes() == here[3].to_bytes()
    assert len(list((cache_home() / "tables").iterdir())) == 6, "two tables for each of three shards"


def test_a_damaged_shard_is_reported_when_it_is_read(both, bucket):
    _, there = both
    path = bucket / "shards" / "shard-0.array_record"
    data = path.read_bytes()
    path.write_bytes(data[:100] + bytes(20) + data[120:])
    with pytest.raises(ValueError, match=r"block 0 of s3://.*shard-0\.array_record cannot be read: its bytes were"):
        there.take([0])
    (bucket / "shards" / "shard-1.index").write_bytes(b"other")
    with pytest.raises(ValueError, match=r"shard-1\.index' was changed"):
        there.take([len(there) - 20, len(there) // 2])


def test_shards_without_places_are_refused(tmp_path, bucket):
    folder = made_shards(tmp_path / "shards")
    for path in folder.glob(f"*{INDEX}"):
        path.unlink()
    write_manifest(folder, read_manifest(folder).metadata)
    upload_folder(folder, bucket / "shards")
    assert (folder / "shard-0.array_record").with_suffix(SIZES).exists()
    with pytest.raises(ValueError, match="Run `clearhead prepare` again"):
        Shards(str(bucket / "shards")).take([0])
