"""`clearhead doctor`: is every kernel right and fast on this machine?"""

from __future__ import annotations

import json
import os
import platform
from dataclasses import asdict
from typing import Annotated

import torch
import typer
from rich.console import Console
from rich.progress import Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from clearhead import __version__
from clearhead.attention.checkup import DTYPES, Finding, devices, examine
from clearhead.attention.kernels import KERNELS


def doctor(
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of the table.")] = False,
) -> None:
    """Run every attention kernel in every dtype on this machine, against the reference kernel in float64.

    Shows the largest error forward and backward, the time, the memory, and what `auto` chooses. The exit code is
    1 if a kernel gives a wrong result.

    Example: clearhead doctor --json
    """
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")  # the memory figures come from a profiler that talks
    screen = Console(stderr=True)
    findings: list[Finding] = []
    with Progress(TextColumn("{task.description}"), TimeElapsedColumn(), console=screen, transient=True) as progress:
        task = progress.add_task("", total=len(DTYPES) * len(KERNELS) * len(devices()))
        for device in devices():
            for finding in examine(device):
                progress.update(task, advance=1, description=f"{device} {finding.dtype} {finding.kernel}")
                findings.append(finding)
    failures = [f for f in findings if not f.ok]
    if as_json:
        typer.echo(json.dumps({"machine": _machine(), "ok": not failures, "findings": [asdict(f) for f in findings]}))
    else:
        show(Console(highlight=False), findings)
    if failures:
        raise typer.Exit(1)


def _machine() -> dict[str, str | int]:
    return {
        "clearhead": __version__,
        "torch": torch.__version__,
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "cpu": torch.backends.cpu.get_cpu_capability(),
        "threads": torch.get_num_threads(),
        "devices": ", ".join(devices()),
    }


def show(console: Console, findings: list[Finding]) -> None:
    """Print the findings for a person."""
    console.print("  ".join(f"[dim]{k}[/dim] {v}" for k, v in _machine().items()), "\n")
    for device in dict.fromkeys(f.device for f in findings):
        console.print(_table(device, [f for f in findings if f.device == device]))
    console.print()
    notes = {f"{f.kernel} on {f.device}: {f.refuses}": None for f in findings if f.refuses}
    for note in notes:
        console.print(f"[dim]{note}[/dim]")
    ran = [f for f in findings if f.forward_error is not None]
    failures = [f for f in findings if not f.ok]
    for f in failures:
        console.print(f"[red]{f.kernel}, {f.dtype}, {f.device}: {f.failed}[/red]")
    if failures:
        console.print(
            f"\n[red]{len(failures)} of {len(ran)} checks went wrong: use another kernel here, and report this.[/red]"
        )
    else:
        console.print(f"\n[green]All {len(ran)} kernel and dtype pairs that run here agree with the reference.[/green]")


def _table(device: str, findings: list[Finding]) -> Table:
    table = Table(
        box=None, header_style="bold", pad_edge=False, title=f"[bold]{device}", title_justify="left", padding=(0, 1)
    )
    for name in ("dtype", "kernel"):
        table.add_column(name, no_wrap=True)
    for name in ("error\nforward", "\ngradient", "ms\nforward", "\nboth", "MB\npeak"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    for before, f in zip([None, *findings], findings, strict=False):
        if before is not None and before.dtype != f.dtype:
            table.add_row()
        table.add_row(
            f.dtype if before is None or before.dtype != f.dtype else "",
            f"[bold]{f.kernel}[/bold]" if f.auto else f.kernel,
            _figure(f.forward_error, ".0e"), _figure(f.backward_error, ".0e"),
            _figure(f.forward_ms, ".2f"), _figure(f.backward_ms, ".2f"), _figure(f.peak_mb, ".1f"),
            _verdict(f),
        )  # fmt: skip
    return table


def _verdict(f: Finding) -> str:
    if f.failed:
        return "[red]wrong[/red]"
    if f.forward_error is None:
        return "[dim]not here[/dim]"
    taken = {"": "", "forward": ", auto forward", "backward": ", auto backward"}.get(f.auto, ", auto")
    return f"[green]right[/green]{', no backward' if f.refuses else ''}[bold]{taken}[/bold]"


def _figure(value: float | None, form: str) -> str:
    return "[dim]–[/dim]" if value is None else format(value, form)
