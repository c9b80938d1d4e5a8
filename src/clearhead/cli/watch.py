"""Watch: how far models that are trained one after another have come, live on standard error."""

from __future__ import annotations

import time
from collections.abc import Generator
from contextlib import contextmanager

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from clearhead.studies.trained import Heard
from clearhead.train import Stopped
from clearhead.train.tracking import time_left

PAUSE = 15.0  # seconds between two lines, where there is no terminal


@contextmanager
def watched() -> Generator[Heard]:
    """A line for each model: its name, a bar, steps, time left. A run that is stopped says so and ends the command."""
    screen = Console(stderr=True, highlight=False)
    columns = TextColumn("{task.description}"), BarColumn(), TextColumn("{task.completed:,}/{task.total:,}")
    bars: dict[str, TaskID] = {}
    began = told = 0.0
    first = last = 0  # steps: the first that was heard of, and the last that was told
    with Progress(*columns, TimeRemainingColumn(), console=screen, disable=not screen.is_terminal) as progress:

        def heard(name: str, step: int, steps: int) -> None:
            nonlocal began, told, first, last
            now = time.perf_counter()
            if name not in bars:
                bars[name] = progress.add_task(name, total=steps)
                told, first, last = 0.0, 0, -1
            progress.update(bars[name], completed=step, total=steps)
            if step and not first:  # what came before was preparation, or another process
                began, first = now, step
            if not screen.is_terminal and step != last and (step == steps or now - told > PAUSE):
                told, last = now, step
                known = first < step < steps
                left = time_left((now - began) / (step - first) * (steps - step)) if known else ""
                screen.print(f"{name}: {step:,}/{steps:,}  {left}".rstrip(), markup=False)

        try:
            yield heard
        except Stopped as stop:
            progress.stop()
            typer.echo(f"clearhead: {stop}; a checkpoint is written, the same command goes on from there", err=True)
            raise typer.Exit(128 + stop.signal) from None
