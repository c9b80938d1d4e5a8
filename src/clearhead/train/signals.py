"""SIGTERM and Ctrl-C as requests to stop, which the training loop honors after its step."""

import signal
import threading
from collections.abc import Generator
from contextlib import contextmanager
from types import FrameType
from typing import Any, Self


class SignalGuard:
    """Context in which the first signal is recorded in `wanted`; a second one ends the process at once.

    Under a launcher each signal arrives twice, from its sender and from the launcher: a second one is ignored, and the
    launcher ends processes that take too long.
    """

    def __init__(self, *, launched: bool = False) -> None:
        self.wanted = 0
        self._launched = launched
        self._interrupting = False
        self._previous: dict[int, Any] = {}

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():  # Python allows signal handlers only there
            for number in (signal.SIGTERM, signal.SIGINT):
                self._previous[number] = signal.signal(number, self._handle)
        return self

    def __exit__(self, *error: object) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)

    @contextmanager
    def breaking(self) -> Generator[None]:
        """Context in which a signal raises `Interrupted` at once.

        Not under a launcher: ranks would be interrupted at different places and wait for each other.
        """
        if self.wanted and not self._launched:
            raise Interrupted
        self._interrupting = not self._launched
        try:
            yield
        except BaseException as error:  # native code may replace the exception that interrupted it
            if self.wanted and not self._launched:
                raise Interrupted from error
            raise
        finally:
            self._interrupting = False

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self.wanted and not self._launched:
            signal.signal(number, signal.SIG_DFL)
            signal.raise_signal(number)
        self.wanted = self.wanted or number
        if self._interrupting:
            self._interrupting = False
            raise Interrupted


class Interrupted(BaseException):
    """A signal arrived during work that can be repeated. Not an Exception: it must not be handled as an error."""


class Stopped(Exception):
    """A run was stopped by a signal and has written a checkpoint."""

    def __init__(self, step: int, signal: int) -> None:
        super().__init__(f"stopped after step {step:,}")
        self.step, self.signal = step, signal
