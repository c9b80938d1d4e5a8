"""The pipeline: the same bytes with any number of workers and after any stop; every document accounted for."""

from __future__ import annotations

import hashlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from clearhead.corpus import prepare_corpus
from clearhead.corpus.prepare_corpus import MAX_SHARDS, PrepareConfig, check_size, prepare
from clearhead.corpus.steps import SHARDS_PER_PART, SealPart, part_name
from clearhead.data.shards import Shards
from clearhead.files import FileEntry, IntegrityError, Manifest, manifest, sha256, verify
from clearhead.files.manifest import MAX_MANIFEST_BYTES
from clearhead.files.s3_folder import cache_home
from clearhead.files.s3_path import S3Path
from clearhead.text import Tokenizer, train_tokenizer

pytest.importorskip("datatrove")
pytest.importorskip("array_record")

WORDS = [
    "the",
    "old",
    "house",
    "stood",
    "near",
    "a",
    "river",
    "and",
    "people",
    "went",
    "there",
    "often",
    "to",
    "see",
    "it",
    "burn",
    "slowly",
    "under",
    "bright",
    "stars",
]


def paragraph(draw):
    sentences = (" ".join(draw.choices(WORDS, k=draw.randint(4, 12))).capitalize() for _ in range(draw.randint(3, 9)))
    return ". ".join(sentences) + "."


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    """Twelve files of several kinds, with doubles and damage; and a tokenizer."""
    here = tmp_path_factory.mktemp("corpus")
    draw = random.Random(3)
    (here / "data").mkdir()
    for i in range(8):
        (here / "data" / f"{i}.txt").write_text("\n\n".join(paragraph(draw) for _ in range(20)) + "\n")
    rows = [json.dumps({"text": paragraph(draw)}) for _ in range(60)]
    rows += [rows[3], rows[4].upper().replace("TEXT", "text"), "{broken"]
    (here / "data" / "rows.jsonl").write_text("\n".join(rows) + "\n")
    near = json.loads(rows[7])["text"]
    (here / "data" / "near.jsonl").write_text(json.dumps({"text": near + " And so on."}) + "\n")
    (here / "data" / "bad.txt").write_bytes(b"\xff\xfe\xfd")
    text = here / "text.txt"
    text.write_text("\n".join(paragraph(draw) for _ in range(200)))
    train_tokenizer(text, template="bert", vocab_size=200).save(here / "words")
    return here


def made(corpus, target, **changes):
    settings = PrepareConfig(str(corpus / "words"), block=64, split="blank", task_bytes=6000, **changes)
    return prepare(corpus / "data", target, settings, workers=changes.pop("workers", 1))


def hashes(folder):
    return {str(p.relative_to(folder)): sha256(p) for p in sorted(folder.rglob("*")) if p.is_file()}


@pytest.fixture(scope="module")
def plain(corpus, tmp_path_factory):
    target = tmp_path_factory.mktemp("plain") / "shards"
    return target, made(corpus, target)


def test_every_document_is_accounted_for(plain, corpus):
    target, summary = plain
    assert summary.read == 8 * 20 + 62 + 1 and summary.quarantined == 2
    assert summary.documents == summary.read - 2 and sum(summary.dropped.values()) == 2
    quarantine = [json.loads(line) for line in (target / "quarantine.jsonl").read_text().splitlines()]
    assert {(one["place"], one["reason"]) for one in quarantine} == {
        ("bad.txt:1", "not UTF-8"), ("rows.jsonl:63", "not JSON")
    }  # fmt: skip
    shards = Shards(target)
    assert (
        len(shards) == summary.blocks and sum(len(b.tokens) for b in shards.take(range(len(shards)))) == summary.tokens
    )
    assert len(list(target.glob("part-00000/*.array_record"))) == summary.shards > 3
    shards_words = Tokenizer.load(target / "tokenizer")
    shards_words.check(shards.tokenizer)
    assert len((target / "sources.sha256").read_text().splitlines()) == summary.files
    first = shards_words.decode(shards[0].tokens[: shards[0].sentences[0]].tolist())
    assert (corpus / "data" / "0.txt").read_text().lower().startswith(first[:20].lower())


def test_many_shards_are_in_parts_with_a_manifest_each(plain, corpus, tmp_path, monkeypatch):
    """Two shards a part: the same blocks in the same order, and a damaged shard of any part is named."""
    monkeypatch.setattr("clearhead.corpus.steps.SHARDS_PER_PART", 2)
    monkeypatch.setattr("clearhead.corpus.prepare_corpus.SHARDS_PER_PART", 2)
    target = tmp_path / "shards"
    summary = made(corpus, target)
    parts = sorted(path.name for path in target.glob("part-*"))
    assert len(parts) == -(-summary.shards // 2) > 1 and summary == plain[1]
    here, there = Shards(target), Shards(plain[0])
    every = range(len(there))
    assert [b.to_bytes() for b in here.take(every)] == [b.to_bytes() for b in there.take(every)]
    (shard, *_) = (target / parts[-1]).glob("*.array_record")
    shard.write_bytes(b"x" + shard.read_bytes()[1:])
    with pytest.raises(IntegrityError, match=f"{parts[-1]}/{shard.name}' was changed"):
        Shards(target)
    manifest = target / parts[0] / "clearhead.json"
    manifest.write_text(manifest.read_text().replace("array_record", "array_rekord", 1))
    with pytest.raises(IntegrityError, match=f"{parts[0]}/clearhead.json"):
        Shards(target, check=False)


def test_the_same_bytes_in_a_store(plain, corpus, bucket, monkeypatch):
    """Interrupted while the last files are uploaded, it has no manifest; the same command completes it."""
    target, complete = bucket / "shards", prepare_corpus.upload_file

    def broken(source: Path, there: S3Path) -> None:
        if there.name == "tokenizer.json":
            raise ValueError("the store is gone")
        complete(source, there)

    monkeypatch.setattr(prepare_corpus, "upload_file", broken)
    with pytest.raises(ValueError, match="the store is gone"):
        made(corpus, target)
    assert any(name.startswith("part-00000/") for name in target.files())
    with pytest.raises(IntegrityError, match=r"clearhead\.json' is missing"):
        Shards(target)
    monkeypatch.setattr(prepare_corpus, "upload_file", complete)
    assert made(corpus, target) == plain[1]
    stored = {name: hashlib.sha256((target / name).read_bytes()).hexdigest() for name in target.files()}
    assert stored == hashes(plain[0])
    here, there = Shards(plain[0]), Shards(target)
    assert [b.to_bytes() for b in here.take(range(len(here)))] == [b.to_bytes() for b in there.take(range(len(there)))]
    assert not any((cache_home() / "corpora").rglob("*.work"))
    with pytest.raises(ValueError, match="already exists"):
        made(corpus, target)


def test_leftovers_of_a_killed_task_are_not_published(corpus, tmp_path):
    counts, part = tmp_path / "counts", tmp_path / "shards" / "part-00000"
    counts.mkdir()
    part.mkdir(parents=True)
    (counts / "00000.json").write_text('{"blocks": 3}')
    for suffix in ("array_record", "sizes", "places.gz", "part"):
        (part / f"shard-00000-of-00001.{suffix}").write_text(suffix)
    (part / ".shard.sizes.clearhead-01234567.new").write_text("half")
    SealPart(str(part.parent), str(counts), 1)(None, 0, 1)
    names = {path.name for path in part.iterdir()}
    assert names == {f"shard-00000-of-00001.{s}" for s in ("array_record", "sizes", "places.gz")} | {"clearhead.json"}
    assert verify(part).metadata == {"blocks": [["shard-00000-of-00001.array_record", 3]]}


def test_manifests_of_the_largest_corpora_are_small_enough(tmp_path):
    """A full part, and the root of 60,000 shards and of as many as are accepted; more are refused before reading."""
    digest = FileEntry(size=2**40, sha256="f" * 64)
    suffixes = ("array_record", "sizes", "places.gz")
    shards = [f"shard-{MAX_SHARDS - i - 1}-of-{MAX_SHARDS}" for i in range(SHARDS_PER_PART)]
    part = Manifest(
        version="100.100.100",
        metadata={"blocks": [(f"{shard}.array_record", 10**9) for shard in shards]},
        files={f"{shard}.{suffix}": digest for shard in shards for suffix in suffixes},
    )
    assert len(manifest.serialize(part)) < MAX_MANIFEST_BYTES
    for count in (60_000, MAX_SHARDS):
        check_size(count)
        files = {f"{part_name(rank)}/clearhead.json": digest for rank in range(0, count, SHARDS_PER_PART)}
        root = Manifest(version="100.100.100", metadata={"summary": "x" * 100_000}, files=files)
        assert len(manifest.serialize(root)) < MAX_MANIFEST_BYTES
    with pytest.raises(ValueError, match="the corpus would have 10,000,001 shards"):
        check_size(MAX_SHARDS + 1)


def test_near_doubles_go_too(corpus, tmp_path, plain):
    summary = made(corpus, tmp_path / "shards", dedup="minhash")
    assert summary.documents == plain[1].documents - 1


def test_poor_documents_are_dropped_with_a_reason(corpus, tmp_path):
    summary = made(corpus, tmp_path / "shards", quality=("gopher",))
    assert summary.dropped["gopher_short_doc"] > 0
    assert summary.read == summary.documents + sum(summary.dropped.values())


@pytest.mark.slow
@pytest.mark.parametrize("workers", [2, 4])
def test_any_number_of_workers_gives_the_same_bytes(corpus, tmp_path, plain, workers):
    settings = PrepareConfig(str(corpus / "words"), block=64, split="blank", task_bytes=6000)
    prepare(corpus / "data", tmp_path / "shards", settings, workers=workers)
    assert hashes(tmp_path / "shards") == hashes(plain[0])


@pytest.mark.slow
def test_a_local_ray_gives_the_same_bytes(corpus, tmp_path):
    """As it is used: by the command, in a process of its own, with the tasks that this much text makes."""
    pytest.importorskip("ray")
    given = ["--tokenizer", corpus / "words", "--block", "64", "--split", "blank", "--workers", "2", "--json"]
    for on in ("local", "ray"):
        command = [
            sys.executable,
            "-m",
            "clearhead.cli",
            "prepare",
            corpus / "data",
            "--out",
            tmp_path / on,
            "--on",
            on,
            *given,
        ]
        done = subprocess.run(command, capture_output=True, text=True, timeout=400)
        assert done.returncode == 0, done.stderr[-2000:]
    assert hashes(tmp_path / "ray") == hashes(tmp_path / "local")


SCRIPT = """
import sys
from pathlib import Path
from clearhead.corpus.prepare_corpus import PrepareConfig, prepare
corpus, words, target = sys.argv[1:4]
prepare(Path(corpus), Path(target), PrepareConfig(words, block=64, split="blank", task_bytes=6000))
"""


def stopped_at_random(corpus, target, draw, longest):
    """Kill a preparation after some time; says whether it was done before, if only its shards and not its process."""
    arguments = [sys.executable, "-c", SCRIPT, corpus / "data", corpus / "words", target]
    process = subprocess.Popen(arguments, stderr=subprocess.PIPE, text=True, start_new_session=True)
    try:
        _, said = process.communicate(timeout=draw.uniform(0.0, longest))
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        return target.exists()
    assert process.returncode == 0, said
    return True


@pytest.mark.parametrize("kills", [2, pytest.param(100, marks=pytest.mark.slow)])
def test_killed_anywhere_it_comes_to_the_same_bytes(corpus, tmp_path, plain, kills):
    draw, done = random.Random(kills), 0
    begin = time.perf_counter()
    subprocess.run([sys.executable, "-c", SCRIPT, corpus / "data", corpus / "words", tmp_path / "whole"], check=True)
    longest, number = time.perf_counter() - begin, 0
    assert hashes(tmp_path / "whole") == hashes(plain[0])
    while done < kills:
        target = tmp_path / f"shards{number}"
        while not target.exists() and done < kills:
            done += not stopped_at_random(corpus, target, draw, longest)
        if not target.exists():
            subprocess.run([sys.executable, "-c", SCRIPT, corpus / "data", corpus / "words", target], check=True)
        assert hashes(target) == hashes(plain[0])
        number += 1


def test_what_was_begun_otherwise_is_not_mixed(corpus, tmp_path):
    target = tmp_path / "shards"
    (tmp_path / "shards.work").mkdir()
    (tmp_path / "shards.work" / "recipe.json").write_text("{}")
    with pytest.raises(ValueError, match="created from a different corpus"):
        made(corpus, target)
    with pytest.raises(ValueError, match="quality filter 'good'"):
        made(corpus, target, quality=("good",))
