"""Sources: the files of a corpus, and the documents in them. What cannot be read is told with place and reason."""

from __future__ import annotations

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
"""What a document of a text file is: all of it, a line, or what stands between blank lines."""

TEXT = (".txt", ".text", ".md")
LINES = (".jsonl", ".ndjson")
PARQUET = (".parquet",)
WARC = (".warc", ".wet")
PACKED = (".gz", ".xz", ".bz2", ".zst")

LONGEST = 10 << 20  # bytes of a document
RATIO, FREE = 200, 16 << 20  # a packed file may hold so many times its size, and so much in any case
TASK = 64 << 20  # bytes of files that are one task

BROKEN = (EOFError, OSError, lzma.LZMAError, zlib.error, ValueError)


@dataclass(frozen=True)
class Found:
    """A document: where it stands, and its text."""

    place: str
    text: str


@dataclass(frozen=True)
class Unread:
    """What cannot be a document, and why."""

    place: str
    reason: str


class Bomb(ValueError):
    """A packed file that holds far more than text would."""


def kind_of(path: Path) -> str | None:
    """The ending that says how a file is read; None where it is not."""
    name = path.name.lower()
    for packed in PACKED:
        name = name.removesuffix(packed)
    return next((end for end in (*TEXT, *LINES, *PARQUET, *WARC) if name.endswith(end)), None)


def files_of(corpus: Path) -> list[Path]:
    """The files of a corpus that can be read, sorted by name; one file is a corpus too."""
    if corpus.is_file():
        return [corpus]
    if not corpus.is_dir():
        raise ValueError(f"{corpus} is neither a file nor a folder")
    found = [Path(root) / name for root, folders, names in os.walk(corpus) for name in (*names, *_links(root, folders))]
    known = sorted(path for path in found if kind_of(path) is not None)
    if not known:
        kinds = ", ".join((*TEXT, *LINES, *PARQUET, *WARC))
        raise ValueError(f"{corpus} has no file that is read: {kinds}, plain or packed ({', '.join(PACKED)})")
    return known


def _links(root: str, folders: list[str]) -> list[str]:
    """Folders that are links are not walked; under a name that is read they are told as what they are."""
    return [name for name in folders if os.path.islink(os.path.join(root, name))]


def tasks_of(files: list[Path], size: int = TASK) -> list[list[Path]]:
    """Files in runs of about `size` bytes: what is prepared at once, by whoever comes first."""
    runs: list[list[Path]] = [[]]
    held = 0
    for path in files:
        own = path.lstat().st_size
        if runs[-1] and held + own > size:
            runs.append([])
            held = 0
        runs[-1].append(path)
        held += own
    return runs


def documents(path: Path, corpus: Path, *, split: Split = "file", column: str = "text") -> Iterator[Found | Unread]:
    """The documents of one file, in order; where it breaks off, what was read before it stays."""
    name = path.name if corpus.is_file() else path.relative_to(corpus).as_posix()
    root = corpus.parent if corpus.is_file() else corpus
    if path.is_symlink() and not path.resolve().is_relative_to(root.resolve()):
        yield Unread(name, "a link that leads out of the corpus")
        return
    kind, number = kind_of(path), 0
    try:
        if kind in TEXT:
            each = _text(path, name, split)
        elif kind in LINES:
            each = _lines(path, name, column)
        elif kind in PARQUET:
            each = _parquet(path, name, column)
        else:
            each = _warc(path, name)
        for one in each:
            number += 1
            yield _checked(one) if isinstance(one, Found) else one
    except BROKEN as error:
        yield Unread(name, f"cannot be read further after {number:,} documents: {_reason(error)}")


def _reason(error: Exception) -> str:
    return str(error) if isinstance(error, Bomb) else type(error).__name__


def _checked(one: Found) -> Found | Unread:
    text = one.text
    if "\0" in text:
        return Unread(one.place, "has a NUL character")
    if not text.strip():
        return Unread(one.place, "is empty")
    try:
        size = len(text.encode("utf-8"))
    except UnicodeEncodeError:
        return Unread(one.place, "has half a character")
    return one if size <= LONGEST else Unread(one.place, f"longer than {LONGEST >> 20} MiB")


def _text(path: Path, name: str, split: Split) -> Iterator[Found | Unread]:
    held: list[bytes] = []
    begin = size = 0
    for number, line in enumerate(_raw_lines(path), 1):
        if split == "line":
            if line is None or line.strip():
                yield _decoded(f"{name}:{number}", line)
            continue
        if split == "blank" and line is not None and not line.strip():
            if held:
                yield _decoded(f"{name}:{begin}", b"".join(held) if size <= LONGEST else None)
            held, size = [], 0
            continue
        begin = begin if held else number
        size += LONGEST + 1 if line is None else len(line)
        if size <= LONGEST:
            held.append(line or b"")
        else:
            held = [b"x"]  # too long: only that there is something is remembered
    if held or split == "file":
        yield _decoded(name if split == "file" else f"{name}:{begin}", b"".join(held) if size <= LONGEST else None)


def _lines(path: Path, name: str, column: str) -> Iterator[Found | Unread]:
    for number, line in enumerate(_raw_lines(path), 1):
        place = f"{name}:{number}"
        if line is not None and not line.strip():
            continue
        found = _decoded(place, line)
        if isinstance(found, Unread):
            yield found
            continue
        try:
            row = json.loads(found.text)
        except (ValueError, RecursionError):
            yield Unread(place, "no JSON")
            continue
        text = row.get(column) if isinstance(row, dict) else None
        yield Found(place, text) if isinstance(text, str) else Unread(place, f"no text in {column!r}")


def _parquet(path: Path, name: str, column: str) -> Iterator[Found | Unread]:
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
                yield Found(place, text) if isinstance(text, str) else Unread(place, f"no text in {column!r}")
    except (ArrowException, UnicodeDecodeError) as error:
        yield Unread(name, f"cannot be read further after {number:,} documents: {type(error).__name__}")


def _warc(path: Path, name: str) -> Iterator[Found | Unread]:
    """Pages as text: what a crawl converted, or what datatrove reads from a response and trafilatura finds in it."""
    from datatrove.pipeline.readers.warc import process_record
    from trafilatura import extract
    from warcio.archiveiterator import ArchiveIterator
    from warcio.exceptions import ArchiveLoadFailed

    number = 0
    try:
        with path.open("rb") as raw:
            stream = raw if path.suffix == ".gz" else _unpacked(path, raw)  # warcio unpacks members by itself
            for record in ArchiveIterator(stream):
                place, number = f"{name}:{number}", number + 1
                page = cast("dict[str, Any] | None", process_record(record))
                if page is None:
                    if record.rec_type in ("response", "conversion"):
                        yield Unread(place, "no page of text")
                    continue
                text = page["text"] if record.rec_type == "conversion" else extract(page["text"])
                yield Found(place, text) if text else Unread(place, "a page without running text")
    except (ArchiveLoadFailed, KeyError) as error:
        yield Unread(name, f"cannot be read further after {number:,} documents: {type(error).__name__}")


def _decoded(place: str, data: bytes | None) -> Found | Unread:
    if data is None:
        return Unread(place, f"longer than {LONGEST >> 20} MiB")
    try:
        return Found(place, data.decode("utf-8"))
    except UnicodeDecodeError:
        return Unread(place, "not UTF-8")


def _raw_lines(path: Path) -> Iterator[bytes | None]:
    """Lines with their ends; None for one that is longer than a document may be."""
    with path.open("rb") as raw:
        stream, first = _unpacked(path, raw), True
        while line := stream.readline(LONGEST + 1):
            if len(line) <= LONGEST:
                yield line.removeprefix(codecs.BOM_UTF8) if first else line
            else:
                while line and not line.endswith(b"\n"):
                    line = stream.readline(LONGEST + 1)
                yield None
            first = False


def _unpacked(path: Path, raw: BinaryIO) -> IO[bytes]:
    """What is in an open file; of a packed one no more than text can be."""
    suffix = path.suffix.lower()
    if suffix not in PACKED:
        return raw
    if suffix == ".zst":
        from zstandard import ZstdDecompressor

        stream: Any = ZstdDecompressor().stream_reader(raw, read_across_frames=True)
    else:
        stream = {".gz": gzip.open, ".xz": lzma.open, ".bz2": bz2.open}[suffix](raw)
    return io.BufferedReader(_Bounded(stream, max(FREE, RATIO * path.stat().st_size)), 1 << 16)


class _Bounded(io.RawIOBase):
    """A stream that ends with a fault where it gives more than it may."""

    def __init__(self, stream: Any, most: int) -> None:
        self._stream, self._left, self._most = stream, most, most

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        try:
            data = self._stream.read(len(buffer))
        except Exception as error:  # each packer has faults of its own
            raise OSError(f"cannot be unpacked: {error}") from error
        self._left -= len(data)
        if self._left < 0:
            raise Bomb(f"it unpacks to more than {self._most >> 20} MiB, {RATIO} times its size")
        buffer[: len(data)] = data
        return len(data)
