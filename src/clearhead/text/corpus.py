"""Corpus: reads plain or compressed text files line by line; errors name file and line."""

import codecs
import gzip
import lzma
import re
import zlib
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import IO, BinaryIO, cast

MAX_CHUNK_BYTES = 1 << 20  # of a line read at once, so that a file without line ends does not fill the memory
LONG_WORD = re.compile(r"\S{1000}")  # split there: training time grows with the square of the word length
PROGRESS_EVERY_LINES = 1000
PACKED = (EOFError, OSError, lzma.LZMAError, zlib.error)  # of a damaged .gz or .xz


def read_corpus(files: Sequence[Path], on_progress: Callable[[int], object] = lambda done: None) -> Iterator[str]:
    """Yields the lines of all files, line ends included; calls `on_progress` with the number of bytes read."""
    before = 0
    for path in files:
        with path.open("rb") as raw:
            number = 1
            decode = codecs.getincrementaldecoder("utf-8-sig")().decode
            try:
                for chunk in iter(partial(decompressed(path, raw).readline, MAX_CHUNK_BYTES), b""):
                    text = decode(chunk)
                    yield LONG_WORD.sub(r"\g<0> ", text) if len(text) > 1000 else text
                    number += chunk.endswith(b"\n")
                    if number % PROGRESS_EVERY_LINES == 0:
                        on_progress(before + raw.tell())
                decode(b"", True)
            except UnicodeDecodeError as error:
                raise ValueError(
                    f"{path}, line {number}: {error.object[error.start : error.end]!r} is not UTF-8; "
                    "convert the file, for instance with iconv"
                ) from error
            except PACKED as error:
                raise ValueError(f"{path}, line {number}: cannot be decompressed: {error}") from error
        before += path.stat().st_size
        on_progress(before)


def check_corpus(files: Sequence[Path]) -> None:
    """Raises ValueError for missing files and for a corpus without text."""
    if not files:
        raise ValueError("no files: give the text files to train on")
    for path in files:
        if not path.is_file():
            raise ValueError(f"{path} is not a file")
    if not any(line.strip() for line in read_corpus(files)):
        raise ValueError(f"there is no text in {', '.join(map(str, files))}")


def decompressed(path: Path, raw: BinaryIO) -> IO[bytes]:
    """Returns a reader of an open file that decompresses it if its name ends in .gz or .xz."""
    if path.suffix == ".gz":
        return cast(IO[bytes], gzip.GzipFile(fileobj=raw))
    return lzma.LZMAFile(raw) if path.suffix == ".xz" else raw
