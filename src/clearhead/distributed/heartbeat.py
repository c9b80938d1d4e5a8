"""Heartbeats: every rank reports that it is alive, and ends the attempt when a neighbor no longer does.

A process that dies is noticed at once by its closed connections. One that is stopped or frozen keeps them open, and the
others wait in a collective until its timeout. A short timeout would also end runs in which a rank is only busy, with a
checkpoint or a corpus; a thread that writes a heartbeat every second distinguishes the two.
"""

import os
import signal
import sys
import threading
from collections.abc import Iterable
from contextlib import suppress
from datetime import timedelta
from typing import Any, Self

INTERVAL_S = 1.0
MAX_SILENT_BEATS = 15  # a rank that does not beat for longer is lost
MAX_STORE_FAILURES = 3  # the store runs in the launcher, and a broken connection to it stays broken
MAX_START_BEATS = 120  # before the first beat of a rank: programs load at different speeds
LEFT = b"left"


class Heartbeat:
    """Context in which this rank writes heartbeats to a store and watches `others`; `local` ranks run on this machine.

    Silence is counted in the beats of this rank, not in time, so that a run survives a machine that sleeps and wakes.
    """

    def __init__(self, store: Any, rank: int, others: Iterable[int], local: Iterable[int]) -> None:
        self._store = store.clone()  # a separate connection: the other one may be blocked
        self._store.set_timeout(timedelta(seconds=MAX_SILENT_BEATS * INTERVAL_S))
        self._rank, self._others, self._local = rank, set(others) - {rank}, set(local)
        self._launcher = os.getppid()
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, name="heartbeat", daemon=True)

    def __enter__(self) -> Self:
        self._write(f"{os.getpid()} 0".encode())
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._end.set()
        self._thread.join()
        with suppress(RuntimeError):  # the store may be gone already
            self._write(LEFT)

    def _run(self) -> None:
        last_beat = dict.fromkeys(self._others, b"")
        silent = dict.fromkeys(self._others, 0)
        store_failures = beats = 0
        while not self._end.wait(INTERVAL_S):
            beats += 1
            try:
                self._write(f"{os.getpid()} {beats}".encode())
                for other in self._others:
                    beat = self._read(other)
                    silent[other] = silent[other] + 1 if beat == last_beat[other] != LEFT else 0
                    last_beat[other] = beat
                store_failures = 0
            except RuntimeError:
                store_failures += 1
            if store_failures >= MAX_STORE_FAILURES or os.getppid() != self._launcher:
                _give_up("the launcher of this run is gone")  # others would wait for it at the end of the run
            for other, count in silent.items():
                if count >= (MAX_SILENT_BEATS if last_beat[other] else MAX_START_BEATS):
                    self._give_up_on(other, last_beat[other])

    def _write(self, beat: bytes) -> None:
        self._store.set(f"heartbeat/{self._rank}", beat)

    def _read(self, other: int) -> bytes:
        name = f"heartbeat/{other}"
        return self._store.get(name) if self._store.check([name]) else b""

    def _give_up_on(self, other: int, beat: bytes) -> None:
        """Kill a lost process of this machine, for which torchrun would wait much longer, and end this attempt."""
        if beat and other in self._local:
            os.kill(int(beat.split()[0]), signal.SIGKILL)
        _give_up(f"rank {other} sends no heartbeat")


def _give_up(reason: str) -> None:
    sys.stderr.write(f"clearhead: {reason}: ending this attempt\n")
    sys.stderr.flush()
    os._exit(1)  # the main thread is blocked in a collective
