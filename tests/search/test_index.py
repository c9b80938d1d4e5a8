"""The index: updates by content hash, versions that are whole, and search by words, vectors and both."""

import os
import signal
import subprocess
import sys
import time

import pytest

from clearhead.search import Document, Index, IndexConfig, PassageConfig
from clearhead.search.index import fingerprint
from tests.real import MINILM

needs_minilm = pytest.mark.skipif(MINILM is None, reason="MiniLM is not installed")
DOCUMENTS = [
    Document("museum.txt", "The museum opens at ten. It is closed on Mondays."),
    Document("library.txt", "Books can be returned at the desk. The library lends films too."),
    Document('it\'s a "name".txt', "Cats sleep in the cloakroom. Dogs are not allowed inside."),
]


def made(tmp_path, model: str | None = None) -> Index:
    return Index.create(
        str(tmp_path / "index"), IndexConfig(model=model, passages=PassageConfig(max_words=8, overlap=0))
    )


def test_words_find_their_passage_by_stem(tmp_path):
    index = made(tmp_path)
    report = index.update(DOCUMENTS)
    assert (report.added, report.changed, report.deleted) == (3, 0, 0)
    first = index.search("return a book")[0]
    assert first.source == "library.txt"
    assert first.text == "Books can be returned at the desk."
    assert DOCUMENTS[1].text[first.start : first.end] == first.text
    assert first.text_rank == 1
    assert index.search("sleeping cat")[0].source == 'it\'s a "name".txt'
    assert index.search("zebra") == []
    assert index.search("  ") == []


def test_an_update_touches_only_what_changed(tmp_path):
    index = made(tmp_path)
    index.update(DOCUMENTS)
    again = Index.open(str(tmp_path / "index"))
    before = again.version
    report = again.update(DOCUMENTS)
    assert report.unchanged == 3
    assert again.version == before, "nothing is written"
    changed = Document("museum.txt", "The museum opens at noon.")
    report = again.update([changed, DOCUMENTS[2]])
    assert (report.added, report.changed, report.deleted, report.unchanged) == (0, 1, 1, 1)
    assert again.search("museum opens")[0].text == "The museum opens at noon."
    assert [r.source for r in again.search("Mondays closed books films")] == []
    assert len(again) == 3
    kept = Index.open(str(tmp_path / "index"))
    kept.update([DOCUMENTS[1]], delete_missing=False)
    assert {r.source for r in kept.search("museum library cats")} == {d.source for d in DOCUMENTS}


def test_a_reader_keeps_its_version_while_another_writes(tmp_path):
    writer = made(tmp_path)
    writer.update(DOCUMENTS[:1])
    reader = Index.open(str(tmp_path / "index"))
    writer.update(DOCUMENTS[1:])
    assert reader.search("museum")[0].source == "museum.txt"
    assert reader.search("books") == []
    assert Index.open(str(tmp_path / "index")).search("museum") == []


def test_two_documents_with_one_name_are_refused(tmp_path):
    with pytest.raises(ValueError, match="two documents"):
        made(tmp_path).update([DOCUMENTS[0], DOCUMENTS[0]])


KILLED = """
import sys
from clearhead.search import Document, Index, index
index.COMMIT_PASSAGES = 40
found = Index.open(sys.argv[1])
print("go", flush=True)
found.update(Document(f"d{i}.txt", f"Version two of number{i}. It has word{i} inside of its second sentence.") for i in range(400))
print("done", flush=True)
"""


@pytest.mark.parametrize("kills", [4, pytest.param(50, marks=pytest.mark.slow)])
def test_killed_at_any_time_old_or_new_documents_answer_and_none_is_lost_or_doubled(tmp_path, kills):
    index = made(tmp_path)
    index.update(
        Document(f"d{i}.txt", f"Version one of number{i}. It has word{i} inside of its second sentence.")
        for i in range(400)
    )
    uri = str(tmp_path / "index")
    for kill in range(kills):
        process = subprocess.Popen([sys.executable, "-c", KILLED, uri], stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(0.02 + 0.35 * kill / kills)
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        process.stdout.close()
        now = Index.open(uri)
        assert len(now) == 800
        found = now.search("number7 word7", 2)
        assert {r.source for r in found} == {"d7.txt"}
        assert len({r.text.split()[1] for r in found if r.text.startswith("Version")}) <= 1
    done = subprocess.run([sys.executable, "-c", KILLED, uri], capture_output=True, text=True)
    assert done.stdout.split() == ["go", "done"], done.stderr
    final = Index.open(uri)
    assert len(final) == 800
    assert all(final.search(f"number{i}", 1)[0].text == f"Version two of number{i}." for i in range(0, 400, 37))


@needs_minilm
def test_vectors_find_what_words_do_not(tmp_path):
    index = made(tmp_path, str(MINILM))
    index.update(DOCUMENTS)
    assert index.search("pets", mode="words") == []
    assert index.search("pets", mode="vectors")[0].source == 'it\'s a "name".txt'
    both = index.search("pets near the desk")
    assert {both[0].source, both[1].source} == {'it\'s a "name".txt', "library.txt"}
    assert both[0].vector_rank is not None
    opened = Index.open(str(tmp_path / "index"))
    assert [r.text for r in opened.search("pets")] == [r.text for r in index.search("pets")]


@needs_minilm
def test_vectors_of_another_model_are_refused(tmp_path, minilm):
    index = made(tmp_path, str(MINILM))
    index.update(DOCUMENTS[:1])
    other = tmp_path / "other"
    minilm.save(other)
    assert Index.open(str(tmp_path / "index"), model=str(other)).search("museum")[0].source == "museum.txt"
    import clearhead

    changed = clearhead.load(other)
    before = fingerprint(changed)
    next(iter(changed.model.parameters())).data[0, 0] += 1
    assert fingerprint(changed) != before
    changed.save(tmp_path / "changed")
    with pytest.raises(ValueError, match="not the model of this index"):
        Index.open(str(tmp_path / "index"), model=str(tmp_path / "changed"))


def test_wrong_addresses_and_modes_say_what_to_do(tmp_path):
    with pytest.raises(ValueError, match="make one with `clearhead index"):
        Index.open(str(tmp_path / "nothing"))
    index = made(tmp_path)
    with pytest.raises(ValueError, match="exists"):
        made(tmp_path)
    with pytest.raises(ValueError, match="no vectors"):
        index.search("x", mode="vectors")
    with pytest.raises(ValueError, match="no mode"):
        index.search("x", mode="dense")
    assert index.search("anything") == []
