"""Metrics of a run: a JSON-lines log, TensorBoard, a progress bar, and custom trackers."""

import json
import os
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TextColumn
from rich.text import Text

from clearhead.files import write_atomic

Tracker = Callable[[int, Mapping[str, float]], object]
"""A custom tracker: called as `tracker(step, numbers)` for every record."""

TIMES = ("seconds", "tokens_per_second")  # differ between two runs of the same recipe
UNPLOTTED = ("step", "epoch", "batch", "examples", "seconds")  # fields of a record that are not plotted
PRINT_EVERY_S = 30  # without a terminal


class MetricLogger:
    """Writes the records of a run to the log, to TensorBoard and to the trackers."""

    def __init__(self, folder: Path, first: int, log_bytes: int, trackers: Sequence[Tracker]) -> None:
        self._log = JsonLinesLog(folder / "log.jsonl", log_bytes)
        self._board = TensorBoardWriter(folder / "tensorboard", first)
        self._trackers = [self._board.track, *trackers]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        try:
            self._board.close()
        finally:
            self._log.close()

    def write(self, record: Mapping[str, float], times: Mapping[str, float]) -> None:
        """Write a record, which has a "step", and its times."""
        self._log.write({**record, **{name: round(value, 3) for name, value in times.items()}})
        numbers = {k: v for k, v in {**record, **times}.items() if k not in UNPLOTTED}
        for tracker in self._trackers:
            tracker(int(record["step"]), numbers)

    def size(self) -> int:
        """Flush the log to disk and return its size in bytes."""
        return self._log.size()


class JsonLinesLog:
    """`log.jsonl`: one record per line. A resumed run removes the records after its checkpoint."""

    def __init__(self, path: Path, size: int) -> None:
        if not path.exists():
            write_atomic(path, "")  # the name is on disk before any checkpoint refers to it
        if path.stat().st_size < size:
            raise ValueError(f"{path} has {path.stat().st_size:,} bytes, but had {size:,} at the last checkpoint")
        os.truncate(path, size)
        self._file = path.open("ab")

    def write(self, record: Mapping[str, Any]) -> None:
        self._file.write(json.dumps(record).encode() + b"\n")
        self._file.flush()

    def size(self) -> int:
        os.fsync(self._file.fileno())
        return self._file.tell()

    def close(self) -> None:
        self._file.close()


def read_log(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").split("\n") if line]


class TensorBoardWriter:
    """Writes event files for TensorBoard; records of an earlier process after step `first` are hidden."""

    def __init__(self, folder: Path, first: int) -> None:
        from tensorboard.compat.proto import event_pb2
        from tensorboard.summary.writer.record_writer import RecordWriter

        self._protos: Any = event_pb2
        folder.mkdir(exist_ok=True)
        name = f"events.out.tfevents.{time.time():.6f}.{socket.gethostname()}.{os.getpid()}"
        self._records = RecordWriter((folder / name).open("xb"))
        self._write(step=first + 1, file_version="brain.Event:2")
        self._write(step=first + 1, session_log={"status": self._protos.SessionLog.START})

    def track(self, step: int, numbers: Mapping[str, float]) -> None:
        values = [{"tag": name, "simple_value": value} for name, value in numbers.items()]
        self._write(step=step, summary={"value": values})

    def close(self) -> None:
        self._records.close()

    def _write(self, **event: Any) -> None:
        self._records.write(self._protos.Event(wall_time=time.time(), **event).SerializeToString())
        self._records.flush()


class ProgressBar:
    """Progress bar with steps, loss, tokens per second and the estimated time left."""

    def __init__(self, steps: int, first: int, *, shown: bool) -> None:
        self.console = Console(stderr=True)
        self._shown = shown
        self._lines = not self.console.is_terminal  # not a terminal: a line every PRINT_EVERY_S seconds
        self._bar = Progress(
            TextColumn("step {task.completed:,}/{task.total:,}"),
            BarColumn(bar_width=None),
            TextColumn("{task.fields[numbers]}"),
            _TimeLeftColumn(),
            console=self.console,
            transient=True,
            disable=not shown or self._lines,
        )
        self._task = self._bar.add_task("train", total=steps, completed=first, numbers="", left=None)
        self._printed = 0.0
        self._steps = steps

    def __enter__(self) -> Self:
        self._bar.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self._bar.__exit__(None, None, None)

    def show(self, step: int, loss: float, rate: float, seconds: float, left: float | None) -> None:
        """Show the numbers of a step; `seconds` counts from the start of this process."""
        numbers = f"loss {loss:.3f}  {rate:,.0f} tokens/s"
        self._bar.update(self._task, completed=step, numbers=numbers, left=left)
        if self._shown and self._lines and (seconds - self._printed > PRINT_EVERY_S or self._printed == 0.0):
            self._printed = max(seconds, 1e-9)
            self.console.print(f"step {step:,}/{self._steps:,}  {numbers}  {time_left(left)}", highlight=False)

    def measure(self) -> None:
        """Show that the model is being evaluated, while the bar does not move."""
        self._bar.update(self._task, numbers="evaluating on the validation set", left=None)

    def say(self, text: str) -> None:
        if self._shown:
            self.console.print(text, highlight=False, markup=False)


class _TimeLeftColumn(ProgressColumn):
    def render(self, task: Task) -> Text:
        return Text(time_left(task.fields["left"]))


def time_left(seconds: float | None) -> str:
    """Format the time left as '3 min 20 s left'; empty while it is unknown."""
    return "" if seconds is None else f"{duration(seconds)} left"


def duration(seconds: float) -> str:
    """Format a duration as '3 min 20 s'."""
    total = round(seconds)
    hours, minutes = total // 3600, total // 60 % 60
    if hours:
        return f"{hours} h {minutes:02d} min"
    return f"{minutes} min {total % 60:02d} s" if minutes else f"{total} s"
