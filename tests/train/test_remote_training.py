"""Training from shards in an object store: the batches, losses and weights of shards on disk, to the bit."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from clearhead.data.remote_shards import RemoteShard
from clearhead.files.s3_folder import cache_home, upload_folder
from clearhead.train import make_recipe, prepare, train
from clearhead.train.tracking import TIMES, read_log
from tests.train.shards import made_shards, values


def run(base: Path, name: str, shards: object) -> Path:
    recipe = values("masked_lm", train={"shards": shards})
    train(prepare(make_recipe(recipe), base, base / name), shown=False)
    return base / name


def timeless(folder: Path) -> list[dict[str, object]]:
    return [{k: v for k, v in record.items() if k not in TIMES} for record in read_log(folder / "log.jsonl")]


@pytest.fixture
def base(tmp_path, bucket) -> Path:
    upload_folder(made_shards(tmp_path / "shards"), bucket / "corpus" / "shards")
    return tmp_path


def test_the_same_bits_as_from_disk(base, bucket, monkeypatch):
    ahead: list[bool] = []
    read = RemoteShard.read

    def watched(self: RemoteShard, numbers: list[int]) -> list[bytes]:
        ahead.extend(number in self._ahead for number in numbers)
        return read(self, numbers)

    monkeypatch.setattr(RemoteShard, "read", watched)
    here = run(base, "here", "shards")
    assert not ahead
    shutil.rmtree(base / "shards")
    there = run(base, "there", f"{bucket}corpus/shards")
    assert ahead and all(ahead), "each block was requested before it was read"
    assert timeless(here) == timeless(there)
    weights = "model/model.safetensors"
    assert (here / weights).read_bytes() == (there / weights).read_bytes()
    tokenizer = "model/tokenizer.json"
    assert (here / tokenizer).read_bytes() == (there / tokenizer).read_bytes()
    assert (cache_home() / "tables").is_dir()
    recipe = json.loads((there / "results.json").read_text())["recipe"]
    assert recipe["data"]["train"]["shards"] == f"{bucket}corpus/shards"


def test_a_wrong_address_is_refused(base, bucket):
    with pytest.raises(ValueError, match=r"clearhead\.json.* is missing"):
        run(base, "run", f"{bucket}corpus/other")
