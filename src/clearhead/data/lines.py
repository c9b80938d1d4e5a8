"""Lines: a text file, plain or packed, read line by line within a limit, however it was made."""

from __future__ import annotations

import codecs
import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from clearhead.data.rows import Fault
from clearhead.text.corpus import PACKED, unpacked

LONGEST = 1 << 20  # bytes of a line; beyond, it is skipped unread
TOO_LONG = Fault("longer than 1 MiB")
NOT_UTF8 = Fault("not UTF-8")
NUL = Fault("has a NUL character")


def ends_with(path: Path, *suffixes: str) -> bool:
    """Does a file's name end like this, packed or not?"""
    return path.name.lower().removesuffix(".gz").removesuffix(".xz").endswith(suffixes)


def read_json_file(path: Path) -> Any:
    """What a JSON file holds, packed or not."""
    with path.open("rb") as raw:
        try:
            return json.loads(unpacked(path, raw).read().decode("utf-8-sig"))
        except (UnicodeDecodeError, json.JSONDecodeError, RecursionError, *PACKED) as error:
            raise ValueError(f"{path} is not JSON: {error}") from None


def read_lines(path: Path) -> Iterator[bytes | int]:
    r"""The lines of a file with their ends, which are \n alone; for one beyond `LONGEST`, how many quotes it has.

    By the quotes CSV knows where it stands after it. A byte order mark is left out. A file that cannot be unpacked to
    its end is a ValueError with the line.
    """
    number = 1
    with path.open("rb") as raw:
        readline = partial(unpacked(path, raw).readline, LONGEST + 5)  # the limit, a byte order mark and \r\n
        try:
            while line := readline():
                if len(line) < LONGEST + 5 or line.endswith(b"\n"):
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
            raise ValueError(f"{path}, line {number}: cannot be read further: {error}") from error


def text_lines(path: Path) -> Iterator[str | Fault]:
    """The lines of a file as text, without their ends."""
    for line in read_lines(path):
        yield TOO_LONG if isinstance(line, int) else _text(line)


def _text(line: bytes) -> str | Fault:
    if line.endswith(b"\n"):
        line = line[:-2] if line.endswith(b"\r\n") else line[:-1]
    if len(line) > LONGEST:
        return TOO_LONG
    if b"\0" in line:
        return NUL
    try:
        return line.decode("utf-8")
    except UnicodeDecodeError:
        return NOT_UTF8


def blemish(text: str) -> Fault | None:
    """What a decoded text cannot have: NUL, or half a character, which is also what stands for a byte not decoded."""
    if "\0" in text:
        return NUL
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return NOT_UTF8
    return None
