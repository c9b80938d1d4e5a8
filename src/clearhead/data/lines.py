"""Line reader: text files, plain or compressed, read line by line within a length limit."""

import codecs
import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from clearhead.data.rows import RowError
from clearhead.text.corpus import PACKED, decompressed

MAX_LINE_BYTES = 1 << 20  # longer lines are skipped without being held in memory
TOO_LONG = RowError("longer than 1 MiB")
NOT_UTF8 = RowError("not UTF-8")
NUL = RowError("has a NUL character")


def ends_with(path: Path, *suffixes: str) -> bool:
    """Return whether a file name has one of these suffixes, apart from .gz or .xz."""
    return path.name.lower().removesuffix(".gz").removesuffix(".xz").endswith(suffixes)


def read_json_file(path: Path) -> Any:
    with path.open("rb") as raw:
        try:
            return json.loads(decompressed(path, raw).read().decode("utf-8-sig"))
        except (UnicodeDecodeError, json.JSONDecodeError, RecursionError, *PACKED) as error:
            raise ValueError(f"{path} is not JSON: {error}") from None


def read_lines(path: Path) -> Iterator[bytes | int]:
    r"""Yield the lines of a file, which end with \n; for a line beyond `MAX_LINE_BYTES`, its number of quotes.

    The CSV reader needs that number to find the end of a quoted record. A byte order mark is dropped. A compressed file
    that is damaged raises a ValueError that names the line.
    """
    number = 1
    with path.open("rb") as raw:
        # the limit, a byte order mark and \r\n
        readline = partial(decompressed(path, raw).readline, MAX_LINE_BYTES + 5)
        try:
            while line := readline():
                if len(line) < MAX_LINE_BYTES + 5 or line.endswith(b"\n"):
                    if line := line.removeprefix(codecs.BOM_UTF8) if number == 1 else line:
                        yield line
                else:
                    quotes = line.count(b'"')
                    while line and not line.endswith(b"\n"):
                        line = readline()
                        quotes += line.count(b'"')
                    yield quotes
                number += 1
        except PACKED as error:
            raise ValueError(f"{path}, line {number}: reading failed: {error}") from error


def text_lines(path: Path) -> Iterator[str | RowError]:
    """Yield the lines of a file as text, without line ends."""
    for line in read_lines(path):
        yield TOO_LONG if isinstance(line, int) else _text(line)


def _text(line: bytes) -> str | RowError:
    if line.endswith(b"\n"):
        line = line[:-2] if line.endswith(b"\r\n") else line[:-1]
    if len(line) > MAX_LINE_BYTES:
        return TOO_LONG
    if b"\0" in line:
        return NUL
    try:
        return line.decode("utf-8")
    except UnicodeDecodeError:
        return NOT_UTF8


def check_text(text: str) -> RowError | None:
    """Return an error for NUL or an unpaired surrogate, which also represents an undecodable byte; else None."""
    if "\0" in text:
        return NUL
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return NOT_UTF8
    return None
