"""Text of PDF and Word files. PDFs are read in a child process with limits of time and memory."""

import json
import subprocess
import sys
import zipfile
from pathlib import Path
from xml.etree import ElementTree

PDF_SECONDS = 120
PDF_BYTES = 2 << 30  # of memory
PDF_CHARACTERS = 64 << 20
MAX_DOCX_XML = 128 << 20
_W = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"

_READ_PDF = """
import json, resource, sys
resource.setrlimit(resource.RLIMIT_AS, (int(sys.argv[2]),) * 2)
resource.setrlimit(resource.RLIMIT_CPU, (int(sys.argv[3]),) * 2)
import pypdfium2
document = pypdfium2.PdfDocument(sys.argv[1])
pages, left = [], int(sys.argv[4])
for page in document:
    text = page.get_textpage().get_text_bounded()
    left -= len(text)
    if left < 0:
        sys.exit(f"more than {sys.argv[4]} characters")
    pages.append(text.replace("\\r\\n", "\\n").replace("\\r", "\\n").replace("\\x02", ""))
json.dump(pages, sys.stdout)
"""


def pdf_pages(path: Path) -> list[str]:
    """Return the text of each page. A hostile file can only end the child process."""
    limits = (str(limit) for limit in (PDF_BYTES, PDF_SECONDS, PDF_CHARACTERS))
    command = [sys.executable, "-c", _READ_PDF, str(path), *limits]
    try:
        done = subprocess.run(command, capture_output=True, timeout=2 * PDF_SECONDS)
    except subprocess.TimeoutExpired:
        raise ValueError(f"the PDF takes longer than {2 * PDF_SECONDS} seconds") from None
    if done.returncode != 0:
        lines = done.stderr.decode(errors="replace").strip().splitlines()
        raise ValueError(f"not a PDF that can be read ({lines[-1] if lines else f'exit {done.returncode}'})")
    return [page.encode("utf-8", "replace").decode() for page in json.loads(done.stdout)]


def docx_text(path: Path) -> tuple[str, tuple[tuple[int, str], ...]]:
    """Return the paragraphs of a Word file, one a line, and its headings by offset."""
    try:
        with zipfile.ZipFile(path) as archive:
            info = archive.getinfo("word/document.xml")
            if info.file_size > MAX_DOCX_XML:
                raise ValueError(f"its text unpacks to {info.file_size:,} bytes: at most {MAX_DOCX_XML:,} are read")
            with archive.open(info) as file:
                content = file.read(MAX_DOCX_XML + 1)
    except (zipfile.BadZipFile, KeyError, NotImplementedError) as error:
        raise ValueError(f"not a Word file ({error})") from None
    if b"<!DOCTYPE" in content[:4096] or b"<!ENTITY" in content:
        raise ValueError("the XML declares entities: a Word file has none")
    try:
        root = ElementTree.fromstring(content)
    except ElementTree.ParseError as error:
        raise ValueError(f"not a Word file ({error})") from None
    lines: list[str] = []
    headings: list[tuple[int, str]] = []
    total = 0
    for paragraph in root.iter(f"{_W}p"):
        line = "".join(part.text or "" for part in paragraph.iter(f"{_W}t"))
        style = paragraph.find(f"{_W}pPr/{_W}pStyle")
        if style is not None and style.get(f"{_W}val", "").lower().startswith(("heading", "title")) and line.strip():
            headings.append((total, line.strip()))
        lines.append(line)
        total += len(line) + 1
    return "\n".join(lines), tuple(headings)
