"""Reading documents: the text of each format with its headings and pages, and hostile files refused by name."""

import json
import time
import zipfile
import zlib

import pytest

from clearhead.search import read_documents
from clearhead.search.document_readers import Document, ReadReport

WORD = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'


def pdf(pages: list[str], packed: bytes | None = None) -> bytes:
    """A PDF with a line of text on each page; with `packed`, the compressed content of all of them."""
    kids = " ".join(f"{4 + 2 * i} 0 R" for i in range(len(pages)))
    objects = ["<< /Type /Catalog /Pages 2 0 R >>", f"<< /Type /Pages /Kids [{kids}] /Count {len(pages)} >>",
               "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>"]  # fmt: skip
    for i, text in enumerate(pages):
        stream = f"BT /F1 12 Tf 40 700 Td ({text}) Tj ET"
        objects.append(f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 600 800] /Contents {5 + 2 * i} 0 R "
                       "/Resources << /Font << /F1 3 0 R >> >> >>")  # fmt: skip
        content, filtered = (stream.encode(), "") if packed is None else (packed, " /Filter /FlateDecode")
        head = f"<< /Length {len(content)}{filtered} >>\nstream\n"
        objects.append(head + content.decode("latin-1") + "\nendstream")
    out, offsets = b"%PDF-1.4\n", []
    for number, content in enumerate(objects, 1):
        offsets.append(len(out))
        out += f"{number} 0 obj\n{content}\nendobj\n".encode("latin-1")
    table = "".join(f"{offset:010d} 00000 n \n" for offset in offsets)
    start = len(out)
    out += f"xref\n0 {len(objects) + 1}\n0000000000 65535 f \n{table}".encode()
    return out + f"trailer << /Size {len(objects) + 1} /Root 1 0 R >>\nstartxref\n{start}\n%%EOF\n".encode()


def docx(path, body: str) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("word/document.xml", f"<w:document {WORD}><w:body>{body}</w:body></w:document>")


def only(root) -> Document:
    (found,) = read_documents(root)
    return found


def test_markdown_has_headings_at_their_offsets(tmp_path):
    text = "# Title\n\nFirst.\n\n```\n# no heading\n```\n\n## Sub *part*\r\n\nSecond.\n"
    (tmp_path / "a.md").write_bytes(text.encode())
    found = only(tmp_path)
    assert [heading for _, heading in found.headings] == ["Title", "Sub part"]
    for offset, heading in found.headings:
        assert found.text[offset:].startswith(("#", "##"))
        assert heading.split()[0] in found.text[offset : offset + 20]
    assert found.heading(found.text.index("First")) == "Title"
    assert found.heading(found.text.index("Second")) == "Sub part"
    assert found.source == "a.md"


def test_html_is_what_a_reader_sees(tmp_path):
    (tmp_path / "a.html").write_text(
        "<title>The &amp; page</title><style>p{}</style><h1>Big <b>title</b></h1><p>One  two<br>three</p>"
        "<script>evil()</script><ul><li>x</li><li>y</li></ul><pre>a  b\n c</pre><p hidden>secret</p>", encoding="utf-8"
    )  # fmt: skip
    found = only(tmp_path)
    assert found.title == "The & page"
    assert found.text.splitlines() == ["Big title", "One two", "three", "x", "y", "a  b", " c"]
    assert found.headings == ((0, "Big title"),)


def test_permanent_links_of_headings_are_no_text(tmp_path):
    page = '<h1>Built-in Functions<a class="headerlink" href="#x" title="Link">\u00b6</a></h1><p>len(s) returns the length.</p>'
    (tmp_path / "page.html").write_text(page)
    (document,) = read_documents(tmp_path)
    assert document.headings == ((0, "Built-in Functions"),)
    assert document.text.split("\n")[0] == "Built-in Functions"


def test_html_of_any_depth_is_read_without_recursion(tmp_path):
    (tmp_path / "deep.html").write_text("<div>" * 4_000 + "bottom" + "</div>" * 4_000)
    assert only(tmp_path).text.strip() == "bottom"
    (tmp_path / "list.html").write_text("<li>item" * 20_000)
    (tmp_path / "deeper.html").write_text("<div>" * 1_000_000)
    report = ReadReport()
    assert {d.source for d in read_documents(tmp_path, report)} == {"deep.html", "list.html"}
    assert "nested deeper" in dict(report.skipped)["deeper.html"]


def test_pdf_has_pages(tmp_path):
    (tmp_path / "a.pdf").write_bytes(pdf(["First page here", "Second page there"]))
    found = only(tmp_path)
    assert found.page(found.text.index("First")) == 1
    assert found.page(found.text.index("Second")) == 2
    assert "Second page there" in found.text


def test_word_has_headings(tmp_path):
    heading = '<w:p><w:pPr><w:pStyle w:val="Heading1"/></w:pPr><w:r><w:t>Intro</w:t></w:r></w:p>'
    docx(tmp_path / "a.docx", f"{heading}<w:p><w:r><w:t>Some </w:t></w:r><w:r><w:t>text.</w:t></w:r></w:p>")
    found = only(tmp_path)
    assert found.text == "Intro\nSome text."
    assert found.headings == ((0, "Intro"),)


def test_rows_of_tables_are_documents(tmp_path):
    (tmp_path / "a.csv").write_text('id,title,text\n7,Name,"A text, quoted"\n', encoding="utf-8-sig")
    (tmp_path / "b.jsonl").write_text(json.dumps({"_id": "x", "text": "Row"}) + "\n\n" + json.dumps({"text": "Two"}))
    found = {d.source: d for d in read_documents(tmp_path)}
    assert found["a.csv#7"].text == "A text, quoted"
    assert found["a.csv#7"].heading(0) == "Name"
    assert found["b.jsonl#x"].text == "Row"
    assert found["b.jsonl#3"].text == "Two"


def test_what_cannot_be_read_is_reported_and_the_rest_is_read(tmp_path):
    (tmp_path / "good.txt").write_text("fine")
    (tmp_path / "bad.pdf").write_bytes(b"%PDF-1.4 nonsense")
    (tmp_path / "bad.txt").write_bytes(b"\xff\xfe\xff")
    (tmp_path / "bad.jsonl").write_text("[1]")
    (tmp_path / "no-text.csv").write_text("a,b\n1,2\n")
    (tmp_path / "bad.docx").write_bytes(b"PK nothing")
    (tmp_path / ".hidden.txt").write_text("hidden")
    (tmp_path / "image.png").write_bytes(b"x")
    (tmp_path / "outside.txt").symlink_to("/etc/passwd")
    report = ReadReport()
    assert [d.source for d in read_documents(tmp_path, report)] == ["good.txt"]
    reasons = dict(report.skipped)
    assert reasons.keys() == {"bad.pdf", "bad.txt", "bad.jsonl", "no-text.csv", "bad.docx", "outside.txt"}
    assert "outside the folder" in reasons["outside.txt"]
    assert "no column `text`" in reasons["no-text.csv"]


def test_word_bombs_are_refused(tmp_path):
    docx(tmp_path / "large.docx", "<w:t>" + " " * (130 << 20) + "</w:t>")
    with zipfile.ZipFile(tmp_path / "entities.docx", "w") as archive:
        archive.writestr("word/document.xml", '<!DOCTYPE a [<!ENTITY x "y">]><a>&x;</a>')
    report = ReadReport()
    assert list(read_documents(tmp_path, report)) == []
    assert "unpacks to" in dict(report.skipped)["large.docx"]
    assert "entities" in dict(report.skipped)["entities.docx"]


def test_hostile_files_are_refused_within_limits(tmp_path, monkeypatch):
    with (tmp_path / "huge.html").open("wb") as file:
        file.truncate(1 << 30)  # 1 GiB of zeros that take no place
    (tmp_path / "many.pdf").write_bytes(pdf(["word " * 50] * 3))
    (tmp_path / "cut.pdf").write_bytes(pdf(["One page"])[:200])
    (tmp_path / "script.html").write_text(
        "<p onclick='alert(1)'>Seen</p><script>document.write('hidden')</script><svg><script>x</script></svg>"
        "<style>p{}</style><template>never</template><noscript>also never</noscript>" + "&lt;b&gt;" * 1000
    )
    monkeypatch.setattr("clearhead.search.office.PDF_CHARACTERS", 100)
    report = ReadReport()
    begin = time.monotonic()
    found = {document.source: document.text for document in read_documents(tmp_path, report)}
    assert time.monotonic() - begin < 60
    reasons = dict(report.skipped)
    assert "1,073,741,824 bytes" in reasons["huge.html"]
    assert "more than 100 characters" in reasons["many.pdf"]
    assert "cut.pdf" in reasons
    assert found["script.html"].startswith("Seen") and "hidden" not in found["script.html"]
    assert "never" not in found["script.html"] and "alert" not in found["script.html"]


def test_bombs_in_a_pdf_end_the_child_alone(tmp_path, monkeypatch):
    stream = zlib.compress(b"BT /F1 12 Tf 72 720 Td " + b"(boom) Tj " * (30 << 20) + b" ET", 9)  # 300 MB in 0.3 MB
    (tmp_path / "bomb.pdf").write_bytes(pdf(["x"], stream))
    (tmp_path / "good.txt").write_text("fine")
    monkeypatch.setattr("clearhead.search.office.PDF_BYTES", 512 << 20)
    monkeypatch.setattr("clearhead.search.office.PDF_SECONDS", 10)
    report = ReadReport()
    begin = time.monotonic()
    found = [document.source for document in read_documents(tmp_path, report)]
    assert "good.txt" in found and time.monotonic() - begin < 60
    assert [name for name, _ in report.skipped] == ["bomb.pdf"]


def test_a_missing_folder_says_so(tmp_path):
    with pytest.raises(ValueError, match="no file or folder"):
        list(read_documents(tmp_path / "nothing"))


def test_squad_contexts_are_documents(tmp_path):
    paragraphs = [{"context": "One.", "qas": []}, {"context": " "}, {"context": "Two."}]
    content = {"data": [{"title": "A_title", "paragraphs": paragraphs}]}
    (tmp_path / "a.json").write_text(json.dumps(content))
    (tmp_path / "package.json").write_text('{"name": "other"}')
    report = ReadReport()
    found = list(read_documents(tmp_path, report))
    assert [(d.source, d.text, d.title) for d in found] == [
        ("a.json#1", "One.", "A title"),
        ("a.json#3", "Two.", "A title"),
    ]
    assert [name for name, _ in report.skipped] == ["package.json"]
