"""Stop: SIGTERM and Ctrl-C as a wish that the loop grants after its step."""

from __future__ import annotations

import signal
import threading
from collections.abc import Generator
from contextlib import contextmanager
from types import FrameType
from typing import Any


class Stop:
    """Inside, the first signal is noted and `wanted` is its number; a second one ends the process at once.

    Where a launcher stands above, signals come once from whoever sent them and once from it: a second one says nothing
    new, and it is the launcher that ends what takes too long.
    """

    def __init__(self, *, launched: bool = False) -> None:
        self.wanted = 0
        self._launched = launched
        self._breaks = False
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Stop:
        if threading.current_thread() is threading.main_thread():  # elsewhere, Python lets nobody listen
            for number in (signal.SIGTERM, signal.SIGINT):
                self._before[number] = signal.signal(number, self._note)
        return self

    def __exit__(self, *error: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    @contextmanager
    def breaking(self) -> Generator[None]:
        """Inside, a signal is not only noted: it breaks off what is done there, by `Broken`.

        Not where a launcher stands above: the ranks would break off in different places, and wait for one another.
        """
        if self.wanted and not self._launched:
            raise Broken
        self._breaks = not self._launched
        try:
            yield
        except BaseException as error:  # code that is not Python's may give another than it was broken off by
            if self.wanted and not self._launched:
                raise Broken from error
            raise
        finally:
            self._breaks = False

    def _note(self, number: int, frame: FrameType | None) -> None:
        if self.wanted and not self._launched:
            signal.signal(number, signal.SIG_DFL)
            signal.raise_signal(number)
        self.wanted = self.wanted or number
        if self._breaks:
            self._breaks = False
            raise Broken


class Broken(BaseException):
    """A signal came, and what was being done can be done again: no fault, and nobody may take it for one."""


class Stopped(Exception):
    """A run was asked to stop, and did, with a checkpoint."""

    def __init__(self, step: int, signal: int) -> None:
        super().__init__(f"stopped after step {step:,}")
        self.step, self.signal = step, signal
