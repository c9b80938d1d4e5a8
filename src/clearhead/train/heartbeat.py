"""Heartbeats: every rank shows that it lives, and ends an attempt in which a neighbour no longer does.

A process that dies is noticed at once, by its connections. One that is stopped or frozen keeps them open, and the
others wait in a collective until its timeout. One short enough for that would also end runs in which a rank is only
busy, with a checkpoint or a corpus; a thread that says "still here" every second tells the two apart.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterable
from contextlib import suppress
from datetime import timedelta
from typing import Any

BEAT = 1.0  # seconds
SILENT = 15  # beats without a sign of life, after which a rank is lost
GONE = 3  # beats that the store may miss: it lives with the launcher, and a broken connection to it stays broken
LATE = 120  # beats that a rank may take to its first one: programs load at different speeds
LEFT = b"left"


class Heartbeat:
    """Inside, this rank beats in a store of torch's and listens to `others`; those in `local` run on this machine.

    Silence is counted in beats of one's own, not in time, so that a machine put to sleep and woken goes on.
    """

    def __init__(self, store: Any, rank: int, others: Iterable[int], local: Iterable[int]) -> None:
        self._store = store.clone()  # a connection of its own: the other one may be waiting
        self._store.set_timeout(timedelta(seconds=SILENT * BEAT))
        self._rank, self._others, self._local = rank, set(others) - {rank}, set(local)
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, name="heartbeat", daemon=True)

    def __enter__(self) -> Heartbeat:
        self._say(f"{os.getpid()} 0".encode())
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._end.set()
        self._thread.join()
        with suppress(RuntimeError):  # where the store has gone before us, nobody listens any more
            self._say(LEFT)

    def _run(self) -> None:
        heard = dict.fromkeys(self._others, b"")
        silent = dict.fromkeys(self._others, 0)
        unanswered = beats = 0
        while not self._end.wait(BEAT):
            beats += 1
            try:
                self._say(f"{os.getpid()} {beats}".encode())
                for other in self._others:
                    said = self._hear(other)
                    silent[other] = silent[other] + 1 if said == heard[other] != LEFT else 0
                    heard[other] = said
                unanswered = 0
            except RuntimeError:
                unanswered += 1
            if unanswered >= GONE:
                _give_up("the launcher of this run has gone")
            for other, count in silent.items():
                if count >= (SILENT if heard[other] else LATE):
                    self._lose(other, heard[other])

    def _say(self, beat: bytes) -> None:
        self._store.set(f"heartbeat/{self._rank}", beat)

    def _hear(self, other: int) -> bytes:
        """The last beat of a rank; nothing before its first."""
        name = f"heartbeat/{other}"
        return self._store.get(name) if self._store.check([name]) else b""

    def _lose(self, other: int, beat: bytes) -> None:
        """End this attempt, and the process that is lost, for which torchrun would wait much longer."""
        if beat and other in self._local:
            os.kill(int(beat.split()[0]), signal.SIGKILL)
        _give_up(f"rank {other} gives no sign of life")


def _give_up(reason: str) -> None:
    sys.stderr.write(f"clearhead: {reason}: this attempt ends\n")
    sys.stderr.flush()
    os._exit(1)  # the main thread waits in a collective and cannot be asked
