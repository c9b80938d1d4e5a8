from __future__ import annotations

import csv
import gzip
import io
import json
import lzma
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clearhead.data import Row, SkippedRow, columns_of, read_rows
from clearhead.data.lines import MAX_LINE_BYTES
from tests.real import DATA

PACK = {"": bytes, ".gz": lambda data: gzip.compress(data, 1), ".xz": lambda data: lzma.compress(data, preset=0)}
packed = pytest.mark.parametrize("packed", PACK)

# Text as people have it: every character but those that a line of a file cannot hold.
text = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=30).filter(str.strip)
line = text.filter(lambda t: "\n" not in t and not t.endswith("\r") and t[0] != "\ufeff")
field = line.filter(lambda t: "\t" not in t)
many = st.lists


def write(folder: Path, name: str, data: str | bytes, packed: str = "") -> Path:
    path = folder / (name + packed)
    path.write_bytes(PACK[packed](data if isinstance(data, bytes) else data.encode("utf-8")))
    return path


def values(rows) -> list[dict[str, str]]:
    return [row.values for row in rows]


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("rows")


@packed
@given(pairs=many(st.tuples(line, line), max_size=10), end=st.sampled_from(["\n", "\r\n"]), last=st.booleans())
def test_parallel_text_comes_back(folder, packed, pairs, end, last):
    files = {
        name: write(folder, name, end.join(column) + (end if last and pairs else ""), packed)
        for name, column in zip(("en", "de"), zip(*pairs, strict=True) if pairs else ((), ()), strict=True)
    }
    rows = read_rows(files)
    for _ in range(2):  # read anew each time
        assert list(rows) == [
            Row({"en": a, "de": b}, str(files["en"]), number) for number, (a, b) in enumerate(pairs, 1)
        ]
        assert rows.num_rows == len(pairs) and rows.num_skipped == 0 and rows.skipped == [] and rows.report() == ""


@packed
@given(pairs=many(st.tuples(field, field), max_size=10), header=st.booleans())
def test_tsv_comes_back(folder, packed, pairs, header):
    head = "the a\tthe b\n" if header else ""
    path = write(folder, "t.tsv", head + "".join(f"{a}\t{b}\n" for a, b in pairs), packed)
    if not pairs and not header:
        return
    names = {"x": "the b", "y": "the a"} if header else {"x": "2", "y": "1"}
    assert list(read_rows(path, names)) == [
        Row({"x": b, "y": a}, str(path), number) for number, (a, b) in enumerate(pairs, 1 + header)
    ]
    assert columns_of(path, header=header) == (["the a", "the b"] if header else ["1", "2"])


@packed
@given(pairs=many(st.tuples(text, text), max_size=10), quoting=st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]))
def test_csv_comes_back_with_the_lines_right(folder, packed, pairs, quoting):
    file = io.StringIO()
    writer = csv.writer(file, quoting=quoting)
    writer.writerow(["a", "b"])
    wanted = []
    for a, b in pairs:
        wanted.append((file.getvalue().count("\n") + 1, {"a": a, "b": b}))
        writer.writerow([a, b])
    rows = read_rows(write(folder, "t.csv", file.getvalue(), packed))
    assert [(row.line, row.values) for row in rows] == wanted and rows.num_skipped == 0


@packed
@given(pairs=many(st.tuples(text, text), max_size=10), ascii_only=st.booleans())
def test_jsonl_comes_back(folder, packed, pairs, ascii_only):
    lines = [json.dumps({"a": a, "c": [1], "b": b}, ensure_ascii=ascii_only) + "\n" for a, b in pairs]
    path = write(folder, "t.jsonl", "".join(lines), packed)
    if pairs:
        assert columns_of(path) == ["a", "c", "b"]
        rows = read_rows(path, {"x": "a", "y": "b"})
        assert list(rows) == [Row({"x": a, "y": b}, str(path), number) for number, (a, b) in enumerate(pairs, 1)]


@given(pairs=many(st.tuples(text, st.integers(-(2**63), 2**63 - 1)), min_size=1, max_size=10))
def test_parquet_comes_back(folder, pairs):
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    path = folder / "t.parquet"
    parquet.write_table(arrow.table({"a": [a for a, _ in pairs], "n": [n for _, n in pairs]}), path)
    assert columns_of(path) == ["a", "n"]
    wanted = [Row({"x": a, "n": str(n)}, str(path), number) for number, (a, n) in enumerate(pairs, 1)]
    assert list(read_rows(path, {"x": "a", "n": "n"})) == wanted


@packed
@given(lines=many(line | st.just(""), max_size=10))
def test_plain_text_leaves_empty_lines_out_and_counts_nothing(folder, packed, lines):
    path = write(folder, "t", "".join(f"{t}\n" for t in lines), packed)
    rows = read_rows({"text": path})
    assert list(rows) == [Row({"text": t}, str(path), number) for number, t in enumerate(lines, 1) if t]
    assert rows.num_skipped == 0


LINES = b"".join(b"%d\tthe cat sat on mat %d\n" % (i, i) for i in range(60))


@pytest.mark.parametrize("kind", ["parallel", "plain", "tsv", "csv", "jsonl"])
@given(data=st.data())
def test_damage_is_counted_and_found(folder, kind, data):
    """Random bytes that are no text, at random places: what is left out and what is kept make up the whole."""
    if kind == "csv":
        content = LINES.replace(b"\t", b",")
    elif kind == "jsonl":
        content = b"".join(b'{"1": "%d", "2": "the cat"}\n' % i for i in range(60))
    else:
        content = LINES
    places = data.draw(st.sets(st.integers(0, len(content) - 1), min_size=1, max_size=8))
    bad = bytearray(content)
    damaged = set()
    for place in places:
        if content[place] not in b'\n\t,"':
            bad[place] = data.draw(st.sampled_from([0x00, 0xFF, 0xC0, 0xFE]))
            damaged.add(content[:place].count(b"\n") + 1)
    path = write(folder, {"parallel": "p", "plain": "q"}.get(kind, f"d.{kind}"), bytes(bad))
    if kind == "parallel":
        rows = read_rows({"a": write(folder, "good", content), "b": path})
    else:
        rows = read_rows({"text": path}) if kind == "plain" else read_rows(path, {"a": "1", "b": "2"})
    kept = [row.line for row in rows]
    assert {b.line for b in rows.skipped} == damaged and {b.file for b in rows.skipped} <= {str(path)}
    assert kept == [n for n in range(1, 61) if n not in damaged]
    assert rows.num_rows + rows.num_skipped == 60


def test_a_bad_line_takes_its_partner_with_it(tmp_path):
    en = write(tmp_path, "x.en", b"one\n\nthree\n\nfive\xff\nsix\nse\0ven\n")
    de = write(tmp_path, "x.de", b"eins\nzwei\n\t\n \nfuenf\nsechs\nsieben\n")
    rows = read_rows({"source": en, "target": de})
    assert values(rows) == [{"source": "one", "target": "eins"}, {"source": "six", "target": "sechs"}]
    assert rows.skipped == [
        SkippedRow(str(en), 2, "empty"),
        SkippedRow(str(de), 3, "empty"),
        SkippedRow(str(en), 4, "empty line"),
        SkippedRow(str(en), 5, "not UTF-8"),
        SkippedRow(str(en), 7, "has a NUL character"),
    ]
    assert rows.report() == (
        f"5 of 7 rows were skipped: {en} line 2: empty; {de} line 3: empty; {en} line 4: empty line; and 2 more"
    )


def test_reports_count_in_words_that_fit(tmp_path):
    rows = read_rows(write(tmp_path, "a.jsonl", '{"a": "b"}\n'), {"a": "a"})
    assert rows.report() == ""
    list(rows)
    assert rows.report() == ""
    rows = read_rows(write(tmp_path, "a.tsv", "a\tb\n1\t2\n3\n"))
    list(rows)
    assert rows.report() == f"1 of 2 rows was skipped: {tmp_path}/a.tsv line 3: has 1 columns, expected 2"


def test_only_a_hundred_bad_rows_are_kept_and_all_are_counted(tmp_path):
    rows = read_rows(write(tmp_path, "a.tsv", "a\tb\n" + "x\n" * 150))
    assert list(rows) == [] and len(rows.skipped) == 100 and rows.num_skipped == 150
    assert "and 147 more" in rows.report()


def test_two_readers_at_once_count_for_themselves(tmp_path):
    rows = read_rows({"text": write(tmp_path, "a", "1\n2\n3\n")})
    first = iter(rows)
    next(first)
    assert len(list(rows)) == 3 and rows.num_rows == 3
    list(first)
    assert rows.num_rows == 3


@packed
def test_files_that_go_apart_are_an_error_at_the_end(tmp_path, packed):
    en, de = write(tmp_path, "x.en", "a\n" * 5, packed), write(tmp_path, "x.de", "b\n" * 3, packed)
    fr = write(tmp_path, "x.fr", "c\n" * 5, packed)
    rows = read_rows({"s": en, "t": de, "u": fr})
    seen = []
    with pytest.raises(ValueError, match=r"x.en\S* has 5 lines, .*x.de\S* has 3 lines, .*x.fr\S* has 5 lines"):
        seen.extend(row for row in rows)
    assert len(seen) == 3


@pytest.mark.parametrize(
    ("name", "content", "wanted", "bad"),
    [
        ("a.jsonl", b'{"a": 1.50}\n{"a": 12345678901234567890}\n{"a": -1e400}\n', ["1.50", "12345678901234567890", "-1e400"], []),
        ("a.jsonl", b'{"a": null}\n{"a": true}\n{"a": [1]}\n{"a": {}}\n{"b": 1}\n', [], ["'a' is null, not text", "'a' is a boolean, not text", "'a' is a list, not text", "'a' is an object, not text", "missing 'a'"]),
        ("a.jsonl", b'{"a": "x"\n[1]\n\n{"a": NaN}\n{"a": ""}\n{"a": "x\\u0000"}\n{"a": "\\ud800"}\n{"a": "y"}\n', ["y"], ["broken JSON (Expecting ',' delimiter at character 10)", "not a JSON object: each line must be {...}", "empty line", "broken JSON (NaN is not a number in JSON)", "'a' is empty", "has a NUL character", "not UTF-8"]),
        ("a.jsonl", b'{"a": "x"}\n' + b"[" * 200_000 + b"\n", ["x"], ["broken JSON (nested too deeply)"]),
        ("a.csv", b'a\nx\n"un"quoted\n"open\nand on\n', ["x"], ["broken quotes (',' expected after '\"')", "broken quotes (unexpected end of data), through line 5"]),
        ("a.csv", b'a\n"x\ny"\n\n"\xff\nz"\nw\n', ["x\ny", "w"], ["empty line", "not UTF-8, through line 6"]),
        ("a.csv", b'a\n"' + b"x\n" * (MAX_LINE_BYTES // 2) + b'"\nw\n', ["w"], [f"longer than 1 MiB, through line {MAX_LINE_BYTES // 2 + 2:,}"]),
        ("a.csv", b"a\n" + b"x" * (MAX_LINE_BYTES + 9) + b'"\ny\n"\nw\n', ["w"], ["longer than 1 MiB, through line 4"]),
        ("a.csv", b'a\nw\n"' + b"x\n" * MAX_LINE_BYTES, ["w"], [f"broken quotes (unexpected end of data), through line {MAX_LINE_BYTES + 2:,}"]),
        ("a.csv", b'a\n"' + b"x" * (MAX_LINE_BYTES + 9) + b'",y\nw\n', ["w"], ["longer than 1 MiB"]),
        ("a.tsv", b'a\n"x"\ny""\n"z\n', ['"x"', 'y""', '"z'], []),
        ("a.tsv", b"a\nx\x85y\xc2\x85\xe2\x80\xa8z\n", [], ["not UTF-8"]),
        ("a.tsv", "a\nx\x85\u2028\x0b\x0c\x1cz\n".encode(), ["x\x85\u2028\x0b\x0c\x1cz"], []),
        ("a.tsv", b"\xef\xbb\xbfa\nx\r\ny\r", ["x", "y\r"], []),
    ],
)  # fmt: skip
def test_what_is_in_a_table(tmp_path, name, content, wanted, bad):
    rows = read_rows(write(tmp_path, name, content), {"t": "a"})
    assert [v["t"] for v in values(rows)] == wanted
    assert [b.reason for b in rows.skipped] == bad


def test_parquet_of_all_sorts(tmp_path):
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "a.parquet"
    broken = arrow.Array.from_buffers(
        arrow.string(), 5, [None, arrow.py_buffer(bytes([0, 0, 0, 0] + [i for n in (1, 2, 3, 4, 5) for i in (n, 0, 0, 0)])), arrow.py_buffer(b"ab\xffde")]
    )  # fmt: skip
    columns = {"a": broken, "n": [1.5, float("nan"), 2.0, None, -0.0]}
    parquet.write_table(arrow.table(columns), path)
    rows = read_rows(path)
    assert values(rows) == [{"a": "a", "n": "1.5"}, {"a": "e", "n": "-0.0"}]
    assert [(b.line, b.reason) for b in rows.skipped] == [
        (2, "'n' is not a finite number, not text"),
        (3, "not UTF-8"),
        (4, "'n' is null, not text"),
    ]
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(ValueError, match=r"a\.parquet cannot be read as Parquet"):
        read_rows(path)


@pytest.mark.parametrize("name", ["x.txt.gz", "x.tsv.gz", "x.csv.gz", "x.jsonl.gz", "x.txt.xz", "x.tsv.xz"])
def test_a_packed_file_that_is_cut_off_is_an_error_with_the_line(tmp_path, name):
    line = b'{"1": "the cat %d"}\n' if "jsonl" in name else b"the cat %d\n"
    whole = PACK[name[-3:]](b"".join(line % i for i in range(20_000)))
    path = tmp_path / name
    for cut in (len(whole) // 2, len(whole) - 5):
        path.write_bytes(whole[:cut])
        rows = read_rows({"text": path} if ".txt" in name else path, None if ".txt" in name else {"text": "1"})
        with pytest.raises(ValueError, match=rf"{name}, line [\d]+: reading failed"):
            list(rows)
        assert rows.num_rows > 1000
    path.write_bytes(b"not packed at all")
    with pytest.raises(ValueError, match=rf"{name}, line 1: reading failed"):
        list(read_rows({"text": path}))


def test_lines_without_end_take_no_memory(tmp_path):
    """A quarter of a gigabyte of one letter, packed to a quarter of a megabyte, is one bad row, read in far less than it would take."""
    code = f"""
import gzip, resource
from pathlib import Path
from clearhead.data import read_rows
path = Path({str(tmp_path / "bomb.gz")!r})
with gzip.open(path, "wb", 1) as file:
    file.write(b"first\\n")
    for _ in range(256):
        file.write(b"x" * (1 << 20))
    file.write(b"\\nlast")
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
rows = read_rows({{"text": path}})
assert [row.line for row in rows] == [1, 3], rows.report()
assert rows.skipped[0].line == 2 and rows.skipped[0].reason == "longer than 1 MiB"
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < 64 << 10  # kB


@pytest.mark.parametrize("extra", [-1, 0, 1, 2, 3])
@pytest.mark.parametrize("end", [b"", b"\n", b"\r\n"])
@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
def test_a_line_may_have_just_one_mebibyte(tmp_path, extra, end, mark):
    rows = read_rows(
        {"text": write(tmp_path, "a", mark + b"x" * (MAX_LINE_BYTES + extra) + end + (b"y" if end else b""))}
    )
    lines = [row.line for row in rows]
    assert lines == ([1] if extra <= 0 else []) + ([2] if end else [])
    assert rows.num_skipped == (extra > 0)


def test_a_byte_order_mark_is_no_line(tmp_path):
    mark = write(tmp_path, "mark", b"\xef\xbb\xbf")
    assert list(read_rows({"a": mark, "b": write(tmp_path, "nothing", b"")})) == []


def test_a_folder_of_text_files(tmp_path):
    (tmp_path / "b" / "c").mkdir(parents=True)
    write(tmp_path, "z.txt", "z\n")
    write(tmp_path / "b", "b.txt", "b1\n\nb2", ".gz")
    write(tmp_path / "b" / "c", "c.txt", "c\n", ".xz")
    write(tmp_path, "a.tsv", "no\n")
    rows = read_rows({"text": tmp_path})
    assert [(row.values["text"], Path(row.file).name, row.line) for row in rows] == [
        ("b1", "b.txt.gz", 1),
        ("b2", "b.txt.gz", 3),
        ("c", "c.txt.xz", 1),
        ("z", "z.txt", 1),
    ]


def test_what_cannot_be_read_is_told_at_once(tmp_path):
    table = write(tmp_path, "a.tsv", "sentence\tlabel\nx\ty\n")
    twice = write(tmp_path, "b.csv", "a,a\nx,y\n")
    (tmp_path / "empty").mkdir()
    for arguments, says in (
        ((table, {"text": "sentense"}), r"no column 'sentense': the columns are 'sentence', 'label'; did you mean 'sentence'\?"),
        ((table, {"text": "3"}), r"no column '3': the columns are '1', '2'"),
        ((table, {}), "no columns to read"),
        ((twice, {"text": "a"}), "2 columns named 'a'"),
        ((write(tmp_path, "e.tsv", ""),), r"e\.tsv is empty"),
        ((write(tmp_path, "u.csv", b"\xff\n"),), r"u\.csv, line 1: not UTF-8; this header line must name the columns"),
        ((write(tmp_path, "j.jsonl", "[]\n"), {"text": "a"}), "no column 'a': the columns are none"),
        ((write(tmp_path, "a.txt", "x\n"),), r"is a \.txt file: read plain text with"),
        ((write(tmp_path, "a.xlsx", "x\n"),), r"no table: \.tsv, \.csv, \.jsonl, \.parquet are supported"),
        ((write(tmp_path, "a.parquet", "x\n"),), "cannot be read as Parquet"),
        ((write(tmp_path, "a.parquet.gz", "x\n"),), "no table"),
        ((tmp_path / "none.tsv",), r"there is no file .*none\.tsv"),
        (({"text": tmp_path / "none"},), "there is no file .*none"),
        (({"text": write(tmp_path, "a.zip", "x")},), r"a\.zip is an archive: unpack it"),
        (({"text": tmp_path / "empty"},), "has no text files"),
        (({"a": tmp_path / "empty", "b": table},), "empty is a folder: pass one file per column"),
        (({"a": table}, {"a": "b"}), "columns apply to a table only"),
        (({},), "no files to read"),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=says):
            read_rows(*arguments)  # pyright: ignore[reportArgumentType]


def test_parquet_names_the_extra_it_needs(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    with pytest.raises(ValueError, match=r"pip install 'clearhead\[parquet\]'"):
        read_rows(write(tmp_path, "a.parquet", "x"))


def test_a_table_in_a_txt_file(tmp_path):
    path = write(tmp_path, "fra.txt", "Go.\tVa !\nHi.\tSalut !\n")
    assert values(read_rows(path, {"source": "1", "target": "2"}))[1] == {"source": "Hi.", "target": "Salut !"}


def test_csv_fields_beyond_the_csv_module_s_own_limit(tmp_path):
    path = write(tmp_path, "a.csv", "a,b\n" + "x" * 200_000 + ",y\n")
    assert [len(v["a"]) for v in values(read_rows(path))] == [200_000]


@pytest.mark.data
@pytest.mark.skipif(not DATA.exists(), reason="the real data sets are not here")
@pytest.mark.parametrize(
    ("path", "columns", "good", "bad"),
    [
        ("glue/SST-2/train.tsv.xz", None, 67_349, 0),
        ("glue/MRPC/train.tsv.xz", {"a": "#1 String", "b": "#2 String", "label": "Quality"}, 3_667, 0),
        ("glue/MRPC/msr_paraphrase_test.txt.xz", {"a": "#1 String", "label": "Quality"}, 1_725, 0),
        ("glue/STS-B/train.tsv.xz", {"a": "sentence1", "b": "sentence2", "score": "score"}, 5_749, 0),
        ("glue/STS-B/sts-test.tsv.xz", {"a": "6", "b": "7", "score": "5"}, 1_379, 0),
        ("glue/RTE/train.tsv.xz", None, 2_490, 0),
        ("glue/CoLA/train.tsv.xz", {"label": "2", "text": "4"}, 8_551, 0),
        ("covid_qa/faq_covidbert.csv.xz", {"question": "question", "answer": "answer"}, 213, 0),
        ("bias/crows_pairs/crows_pairs_anonymized.csv.xz", {"a": "sent_more", "b": "sent_less"}, 1_508, 0),
        ("bias/winogender/all_sentences.tsv.xz", None, 720, 0),
    ],
)
def test_tables_as_they_are_in_the_world(path, columns, good, bad):
    rows = read_rows(DATA / path, columns)
    assert sum(1 for _ in rows) == good and rows.num_skipped == bad


@pytest.mark.data
@pytest.mark.skipif(not DATA.exists(), reason="the real data sets are not here")
def test_text_as_it_is_in_the_world():
    folder = DATA / "multi30k"
    rows = read_rows({name: folder / f"train.{name}.gz" for name in ("en", "de", "fr")})
    assert sum(1 for _ in rows) == 29_000 and rows.report() == ""
    rows = read_rows({"en": folder / "train.en.gz", "de": folder / "val.de.gz"})
    with pytest.raises(ValueError, match=r"train\.en\.gz has 29,000 lines, .*val\.de\.gz has 1,014 lines"):
        list(rows)


def test_negatives_may_be_a_list_of_texts(tmp_path):
    lines = [
        {"q": "a", "n": ["b", "c"]}, {"q": "a", "n": "b"}, {"q": "a", "n": []}, {"q": "a", "n": ["b", None]},
        {"q": "a", "n": [["b"]]}, {"q": ["a"], "n": "b"}, {"q": "a", "n": ["b", " "]},
    ]  # fmt: skip
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    rows = read_rows(tmp_path / "rows.jsonl", {"anchor": "q", "negative": "n"})
    assert [row.values["negative"] for row in rows] == [["b", "c"], "b"]
    reasons = [row.reason for row in rows.skipped]
    assert "not empty and not nested" in reasons[0] and "null" in reasons[1] and "nested" in reasons[2]
    assert "a list, not text" in reasons[3] and "is empty" in reasons[4]
