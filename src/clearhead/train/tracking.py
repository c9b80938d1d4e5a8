"""Tracking: where the numbers of a run go: a log of JSON lines, TensorBoard, the terminal, and whoever asks."""

from __future__ import annotations

import json
import os
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TextColumn
from rich.text import Text

from clearhead.files import write_atomic

Tracker = Callable[[int, Mapping[str, float]], object]
"""The hook for other trackers: called as `tracker(step, numbers)` for every record."""

TIMES = ("seconds", "tokens_per_second")  # what differs between two runs of one recipe
PLACES = ("step", "epoch", "batch", "examples", "seconds")  # numbers of a record that are no curve


class Records:
    """The records of a run on their way: to the log, to TensorBoard, and to the trackers."""

    def __init__(self, folder: Path, first: int, known: int, trackers: Sequence[Tracker]) -> None:
        self._log = Log(folder / "log.jsonl", known)
        self._board = Board(folder / "tensorboard", first)
        self._trackers = [self._board.track, *trackers]

    def __enter__(self) -> Records:
        return self

    def __exit__(self, *error: object) -> None:
        try:
            self._board.close()
        finally:
            self._log.close()

    def write(self, record: Mapping[str, float], times: Mapping[str, float]) -> None:
        """A record, which has a "step", and the times that belong to it."""
        self._log.write({**record, **{name: round(value, 3) for name, value in times.items()}})
        numbers = {k: v for k, v in {**record, **times}.items() if k not in PLACES}
        for tracker in self._trackers:
            tracker(int(record["step"]), numbers)

    def size(self) -> int:
        """The bytes of the log that are safely on disk."""
        return self._log.size()


class Log:
    """`log.jsonl`: one record a line. A run that goes on cuts off what its checkpoint does not know of."""

    def __init__(self, path: Path, known: int) -> None:
        if not path.exists():
            write_atomic(path, "")  # the name is on disk before any checkpoint speaks of it
        if path.stat().st_size < known:
            raise ValueError(f"{path} has {path.stat().st_size:,} bytes, and the checkpoint knows of {known:,}")
        os.truncate(path, known)
        self._file = path.open("ab")

    def write(self, record: Mapping[str, Any]) -> None:
        """Append a record."""
        self._file.write(json.dumps(record).encode() + b"\n")
        self._file.flush()

    def size(self) -> int:
        """The bytes that are safely on disk."""
        os.fsync(self._file.fileno())
        return self._file.tell()

    def close(self) -> None:
        """No more records."""
        self._file.close()


def read_log(path: Path) -> list[dict[str, Any]]:
    """The records of a log."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").split("\n") if line]


class Board:
    """What TensorBoard reads, written record by record; an earlier process's records after step `first` are hidden."""

    def __init__(self, folder: Path, first: int) -> None:
        from tensorboard.compat.proto import event_pb2
        from tensorboard.summary.writer.record_writer import RecordWriter

        self._kinds: Any = event_pb2
        folder.mkdir(exist_ok=True)
        name = f"events.out.tfevents.{time.time():.6f}.{socket.gethostname()}.{os.getpid()}"
        self._records = RecordWriter((folder / name).open("xb"))
        self._write(step=first + 1, file_version="brain.Event:2")
        self._write(step=first + 1, session_log={"status": self._kinds.SessionLog.START})

    def track(self, step: int, numbers: Mapping[str, float]) -> None:
        """The tracker that writes here."""
        values = [{"tag": name, "simple_value": value} for name, value in numbers.items()]
        self._write(step=step, summary={"value": values})

    def close(self) -> None:
        """No more records."""
        self._records.close()

    def _write(self, **event: Any) -> None:
        self._records.write(self._kinds.Event(wall_time=time.time(), **event).SerializeToString())
        self._records.flush()


class Screen:
    """The progress line: steps, loss, tokens a second, and the time that is left by the rate measured so far."""

    def __init__(self, steps: int, first: int, *, shown: bool) -> None:
        self.console = Console(stderr=True)
        self._shown = shown
        self._lines = not self.console.is_terminal  # no bar in a file: a line now and then
        self._bar = Progress(
            TextColumn("step {task.completed:,}/{task.total:,}"),
            BarColumn(bar_width=None),
            TextColumn("{task.fields[numbers]}"),
            _Left(),
            console=self.console,
            transient=True,
            disable=not shown or self._lines,
        )
        self._task = self._bar.add_task("train", total=steps, completed=first, numbers="", left=None)
        self._told = 0.0
        self._steps = steps

    def __enter__(self) -> Screen:
        self._bar.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self._bar.__exit__(None, None, None)

    def show(self, step: int, loss: float, rate: float, seconds: float, left: float | None) -> None:
        """The numbers of a step; `seconds` since the start of this process."""
        numbers = f"loss {loss:.3f}  {rate:,.0f} tokens/s"
        self._bar.update(self._task, completed=step, numbers=numbers, left=left)
        if self._shown and self._lines and (seconds - self._told > 30 or self._told == 0.0):
            self._told = max(seconds, 1e-9)
            self.console.print(f"step {step:,}/{self._steps:,}  {numbers}  {time_left(left)}", highlight=False)

    def measure(self) -> None:
        """Say in the bar why it stands still."""
        self._bar.update(self._task, numbers="measuring held-out examples", left=None)

    def say(self, text: str) -> None:
        """A line above the bar."""
        if self._shown:
            self.console.print(text, highlight=False, markup=False)


class _Left(ProgressColumn):
    def render(self, task: Task) -> Text:
        return Text(time_left(task.fields["left"]))


def time_left(seconds: float | None) -> str:
    """'3 min 20 s left', from what was measured; nothing while nothing is."""
    return "" if seconds is None else f"{duration(seconds)} left"


def duration(seconds: float) -> str:
    """'3 min 20 s'."""
    whole = round(seconds)
    hours, minutes = whole // 3600, whole // 60 % 60
    if hours:
        return f"{hours} h {minutes:02d} min"
    return f"{minutes} min {whole % 60:02d} s" if minutes else f"{whole} s"
