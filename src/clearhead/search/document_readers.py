"""Documents: the readable text of files, with its headings and pages by character offset."""

import csv
import hashlib
import io
import json
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from clearhead.data.squad import squad_contexts
from clearhead.search.markup import html_text, markdown_headings
from clearhead.search.office import docx_text, pdf_pages

MAX_BYTES = 256 << 20  # of a file
MAX_CHARACTERS = 64 << 20  # of a document


@dataclass(frozen=True)
class Document:
    """A text and where it came from. Offsets of headings and pages are characters of `text`."""

    source: str  # the file's path below the indexed folder; rows of a table add `#` and their id or number
    text: str
    headings: tuple[tuple[int, str], ...] = ()  # (offset, heading), ascending
    pages: tuple[int, ...] = ()  # the offset of each page, ascending; empty where there are none
    title: str = ""

    @property
    def sha256(self) -> str:
        """The hash of what is indexed: text, title and source."""
        content = "\0".join((self.source, self.title, self.text))
        return hashlib.sha256(content.encode("utf-8", "surrogatepass")).hexdigest()

    def heading(self, offset: int) -> str:
        """The last heading at or before an offset; the title before the first one."""
        at = bisect_right(self.headings, (offset, "\U0010ffff")) - 1
        return self.headings[at][1] if at >= 0 else self.title

    def page(self, offset: int) -> int | None:
        """The page of an offset, from 1; None where there are no pages."""
        return bisect_right(self.pages, offset) if self.pages else None


@dataclass
class ReadReport:
    """Files that were skipped, with the reason."""

    skipped: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])


def read_documents(root: str | Path, report: ReadReport | None = None) -> Iterator[Document]:
    """Yield the documents of a file or a folder, in the order of their paths; what cannot be read is reported."""
    base, files = document_files(Path(root))
    yield from read_files(base, files, ReadReport() if report is None else report)


def document_files(root: Path) -> tuple[Path, list[Path]]:
    """Return the folder that names of documents start from, and the files below `root` that can be read, in order."""
    if not root.exists():
        raise ValueError(f"there is no file or folder {str(root)!r}: give the documents to index")
    if not root.is_dir():
        if root.suffix.lower() not in READERS:
            raise ValueError(f"{root}: no reader for {root.suffix or 'a name without an ending'}: {', '.join(READERS)}")
        return root.parent, [root]
    files = sorted(path for path in root.rglob("*") if path.is_file() and path.suffix.lower() in READERS)
    return root, [path for path in files if not any(part.startswith(".") for part in path.relative_to(root).parts)]


def read_files(base: Path, files: Iterable[Path], report: ReadReport) -> Iterator[Document]:
    """Yield the documents of these files below `base`; what cannot be read is reported."""
    for path in files:
        name = path.relative_to(base).as_posix()
        try:
            if path.is_symlink() and not path.resolve().is_relative_to(base.resolve()):
                raise ValueError("a link to a file outside the folder")
            if path.stat().st_size > MAX_BYTES:
                raise ValueError(f"{path.stat().st_size:,} bytes: at most {MAX_BYTES:,} are read")
            for document in READERS[path.suffix.lower()](path, name):
                if len(document.text) > MAX_CHARACTERS:
                    raise ValueError(f"{len(document.text):,} characters: at most {MAX_CHARACTERS:,} are read")
                if document.text.strip():
                    yield document
        except (ValueError, OSError, csv.Error) as error:
            report.skipped.append((name, str(error)))


def _text(path: Path, name: str) -> Iterator[Document]:
    yield Document(name, decode(path.read_bytes()))


def _markdown(path: Path, name: str) -> Iterator[Document]:
    text = decode(path.read_bytes())
    headings = markdown_headings(text)
    yield Document(name, text, headings, title=headings[0][1] if headings else "")


def _html(path: Path, name: str) -> Iterator[Document]:
    text, headings, title = html_text(decode(path.read_bytes()))
    yield Document(name, text, headings, title=title)


def _pdf(path: Path, name: str) -> Iterator[Document]:
    yield _paged(name, pdf_pages(path))


def _docx(path: Path, name: str) -> Iterator[Document]:
    text, headings = docx_text(path)
    yield Document(name, text, headings)


def _paged(name: str, pages: list[str]) -> Document:
    offsets, total = [], 0
    for page in pages:
        offsets.append(total)
        total += len(page) + 1
    return Document(name, "\n".join(pages), pages=tuple(offsets))


def _csv(path: Path, name: str) -> Iterator[Document]:
    rows = csv.DictReader(io.StringIO(decode(path.read_bytes())), delimiter="\t" if path.suffix == ".tsv" else ",")
    for number, row in enumerate(rows, 2):
        yield _row(name, number, row)


def _jsonl(path: Path, name: str) -> Iterator[Document]:
    for number, line in enumerate(decode(path.read_bytes()).split("\n"), 1):
        if line.strip():
            row = json.loads(line)
            if not isinstance(row, dict):
                raise ValueError(f"line {number} is not a JSON object")
            yield _row(name, number, row)


def _squad(path: Path, name: str) -> Iterator[Document]:
    for number, (title, text) in enumerate(squad_contexts(path), 1):
        if text is not None:
            yield Document(f"{name}#{number}", text, title=title)


def _row(name: str, number: int, row: Mapping[str, Any]) -> Document:
    text = row.get("text")
    if not isinstance(text, str):
        raise ValueError(f"row {number} has no column `text`; its columns are {', '.join(map(str, row))}")
    id = row.get("id") or row.get("_id") or number
    return Document(f"{name}#{id}", text, title=str(row.get("title") or ""))


def decode(data: bytes) -> str:
    """Return text with plain newlines: UTF-8, with or without its mark, or UTF-16 with a mark."""
    encoding = "utf-16" if data[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig"
    try:
        text = data.decode(encoding)
    except UnicodeDecodeError as error:
        raise ValueError(f"not {encoding.removesuffix('-sig').upper()} text (byte {error.start:,})") from None
    return text.replace("\r\n", "\n").replace("\r", "\n")


READERS: dict[str, Callable[[Path, str], Iterator[Document]]] = {
    ".txt": _text, ".md": _markdown, ".markdown": _markdown, ".html": _html, ".htm": _html, ".pdf": _pdf,
    ".docx": _docx, ".csv": _csv, ".tsv": _csv, ".jsonl": _jsonl, ".json": _squad,
}  # fmt: skip
