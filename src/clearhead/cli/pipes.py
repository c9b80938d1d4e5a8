"""Pipes: lines as they arrive, and an end without complaint when nobody reads any more."""

from __future__ import annotations

import functools
import os
import select
import signal
import sys
import threading
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import ParamSpec, TypeVar

import typer

P = ParamSpec("P")
R = TypeVar("R")
CHUNK = 2**16


def quiet(command: Callable[P, R]) -> Callable[P, R]:
    """A command that stops when the reader of its output is gone: `clearhead … | head` is no error."""

    @functools.wraps(command)
    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            result = command(*args, **kwargs)
            sys.stdout.flush()
            return result
        except BrokenPipeError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # what is left to flush goes nowhere
            raise typer.Exit() from None

    return run


class Blocks:
    """Lines of a file, or of standard input, in blocks: as many as are there, at most `most`.

    Somebody who types a line, or a program that waits for an answer, gets it without waiting for a block to fill.
    """

    def __init__(self, path: Path | None, most: int) -> None:
        self.name = "standard input" if path is None else str(path)
        self._file = sys.stdin.buffer if path is None else path.open("rb")
        self.size = os.fstat(self._file.fileno()).st_size
        self.read = self.count = 0
        self._most = most

    def __iter__(self) -> Iterator[list[str]]:
        left = b""
        lines: list[str] = []
        while data := os.read(self._file.fileno(), CHUNK):
            self.read += len(data)
            *whole, left = (left + data).split(b"\n")
            lines += [self._text(line) for line in whole]
            while len(lines) >= self._most:
                yield lines[: self._most]
                lines = lines[self._most :]
            if lines and not self._ready():
                yield lines
                lines = []
        if left:
            lines.append(self._text(left))
        if lines:
            yield lines

    def _ready(self) -> bool:
        """Is there more to read at once?"""
        try:
            return bool(select.select([self._file], [], [], 0.02)[0])
        except (OSError, ValueError):  # a platform where files cannot be waited for
            return True

    def _text(self, line: bytes) -> str:
        self.count += 1
        try:
            return line.rstrip(b"\r").decode("utf-8")
        except UnicodeDecodeError as error:
            where = f"{self.name}, line {self.count}"
            raise ValueError(f"{where}: not UTF-8 ({error.reason} at byte {error.start})") from None


@contextmanager
def undisturbed() -> Generator[None]:
    """Ctrl-C waits until this is done; in the main thread, which is the only one that hears it."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    heard: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, _: heard.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if heard:
        raise KeyboardInterrupt
