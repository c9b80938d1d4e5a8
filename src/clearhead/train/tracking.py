"""Tracking: where the numbers of a run go: a log of JSON lines, TensorBoard, the terminal, and whoever asks."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TextColumn
from rich.text import Text

Tracker = Callable[[int, Mapping[str, float]], object]
"""The hook for other trackers: called as `tracker(step, numbers)` for every record."""

TIMES = ("seconds", "tokens_per_second")  # what differs between two runs of one recipe


class Log:
    """`log.jsonl`: one record a line. A run that goes on cuts off what its checkpoint does not know of."""

    def __init__(self, path: Path, known: int) -> None:
        path.touch()
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


def tensorboard(folder: Path, first: int) -> Tracker:
    """A tracker that writes for TensorBoard; records after step `first` of an earlier process are hidden by it."""
    from torch.utils.tensorboard import SummaryWriter

    writer = SummaryWriter(str(folder), purge_step=first + 1, flush_secs=10)

    def track(step: int, numbers: Mapping[str, float]) -> None:
        for name, value in numbers.items():
            writer.add_scalar(name, value, step)

    return track


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

    def say(self, text: str) -> None:
        """A line above the bar."""
        if self._shown:
            self.console.print(text, highlight=False, markup=False)


class _Left(ProgressColumn):
    def render(self, task: Task) -> Text:
        return Text(time_left(task.fields["left"]))


def time_left(seconds: float | None) -> str:
    """'3 min 20 s left', from what was measured; nothing while nothing is."""
    if seconds is None:
        return ""
    whole = round(seconds)
    hours, minutes = whole // 3600, whole // 60 % 60
    if hours:
        return f"{hours} h {minutes:02d} min left"
    return f"{minutes} min {whole % 60:02d} s left" if minutes else f"{whole} s left"
