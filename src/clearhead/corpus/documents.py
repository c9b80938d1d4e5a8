"""Source files of a corpus and their documents; unreadable documents are reported with place and reason."""

import bz2
import codecs
import gzip
import io
import json
import lzma
import os
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, BinaryIO, Literal, cast

Split = Literal["file", "line", "blank"]
"""How text files are split into documents: the full file, every line, or at blank lines."""

TEXT = (".txt", ".text", ".md")
LINES = (".jsonl", ".ndjson")
PARQUET = (".parquet",)
WARC = (".warc", ".wet")
COMPRESSED = (".gz", ".xz", ".bz2", ".zst")

MAX_DOCUMENT_BYTES = 10 << 20
MAX_COMPRESSION_RATIO = 200
MIN_DECOMPRESSED_BYTES = 16 << 20  # always allowed, whatever the ratio
TASK_BYTES = 64 << 20  # input files per task

READ_ERRORS = (EOFError, OSError, lzma.LZMAError, zlib.error, ValueError)


@dataclass(frozen=True)
class SourceDocument:
    """A document: its place (file:line) and its text."""

    place: str
    text: str


@dataclass(frozen=True)
class UnreadableDocument:
    """A document that cannot be read, and the reason."""

    place: str
    reason: str


class DecompressionBomb(ValueError):
    """A compressed file that expands far more than text does."""


def kind_of(path: Path) -> str | None:
    """Return the suffix that determines the file format, or None for unsupported files."""
    name = path.name.lower()
    for suffix in COMPRESSED:
        name = name.removesuffix(suffix)
    return next((end for end in (*TEXT, *LINES, *PARQUET, *WARC) if name.endswith(end)), None)


def files_of(corpus: Path) -> list[Path]:
    """Return the supported files of a corpus, sorted by path; a single file is a corpus too."""
    if corpus.is_file():
        return [corpus]
    if not corpus.is_dir():
        raise ValueError(f"{corpus} is neither a file nor a folder")
    paths: list[Path] = []
    for root, folders, names in os.walk(corpus):
        links = (name for name in folders if os.path.islink(os.path.join(root, name)))  # not walked, but reported
        paths += [Path(root) / name for name in (*names, *links)]
    supported = sorted(path for path in paths if kind_of(path) is not None)
    if not supported:
        kinds = ", ".join((*TEXT, *LINES, *PARQUET, *WARC))
        raise ValueError(f"{corpus} has no supported file: {kinds}, plain or compressed ({', '.join(COMPRESSED)})")
    return supported


def tasks_of(files: list[Path], size: int = TASK_BYTES) -> list[list[Path]]:
    """Group files into tasks of about `size` bytes."""
    runs: list[list[Path]] = [[]]
    total = 0
    for path in files:
        file_size = path.lstat().st_size
        if runs[-1] and total + file_size > size:
            runs.append([])
            total = 0
        runs[-1].append(path)
        total += file_size
    return runs


def documents(
    path: Path, corpus: Path, *, split: Split = "file", column: str = "text"
) -> Iterator[SourceDocument | UnreadableDocument]:
    """Yield the documents of one file in order; after a read error, the documents before it are kept."""
    name = path.name if corpus.is_file() else path.relative_to(corpus).as_posix()
    root = corpus.parent if corpus.is_file() else corpus
    if path.is_symlink() and not path.resolve().is_relative_to(root.resolve()):
        yield UnreadableDocument(name, "a symbolic link to outside the corpus")
        return
    kind, number = kind_of(path), 0
    try:
        if kind in TEXT:
            stream = _text(path, name, split)
        elif kind in LINES:
            stream = _json_lines(path, name, column)
        elif kind in PARQUET:
            stream = _parquet(path, name, column)
        else:
            stream = _warc(path, name)
        for document in stream:
            number += 1
            yield _checked(document) if isinstance(document, SourceDocument) else document
    except READ_ERRORS as error:
        yield UnreadableDocument(name, f"reading failed after {number:,} documents: {_reason(error)}")


def _reason(error: Exception) -> str:
    return str(error) if isinstance(error, DecompressionBomb) else type(error).__name__


def _checked(document: SourceDocument) -> SourceDocument | UnreadableDocument:
    text = document.text
    if "\0" in text:
        return UnreadableDocument(document.place, "has a NUL character")
    if not text.strip():
        return UnreadableDocument(document.place, "is empty")
    try:
        size = len(text.encode("utf-8"))
    except UnicodeEncodeError:
        return UnreadableDocument(document.place, "has an unpaired surrogate")
    return (
        document
        if size <= MAX_DOCUMENT_BYTES
        else UnreadableDocument(document.place, f"longer than {MAX_DOCUMENT_BYTES >> 20} MiB")
    )


def _text(path: Path, name: str, split: Split) -> Iterator[SourceDocument | UnreadableDocument]:
    lines: list[bytes] = []
    begin = size = 0
    for number, line in enumerate(_raw_lines(path), 1):
        if split == "line":
            if line is None or line.strip():
                yield _decoded(f"{name}:{number}", line)
            continue
        if split == "blank" and line is not None and not line.strip():
            if lines:
                yield _decoded(f"{name}:{begin}", b"".join(lines) if size <= MAX_DOCUMENT_BYTES else None)
            lines, size = [], 0
            continue
        begin = begin if lines else number
        size += MAX_DOCUMENT_BYTES + 1 if line is None else len(line)
        if size <= MAX_DOCUMENT_BYTES:
            lines.append(line or b"")
        else:
            lines = [b"x"]  # too long: only marks that there is a document
    if lines or split == "file":
        place = name if split == "file" else f"{name}:{begin}"
        yield _decoded(place, b"".join(lines) if size <= MAX_DOCUMENT_BYTES else None)


def _json_lines(path: Path, name: str, column: str) -> Iterator[SourceDocument | UnreadableDocument]:
    for number, line in enumerate(_raw_lines(path), 1):
        place = f"{name}:{number}"
        if line is not None and not line.strip():
            continue
        document = _decoded(place, line)
        if isinstance(document, UnreadableDocument):
            yield document
            continue
        try:
            row = json.loads(document.text)
        except (ValueError, RecursionError):
            yield UnreadableDocument(place, "not JSON")
            continue
        text = row.get(column) if isinstance(row, dict) else None
        yield (
            SourceDocument(place, text)
            if isinstance(text, str)
            else UnreadableDocument(place, f"no text in {column!r}")
        )


def _parquet(path: Path, name: str, column: str) -> Iterator[SourceDocument | UnreadableDocument]:
    from pyarrow import ArrowException
    from pyarrow.parquet import ParquetFile

    number = 0
    try:
        file = ParquetFile(path)
        if column not in file.schema_arrow.names:
            raise ValueError(f"no column {column!r}")
        for batch in file.iter_batches(1000, columns=[column]):
            for text in batch.column(0).to_pylist():
                place, number = f"{name}:{number}", number + 1
                yield (
                    SourceDocument(place, text)
                    if isinstance(text, str)
                    else UnreadableDocument(place, f"no text in {column!r}")
                )
    except (ArrowException, UnicodeDecodeError) as error:
        yield UnreadableDocument(name, f"reading failed after {number:,} documents: {type(error).__name__}")


def _warc(path: Path, name: str) -> Iterator[SourceDocument | UnreadableDocument]:
    """Yield web pages as text: the conversion records, or the main text that trafilatura extracts from responses."""
    from datatrove.pipeline.readers.warc import process_record
    from trafilatura import extract
    from warcio.archiveiterator import ArchiveIterator
    from warcio.exceptions import ArchiveLoadFailed

    number = 0
    try:
        with path.open("rb") as raw:
            stream = raw if path.suffix == ".gz" else _decompressed(path, raw)  # warcio decompresses members itself
            for record in ArchiveIterator(stream):
                place, number = f"{name}:{number}", number + 1
                page = cast("dict[str, Any] | None", process_record(record))
                if page is None:
                    if record.rec_type in ("response", "conversion"):
                        yield UnreadableDocument(place, "not a text page")
                    continue
                text = page["text"] if record.rec_type == "conversion" else extract(page["text"])
                yield SourceDocument(place, text) if text else UnreadableDocument(place, "a page without main text")
    except (ArchiveLoadFailed, KeyError) as error:
        yield UnreadableDocument(name, f"reading failed after {number:,} documents: {type(error).__name__}")


def _decoded(place: str, data: bytes | None) -> SourceDocument | UnreadableDocument:
    if data is None:
        return UnreadableDocument(place, f"longer than {MAX_DOCUMENT_BYTES >> 20} MiB")
    try:
        return SourceDocument(place, data.decode("utf-8"))
    except UnicodeDecodeError:
        return UnreadableDocument(place, "not UTF-8")


def _raw_lines(path: Path) -> Iterator[bytes | None]:
    """Yield lines with their ends; None for a line longer than a document may be."""
    with path.open("rb") as raw:
        stream, first = _decompressed(path, raw), True
        while line := stream.readline(MAX_DOCUMENT_BYTES + 1):
            if len(line) <= MAX_DOCUMENT_BYTES:
                yield line.removeprefix(codecs.BOM_UTF8) if first else line
            else:
                while line and not line.endswith(b"\n"):
                    line = stream.readline(MAX_DOCUMENT_BYTES + 1)
                yield None
            first = False


def _decompressed(path: Path, raw: BinaryIO) -> IO[bytes]:
    """Return the content of an open file, decompressed up to a size limit."""
    suffix = path.suffix.lower()
    if suffix not in COMPRESSED:
        return raw
    if suffix == ".zst":
        from zstandard import ZstdDecompressor

        stream: Any = ZstdDecompressor().stream_reader(raw, read_across_frames=True)
    else:
        stream = {".gz": gzip.open, ".xz": lzma.open, ".bz2": bz2.open}[suffix](raw)
    limit = max(MIN_DECOMPRESSED_BYTES, MAX_COMPRESSION_RATIO * path.stat().st_size)
    return io.BufferedReader(_LimitedStream(stream, limit), 1 << 16)


class _LimitedStream(io.RawIOBase):
    """A stream that raises `DecompressionBomb` beyond its size limit."""

    def __init__(self, stream: Any, limit: int) -> None:
        self._stream, self._left, self._limit = stream, limit, limit

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        try:
            data = self._stream.read(len(buffer))
        except Exception as error:  # every decompressor has its own exceptions
            raise OSError(f"cannot be decompressed: {error}") from error
        self._left -= len(data)
        if self._left < 0:
            raise DecompressionBomb(
                f"expands to more than {self._limit >> 20} MiB, {MAX_COMPRESSION_RATIO} times its size"
            )
        buffer[: len(data)] = data
        return len(data)
