"""The index: updates by content hash, versions that are whole, and search by words, vectors and both."""

import os
import signal
import subprocess
import sys
import time

import pytest

from clearhead.search import Document, Index, IndexConfig, PassageConfig, read_documents
from clearhead.search.index import fingerprint
from tests.real import MINILM

needs_minilm = pytest.mark.skipif(MINILM is None, reason="MiniLM is not installed")
DOCUMENTS = [
    Document("museum.txt", "The museum opens at ten. It is closed on Mondays."),
    Document("library.txt", "Books can be returned at the desk. The library lends films too."),
    Document('it\'s a "name".txt', "Cats sleep in the cloakroom. Dogs are not allowed inside."),
]


def made(address: str, model: str | None = None) -> Index:
    return Index.create(address, IndexConfig(model=model, passages=PassageConfig(max_words=8, overlap=0)))


def test_words_find_their_passage_by_stem(address):
    index = made(address)
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


def test_an_update_touches_only_what_changed(address):
    index = made(address)
    index.update(DOCUMENTS)
    again = Index.open(address)
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
    kept = Index.open(address)
    kept.update([DOCUMENTS[1]], delete_missing=False)
    assert {r.source for r in kept.search("museum library cats")} == {d.source for d in DOCUMENTS}


def test_one_changed_file_of_a_thousand_is_quick(tmp_path):
    docs, uri = tmp_path / "docs", str(tmp_path / "index")
    docs.mkdir()
    for i in range(1000):
        (docs / f"{i:04}.md").write_text(f"# Part {i}\n\nThe number{i} is here. " + "More of it follows. " * 20)
    Index.create(uri, IndexConfig()).update(read_documents(docs))
    (docs / "0500.md").write_text("A single zebra.")
    begin = time.perf_counter()
    report = Index.open(uri).update(read_documents(docs))
    assert time.perf_counter() - begin < 5
    assert (report.changed, report.unchanged) == (1, 999)
    assert [result.source for result in Index.open(uri).search("zebra")] == ["0500.md"]


def test_a_reader_keeps_its_version_while_another_writes(tmp_path):
    address = str(tmp_path / "index")
    writer = made(address)
    writer.update(DOCUMENTS[:1])
    reader = Index.open(address)
    writer.update(DOCUMENTS[1:])
    assert reader.search("museum")[0].source == "museum.txt"
    assert reader.search("books") == []
    assert Index.open(address).search("museum") == []


def test_two_documents_with_one_name_are_refused(address):
    with pytest.raises(ValueError, match="two documents"):
        made(address).update([DOCUMENTS[0], DOCUMENTS[0]])


KILLED = """
import sys
from clearhead.search import Document, Index, index
index.COMMIT_PASSAGES = 40
found = Index.open(sys.argv[1])
print("go", flush=True)
found.update(Document(f"d{i}.txt", f"Version two of number{i}. It has word{i} inside of its second sentence.") for i in range(400))
print("done", flush=True)
"""


@pytest.mark.parametrize("kills", [2, pytest.param(50, marks=pytest.mark.slow)])
def test_killed_at_any_time_old_or_new_documents_answer_and_none_is_lost_or_doubled(address, kills):
    index = made(address)
    index.update(
        Document(f"d{i}.txt", f"Version one of number{i}. It has word{i} inside of its second sentence.")
        for i in range(400)
    )
    for kill in range(kills):
        process = subprocess.Popen([sys.executable, "-c", KILLED, address], stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(0.02 + 0.35 * kill / kills)
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        process.stdout.close()
        now = Index.open(address)
        assert len(now) == 800
        found = now.search("number7 word7", 2)
        assert {r.source for r in found} == {"d7.txt"}
        assert len({r.text.split()[1] for r in found if r.text.startswith("Version")}) <= 1
    done = subprocess.run([sys.executable, "-c", KILLED, address], capture_output=True, text=True)
    assert done.stdout.split() == ["go", "done"], done.stderr
    final = Index.open(address)
    assert len(final) == 800
    assert all(final.search(f"number{i}", 1)[0].text == f"Version two of number{i}." for i in range(0, 400, 37))


@needs_minilm
def test_vectors_find_what_words_do_not(address):
    index = made(address, str(MINILM))
    index.update(DOCUMENTS)
    assert index.search("pets", mode="words") == []
    assert index.search("pets", mode="vectors")[0].source == 'it\'s a "name".txt'
    both = index.search("pets near the desk")
    assert {both[0].source, both[1].source} == {'it\'s a "name".txt', "library.txt"}
    assert both[0].vector_rank is not None
    opened = Index.open(address)
    assert [r.text for r in opened.search("pets")] == [r.text for r in index.search("pets")]


@needs_minilm
def test_vectors_of_another_model_are_refused(tmp_path, address, minilm):
    index = made(address, str(MINILM))
    index.update(DOCUMENTS[:1])
    other = tmp_path / "other"
    minilm.save(other)
    assert Index.open(address, model=str(other)).search("museum")[0].source == "museum.txt"
    import clearhead

    changed = clearhead.load(other)
    before = fingerprint(changed)
    next(iter(changed.model.parameters())).data[0, 0] += 1
    assert fingerprint(changed) != before
    changed.save(tmp_path / "changed")
    with pytest.raises(ValueError, match="not the model of this index"):
        Index.open(address, model=str(tmp_path / "changed"))


def test_wrong_addresses_and_modes_say_what_to_do(tmp_path, address):
    with pytest.raises(ValueError, match="make one with `clearhead index"):
        Index.open(str(tmp_path / "nothing"))
    index = made(address)
    with pytest.raises(ValueError, match="exists"):
        made(address)
    with pytest.raises(ValueError, match="no vectors"):
        index.search("x", mode="vectors")
    with pytest.raises(ValueError, match="no mode"):
        index.search("x", mode="dense")
    assert index.search("anything") == []


def test_a_search_in_postgres_sees_one_version(postgres):
    address = f"{postgres}#snapshot"
    writer = made(address)
    writer.update(DOCUMENTS)
    reader = Index.open(address)
    with reader._table.snapshot():
        before = reader._table.search_text("museum", 5)
        writer.update(DOCUMENTS[1:])
        assert reader._table.rows([id for id, _ in before]), "what was found can be read although it is gone by now"
        assert reader._table.search_text("museum", 5) == before
    assert reader.search("museum") == []


def test_wrong_databases_say_what_to_do(postgres):
    with pytest.raises(ValueError, match="lower-case"):
        Index.open(f"{postgres}#drop table")
    with pytest.raises(ValueError, match="cannot be reached"):
        Index.open("postgresql://127.0.0.1:1/none?connect_timeout=2")


@needs_minilm
def test_both_engines_find_the_same(tmp_path, postgres):
    texts = [
        f"{a} {b} {c}." for a in ("red", "green", "old") for b in ("cats", "boats", "houses") for c in ("sleep", "burn")
    ]
    documents = [Document(f"{i}.txt", text) for i, text in enumerate(texts)]
    first, second = made(str(tmp_path / "index"), str(MINILM)), made(f"{postgres}#same", str(MINILM))
    for index in (first, second):
        index.update(documents)
    for query in ("burning red boat", "pets", "an old ship on fire"):
        ours, theirs = (index.search(query, 5, mode="vectors") for index in (first, second))
        assert [r.source for r in ours] == [r.source for r in theirs]
        assert [r.score for r in ours] == pytest.approx([r.score for r in theirs], abs=1e-5)
    for query in ("burning red boat", "green house"):
        ours, theirs = (index.search(query, 3, mode="words") for index in (first, second))
        assert ours[0].source == theirs[0].source
        assert [round(r.score, 2) for r in ours] == [round(r.score, 2) for r in theirs], "both are BM25"
