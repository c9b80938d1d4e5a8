"""Many workers make the index that one makes; a killed run continues, and readers see all of it or nothing."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest

from clearhead.search import Index, IndexConfig, PassageConfig, read_documents
from clearhead.search import parallel_update as module
from clearhead.search.document_readers import ReadReport

pytest.importorskip("datatrove")
CONFIG = IndexConfig(passages=PassageConfig(max_words=30, overlap=0))


@pytest.fixture
def docs(tmp_path):
    folder = tmp_path / "docs"
    folder.mkdir()
    for i in range(24):
        (folder / f"{i:02}.md").write_text(f"# Part {i}\n\nThe word{i} is here. " + "More of it follows. " * 12)
    (folder / "broken.jsonl").write_text("[1]\n")
    return folder


@pytest.fixture(autouse=True)
def small_tasks(monkeypatch):
    monkeypatch.setattr(module, "TASK_BYTES", 1000)


def content(uri):
    return sorted((p.source, p.start, p.end, p.text, p.heading) for p in Index.open(uri).all_passages())


def update(uri, docs, **options):
    skipped = ReadReport()
    report = module.update_in_parallel(str(uri), docs, skipped, **options)
    return report, skipped


@pytest.mark.parametrize("workers", [1, 2])
def test_the_index_of_many_is_that_of_one(tmp_path, docs, workers):
    one, many = str(tmp_path / "one"), str(tmp_path / "many")
    Index.create(one, CONFIG).update(read_documents(docs))
    Index.create(many, CONFIG)
    shown = []
    report, skipped = update(many, docs, workers=workers, on_progress=lambda *state: shown.append(state))
    assert (report.added, report.unchanged, report.deleted) == (24, 0, 0)
    assert [name for name, _ in skipped.skipped] == ["broken.jsonl"]
    assert content(many) == content(one) and len(content(one)) > 24
    assert shown[-1][0] == "index" and shown[-1][1] == shown[-1][2] > 2
    query = "word7"
    assert [(r.source, r.start, r.text_rank) for r in Index.open(many).search(query)] == [
        (r.source, r.start, r.text_rank) for r in Index.open(one).search(query)
    ]
    assert not list((tmp_path / "many" / "work").iterdir()), "nothing is left behind"


def test_changes_are_one_commit(tmp_path, docs):
    uri = str(tmp_path / "index")
    Index.create(uri, CONFIG)
    update(uri, docs)
    old = Index.open(uri)
    before = content(uri)
    (docs / "03.md").write_text("# New\n\nA different zebra.")
    (docs / "04.md").unlink()
    (docs / "99.md").write_text("An added walrus.")
    report, _ = update(uri, docs)
    assert (report.added, report.changed, report.deleted, report.unchanged) == (1, 1, 1, 22)
    assert len(old) == len(before), "an open index keeps its version"
    one = str(tmp_path / "one")
    Index.create(one, CONFIG).update(read_documents(docs))
    assert content(uri) == content(one)
    assert [r.source for r in Index.open(uri).search("zebra")] == ["03.md"]
    assert not Index.open(uri).search("word4")
    version = Index.open(uri).version
    report, _ = update(uri, docs)
    assert report.unchanged == 24 and Index.open(uri).version == version, "without a change, no commit"


def test_equal_ids_in_two_files_are_two_documents(tmp_path, docs):
    for name in ("a", "b"):
        (docs / f"{name}.jsonl").write_text(json.dumps({"id": "same", "text": "word " * 300}) + "\n")
    uri = str(tmp_path / "index")
    Index.create(uri, CONFIG)
    report, _ = update(uri, docs)
    assert report.added == 26
    assert {p.source for p in Index.open(uri).all_passages()} >= {"a.jsonl#same", "b.jsonl#same"}


def test_a_killed_run_continues(tmp_path, docs):
    uri = str(tmp_path / "index")
    Index.create(uri, CONFIG)
    script = (
        "import sys, time\nfrom pathlib import Path\n"
        "from clearhead.search import parallel_update as m\nfrom clearhead.search.document_readers import ReadReport\n"
        "m.TASK_BYTES = 1000\nwrite = m.write_atomic\n"
        "m.write_atomic = lambda *a: (time.sleep(0.4), write(*a))\n"
        "m.update_in_parallel(sys.argv[1], Path(sys.argv[2]), ReadReport())\n"
    )
    process = subprocess.Popen([sys.executable, "-c", script, uri, str(docs)], start_new_session=True)
    work = tmp_path / "index" / "work"
    end = time.monotonic() + 120
    while time.monotonic() < end and len(list(work.rglob("0000*.json"))) < 4:
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    done = {path.name: path.stat().st_mtime_ns for path in work.glob("*/0000*.json")}
    assert len(done) >= 2 and len(Index.open(uri)) == 0, "nothing of a killed run is seen"
    done.pop(max(done))  # it may lack its mark
    used: list[str] = []
    read_text = module.Path.read_text

    def reading(path, *args):
        if path.name in done:
            used.append(path.name)
            assert path.stat().st_mtime_ns == done[path.name], "a task that was complete is not run again"
        return read_text(path, *args)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module.Path, "read_text", reading)
        update(uri, docs)
    assert set(used) == set(done)
    one = str(tmp_path / "one")
    Index.create(one, CONFIG).update(read_documents(docs))
    assert content(uri) == content(one)


def test_a_database_takes_one_worker(postgres, docs):
    uri = f"{postgres}#parallel"
    Index.create(uri, CONFIG)
    with pytest.raises(ValueError, match="use one worker"):
        update(uri, docs)
