"""Corpus: text files, plain or compressed, read line by line; what is not text is refused with file and line."""

from __future__ import annotations

import codecs
import gzip
import lzma
import re
import zlib
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import IO, BinaryIO, cast

LONGEST = 1 << 20  # bytes of a line taken at a time, so that a file without line ends stays out of memory
LONG_WORD = re.compile(r"\S{1000}")  # cut there: the trainers' time grows with the square of a word
REPORT = 1000  # lines between two words to the progress bar
PACKED = (EOFError, OSError, lzma.LZMAError, zlib.error)  # what reading a damaged .gz or .xz raises


def read_corpus(files: Sequence[Path], heard: Callable[[int], object] = lambda done: None) -> Iterator[str]:
    """The lines of all files, ends included; `heard` is told how many bytes of the files are behind."""
    before = 0
    for path in files:
        with path.open("rb") as raw:
            number = 1
            decode = codecs.getincrementaldecoder("utf-8-sig")().decode
            try:
                for chunk in iter(partial(unpacked(path, raw).readline, LONGEST), b""):
                    text = decode(chunk)
                    yield LONG_WORD.sub(r"\g<0> ", text) if len(text) > 1000 else text
                    number += chunk.endswith(b"\n")
                    if number % REPORT == 0:
                        heard(before + raw.tell())
                decode(b"", True)
            except UnicodeDecodeError as error:
                raise ValueError(
                    f"{path}, line {number}: {error.object[error.start : error.end]!r} is not UTF-8; "
                    "convert the file, for instance with iconv"
                ) from error
            except PACKED as error:
                raise ValueError(f"{path}, line {number}: cannot be unpacked further: {error}") from error
        before += path.stat().st_size
        heard(before)


def check_corpus(files: Sequence[Path]) -> None:
    """Refuse files that are missing, and a corpus without a word."""
    if not files:
        raise ValueError("no files: give the text files to learn from")
    for path in files:
        if not path.is_file():
            raise ValueError(f"{path} is no file")
    if not any(line.strip() for line in read_corpus(files)):
        raise ValueError(f"there is no text in {', '.join(map(str, files))}")


def unpacked(path: Path, raw: BinaryIO) -> IO[bytes]:
    """What is in an open file: itself, or its content if the name ends in .gz or .xz."""
    if path.suffix == ".gz":
        return cast(IO[bytes], gzip.GzipFile(fileobj=raw))
    return lzma.LZMAFile(raw) if path.suffix == ".xz" else raw
