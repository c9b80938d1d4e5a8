"""What commands have in common: error messages, pipes and interrupts."""

import functools
import os
import select
import signal
import sys
import threading
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import ParamSpec, TextIO, TypeVar

import typer

from clearhead.files.atomic import partial_path

P = ParamSpec("P")
R = TypeVar("R")
CHUNK_BYTES = 2**16
POLL_S = 0.02


def report_errors(command: Callable[P, R]) -> Callable[P, R]:
    """Wrap a command: ValueError and OSError become one line on stderr and exit code 2, without a traceback."""

    @functools.wraps(command)
    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return command(*args, **kwargs)
        except (ValueError, OSError) as error:
            typer.echo(f"clearhead: {error}", err=True)
            raise typer.Exit(2) from None

    return run


def ignore_broken_pipe(command: Callable[P, R]) -> Callable[P, R]:
    """Wrap a command: it ends without an error when its output is closed, as in `clearhead … | head`."""

    @functools.wraps(command)
    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            result = command(*args, **kwargs)
            sys.stdout.flush()
            return result
        except BrokenPipeError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # the flush at exit must not fail again
            raise typer.Exit() from None

    return run


@contextmanager
def open_output(out: Path | None) -> Generator[TextIO]:
    """Yield standard output, or a file that is `NAME.partial` until it is complete, and stays so after an error."""
    if out is None:
        yield sys.stdout
        return
    with partial_path(out).open("w", encoding="utf-8", newline="") as target:
        yield target
    partial_path(out).replace(out)


@contextmanager
def defer_sigint() -> Generator[None]:
    """Defer Ctrl-C to the end of the block. Only the main thread receives it; other threads run the block as it is."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    received: list[int] = []
    previous = signal.signal(signal.SIGINT, lambda number, _: received.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, previous)
    if received:
        raise KeyboardInterrupt


class LineBatches:
    """Iterate over the lines of a file, or of standard input, in batches of at most `max_lines`.

    A batch holds the lines that have arrived, so an interactive user or a waiting program is answered at once.
    """

    def __init__(self, path: Path | None, max_lines: int) -> None:
        self.name = "standard input" if path is None else str(path)
        self._file = sys.stdin.buffer if path is None else path.open("rb")
        self.size = os.fstat(self._file.fileno()).st_size
        self.read = self.count = 0
        self._max_lines = max_lines

    def __iter__(self) -> Iterator[list[str]]:
        rest = b""
        lines: list[str] = []
        while data := os.read(self._file.fileno(), CHUNK_BYTES):
            self.read += len(data)
            *complete, rest = (rest + data).split(b"\n")
            lines += [self._text(line) for line in complete]
            while len(lines) >= self._max_lines:
                yield lines[: self._max_lines]
                lines = lines[self._max_lines :]
            if lines and not self._ready():
                yield lines
                lines = []
        if rest:
            lines.append(self._text(rest))
        if lines:
            yield lines

    def _ready(self) -> bool:
        try:
            return bool(select.select([self._file], [], [], POLL_S)[0])
        except (OSError, ValueError):  # platforms where select does not take files
            return True

    def _text(self, line: bytes) -> str:
        self.count += 1
        try:
            return line.rstrip(b"\r").decode("utf-8")
        except UnicodeDecodeError as error:
            place = f"{self.name}, line {self.count}"
            raise ValueError(f"{place}: not UTF-8 ({error.reason} at byte {error.start})") from None
