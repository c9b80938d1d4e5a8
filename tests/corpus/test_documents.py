"""Sources: every format and packing, and a reason for whatever cannot be read."""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
import random
from typing import Any

import pytest

from clearhead.corpus.documents import SourceDocument, UnreadableDocument, documents, files_of, tasks_of

PACKERS = {"": bytes, ".gz": gzip.compress, ".xz": lzma.compress, ".bz2": bz2.compress}


def read(folder, name, **how) -> list[Any]:
    return list(documents(folder / name, folder, **how))


@pytest.mark.parametrize("packed", [*PACKERS, ".zst"])
def test_packed_or_not_a_text_is_the_same(tmp_path, packed):
    if packed == ".zst":
        pack = pytest.importorskip("zstandard").ZstdCompressor().compress
    else:
        pack = PACKERS[packed]
    text = "First line.\nSecond.\n\n\nThird, é.\n"
    (tmp_path / f"a.txt{packed}").write_bytes(pack(text.encode()))
    name = f"a.txt{packed}"
    assert read(tmp_path, name) == [SourceDocument(name, text)]
    assert [one.text.strip() for one in read(tmp_path, name, split="line")] == ["First line.", "Second.", "Third, é."]
    assert [one.place for one in read(tmp_path, name, split="line")] == [f"{name}:1", f"{name}:2", f"{name}:5"]
    blank = read(tmp_path, name, split="blank")
    assert [one.text for one in blank] == ["First line.\nSecond.\n", "Third, é.\n"]
    assert [one.place for one in blank] == [f"{name}:1", f"{name}:5"]


def test_json_lines_and_parquet(tmp_path):
    rows = [{"text": "one"}, {"other": 1}, {"text": 5}]
    (tmp_path / "a.jsonl").write_text("\n".join([json.dumps(r) for r in rows] + ["{", "[1]", ""]) + "\n")
    assert read(tmp_path, "a.jsonl") == [
        SourceDocument("a.jsonl:1", "one"), UnreadableDocument("a.jsonl:2", "no text in 'text'"), UnreadableDocument("a.jsonl:3", "no text in 'text'"),
        UnreadableDocument("a.jsonl:4", "not JSON"), UnreadableDocument("a.jsonl:5", "no text in 'text'"),
    ]  # fmt: skip
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    parquet.write_table(arrow.table({"body": ["x y", None, "z"]}), tmp_path / "b.parquet")
    assert read(tmp_path, "b.parquet", column="body") == [
        SourceDocument("b.parquet:0", "x y"), UnreadableDocument("b.parquet:1", "no text in 'body'"), SourceDocument("b.parquet:2", "z")
    ]  # fmt: skip
    assert "ValueError" in read(tmp_path, "b.parquet")[0].reason


def test_what_cannot_be_a_document_has_a_reason(tmp_path):
    held = {
        "nul.txt": (b"a\0b", "has a NUL character"),
        "empty.txt": (b"  \n", "is empty"),
        "latin.txt": ("café".encode("latin-1"), "not UTF-8"),
        "long.txt": (b"x" * (11 << 20), "longer than 10 MiB"),
        "cut.txt.gz": (gzip.compress(b"text " * 9999)[:60], "reading failed after 0 documents"),
        "no.txt.gz": (b"plain", "reading failed after 0 documents"),
        "bomb.txt.gz": (gzip.compress((b"x" * 1023 + b"\n") * (64 << 10)), "expands to more than"),
        "no.parquet": (b"PAR1", "reading failed after 0 documents"),
        "half.jsonl": (b'{"text": "\\ud800"}\n', "has an unpaired surrogate"),
    }
    for name, (data, reason) in held.items():
        (tmp_path / name).write_bytes(data)
        (only,) = read(tmp_path, name)
        assert isinstance(only, UnreadableDocument) and reason in only.reason, (name, only)


def test_a_line_too_long_does_not_hide_the_next(tmp_path):
    (tmp_path / "a.txt").write_bytes(b"x" * (12 << 20) + b"\nshort\n")
    first, second = read(tmp_path, "a.txt", split="line")
    assert isinstance(first, UnreadableDocument) and second == SourceDocument("a.txt:2", "short\n")


def test_links_that_lead_out_are_told(tmp_path):
    corpus = tmp_path / "corpus"
    corpus.mkdir()
    (tmp_path / "secret.txt").write_text("outside")
    (corpus / "in.txt").write_text("inside")
    (corpus / "out.txt").symlink_to("../secret.txt")
    (corpus / "same.txt").symlink_to("in.txt")
    found = {path.name: next(documents(path, corpus)) for path in files_of(corpus)}
    assert found["out.txt"] == UnreadableDocument("out.txt", "a symbolic link to outside the corpus")
    assert found["same.txt"] == SourceDocument("same.txt", "inside")


def test_tasks_are_runs_of_files_whatever_the_workers(tmp_path):
    for i in range(10):
        (tmp_path / f"{i}.txt").write_text("x" * 100)
    runs = tasks_of(files_of(tmp_path), 250)
    assert [len(run) for run in runs] == [2] * 5
    assert [path.name for run in runs for path in run] == [f"{i}.txt" for i in range(10)]
    (tmp_path / "empty").mkdir()
    with pytest.raises(ValueError, match="has no supported file"):
        files_of(tmp_path / "empty")


def test_a_thousand_damaged_files_are_read_or_told(tmp_path):
    """Whatever is done to a file, reading it ends, and says something of it."""
    draw = random.Random(0)
    text = "\n".join(json.dumps({"text": f"Sentence {i}. And é {i}."}) for i in range(50)).encode()
    for i in range(1000):
        packed = draw.choice(["", ".gz", ".xz", ".bz2"])
        data = bytearray(PACKERS[packed](text))
        how = draw.randrange(4)
        if how == 0:
            data = data[: draw.randrange(len(data))]
        elif how == 1:
            for _ in range(draw.randint(1, 20)):
                data[draw.randrange(len(data))] = draw.randrange(256)
        elif how == 2:
            data[draw.randrange(len(data)) :] = bytes(draw.randrange(256) for _ in range(30))
        else:
            data = bytearray(draw.randbytes(draw.randrange(1, 200)))
        path = tmp_path / f"{i}{draw.choice(['.jsonl', '.txt'])}{packed}"
        path.write_bytes(data)
        found = list(documents(path, tmp_path))
        assert all(isinstance(one, (SourceDocument, UnreadableDocument)) for one in found)
        assert found or path.name.endswith(".jsonl") or ".jsonl." in path.name
