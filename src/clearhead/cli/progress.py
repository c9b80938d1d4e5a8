"""Progress of training runs on standard error: a bar per run in a terminal, lines elsewhere."""

import time
from collections.abc import Generator
from contextlib import contextmanager

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from clearhead.studies.training import OnProgress
from clearhead.train import Stopped
from clearhead.train.tracking import time_left

LINE_INTERVAL_S = 15.0  # between two lines, without a terminal


@contextmanager
def show_progress() -> Generator[OnProgress]:
    """Yield a callback (name, step, steps) that shows progress; a stopped run ends the command with a message."""
    console = Console(stderr=True, highlight=False)
    columns = TextColumn("{task.description}"), BarColumn(), TextColumn("{task.completed:,}/{task.total:,}")
    bars: dict[str, TaskID] = {}
    begin = printed_at = 0.0
    first_step = printed_step = 0
    with Progress(*columns, TimeRemainingColumn(), console=console, disable=not console.is_terminal) as progress:

        def on_progress(name: str, step: int, steps: int) -> None:
            nonlocal begin, printed_at, first_step, printed_step
            now = time.perf_counter()
            if name not in bars:
                bars[name] = progress.add_task(name, total=steps)
                printed_at, first_step, printed_step = 0.0, 0, -1
            progress.update(bars[name], completed=step, total=steps)
            if step and not first_step:  # before it: preparation, or steps of a resumed run
                begin, first_step = now, step
            interval_over = step == steps or now - printed_at > LINE_INTERVAL_S
            if not console.is_terminal and step != printed_step and interval_over:
                printed_at, printed_step = now, step
                known = first_step < step < steps
                left = time_left((now - begin) / (step - first_step) * (steps - step)) if known else ""
                console.print(f"{name}: {step:,}/{steps:,}  {left}".rstrip(), markup=False)

        try:
            yield on_progress
        except Stopped as stop:
            progress.stop()
            typer.echo(f"clearhead: {stop}; a checkpoint is saved, run the same command to resume", err=True)
            raise typer.Exit(128 + stop.signal) from None
