"""`clearhead prepare`: what it tells, and what it refuses."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner

from clearhead.cli import app
from clearhead.corpus import PrepareConfig, prepare_corpus
from clearhead.data.shards import Shards
from clearhead.text import train_tokenizer

pytest.importorskip("datatrove")


@pytest.fixture
def corpus(tmp_path):
    folder = tmp_path / "corpus"
    folder.mkdir()
    lines = [f"Here is sentence {i}. And there is another." for i in range(30)]
    (folder / "a.txt").write_text("\n".join([*lines, lines[0]]) + "\n")
    (folder / "b.txt").write_bytes(b"caf\xe9\n")
    train_tokenizer(folder / "a.txt", template="bert", vocab_size=80).save(tmp_path / "words")
    return tmp_path


def run(corpus, *more):
    given = [
        "prepare",
        corpus / "corpus",
        "--out",
        corpus / "shards",
        "--tokenizer",
        corpus / "words",
        "--split",
        "line",
        *more,
    ]
    return CliRunner().invoke(app, [str(x) for x in given])


def test_the_summary_adds_up(corpus):
    done = run(corpus, "--json", "--block", "32")
    assert done.exit_code == 0, done.output
    told = json.loads(done.stdout)
    assert (told["files"], told["read"], told["quarantined"], told["documents"]) == (2, 31, 1, 30)
    assert told["dropped"] == {"duplicate (exact)": 1}
    assert len(Shards(corpus / "shards")) == told["blocks"] and told["sentences"] >= 60
    assert not (corpus / "shards.work").exists()
    again = run(corpus)
    assert again.exit_code == 2 and "already exists" in again.output


def test_the_screen_has_every_count(corpus):
    out = run(corpus).stdout
    for words in ("documents read", "dropped: duplicate", "documents kept", "tokens", "documents/s"):
        assert words in out


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (("--dedup", "some"), "dedup 'some': choose none, exact, minhash"),
        (("--quality", "best"), "there is no quality filter 'best'"),
        (("--on", "moon"), "--on moon is unknown: choose local, slurm or ray"),
        (("--split", "word"), "--split word"),
        (("--block", "2"), "blocks of 2 tokens"),
        (("--documents", "9"), "--documents is for --plan"),
    ],
)
def test_what_cannot_be_is_told_in_a_line(corpus, more, words):
    done = run(corpus, *more)
    assert done.exit_code == 2 and words in done.output
    assert not (corpus / "shards").exists()


def test_a_folder_without_text_is_told(corpus):
    (corpus / "empty").mkdir()
    done = CliRunner().invoke(
        app, ["prepare", str(corpus / "empty"), "--out", str(corpus / "s"), "--tokenizer", str(corpus / "words")]
    )
    assert done.exit_code == 2 and "has no supported file" in done.output


def test_a_plan_reads_nothing(corpus):
    done = run(corpus, "--plan", "--dedup", "minhash", "--documents", "15000000000", "--json")
    assert done.exit_code == 0, done.output
    stages = {stage["name"]: stage for stage in json.loads(done.stdout)}
    assert list(stages) == ["read", "hash", "equal", "sign", "compare", "cluster", "pack", "seal"]
    assert (stages["equal"]["tasks"], stages["hash"]["disk_bytes"]) == (338, 180 * 10**9)
    assert not (corpus / "shards.work").exists()
    screen = run(corpus, "--plan").stdout
    assert "memory of a task" in screen and "cluster" not in screen, "exact deduplication has no such stage"


def test_a_stage_that_does_not_fit_on_the_disk_is_refused(corpus, monkeypatch):
    monkeypatch.setattr("clearhead.corpus.prepare_corpus.shutil.disk_usage", lambda _: SimpleNamespace(free=371))
    done = run(corpus)  # 31 documents of 12 bytes each
    assert done.exit_code == 2 and "stage 'hash' writes" in done.output and "make room" in done.output
    monkeypatch.undo()
    assert run(corpus).exit_code == 0, "the same command resumes"


def test_tasks_of_a_large_corpus_are_larger(corpus, monkeypatch):
    for i in range(20):
        (corpus / "corpus" / f"{i}.txt").write_text("Some words here.\n")
    settings = PrepareConfig(str(corpus / "words"), task_bytes=1)
    assert prepare_corpus.plan_stages(corpus / "corpus", settings)[0].tasks == 22
    monkeypatch.setattr(prepare_corpus, "MAX_TASKS", 4)
    assert prepare_corpus.plan_stages(corpus / "corpus", settings)[0].tasks <= 5
