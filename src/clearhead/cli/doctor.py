"""`clearhead doctor`: check that every attention kernel is correct and fast on this machine."""

from __future__ import annotations

import json
import os
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from clearhead.cli.options import JsonOption

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from clearhead.analysis.kernel_check import KernelReport


def doctor(
    as_json: JsonOption = False,
    report_file: Annotated[
        Path | None,
        typer.Option("--report", help="Also check masks, shapes and dropout, and write everything to this JSON file."),
    ] = None,
) -> None:
    """Check every attention kernel on this machine.

    Runs every kernel in every dtype and compares it with the reference kernel in float64. Shows the largest error of
    the output and of the gradient, the time, the peak memory, and the kernel that `auto` selects. The exit code is 1
    if a kernel gives a wrong result. The file of `--report` contains versions, hardware, errors, tolerances and times,
    and no names of hosts, users or folders.

    Example: clearhead doctor --report doctor.json
    """
    from rich.console import Console
    from rich.progress import Progress, TextColumn, TimeElapsedColumn

    from clearhead.analysis.doctor_report import check_cases, machine, report
    from clearhead.analysis.kernel_check import DTYPES, check_kernels, devices
    from clearhead.attention.kernels import KERNELS

    os.environ.setdefault("KINETO_LOG_LEVEL", "99")  # the profiler that measures memory writes to stderr
    console = Console(stderr=True)
    reports: list[KernelReport] = []
    with Progress(TextColumn("{task.description}"), TimeElapsedColumn(), console=console, transient=True) as progress:
        task = progress.add_task("", total=len(DTYPES) * len(KERNELS) * len(devices()))
        for device in devices():
            for checked in check_kernels(device):
                progress.update(task, advance=1, description=f"{device} {checked.dtype} {checked.kernel}")
                reports.append(checked)
        cases = [case for device in devices() for case in check_cases(device)] if report_file else []
    failures = [r for r in reports if not r.ok] + [c for c in cases if c.failed]
    if report_file is not None:
        report_file.write_text(json.dumps(report(reports, cases), indent=1) + "\n", encoding="utf-8")
    if as_json:
        typer.echo(json.dumps({"machine": machine(), "ok": not failures, "findings": [asdict(r) for r in reports]}))
    else:
        show(Console(highlight=False), reports)
        for case in cases:
            if case.failed:
                typer.echo(f"{case.case}, {case.dtype}, {case.device} ({case.kernel}): {case.failed}")
    if failures:
        raise typer.Exit(1)


def show(console: Console, reports: list[KernelReport]) -> None:
    from clearhead.analysis.doctor_report import machine

    console.print("  ".join(f"[dim]{k}[/dim] {v}" for k, v in machine().items() if v), "\n")
    for device in dict.fromkeys(r.device for r in reports):
        console.print(_table(device, [r for r in reports if r.device == device]))
    console.print()
    notes = {f"{r.kernel} on {r.device}: {r.unsupported}": None for r in reports if r.unsupported}
    for note in notes:
        console.print(f"[dim]{note}[/dim]")
    ran = [r for r in reports if r.forward_error is not None]
    failures = [r for r in reports if not r.ok]
    for r in failures:
        console.print(f"[red]{r.kernel}, {r.dtype}, {r.device}: {r.failed}[/red]")
    if failures:
        console.print(
            f"\n[red]{len(failures)} of {len(ran)} checks failed: use another kernel here, and report this.[/red]"
        )
    else:
        console.print(f"\n[green]All {len(ran)} supported kernel and dtype pairs agree with the reference.[/green]")


def _table(device: str, reports: list[KernelReport]) -> Table:
    from rich.table import Table

    table = Table(
        box=None, header_style="bold", pad_edge=False, title=f"[bold]{device}", title_justify="left", padding=(0, 1)
    )
    for name in ("dtype", "kernel"):
        table.add_column(name, no_wrap=True)
    for name in ("max error\noutput", "\ngradient", "ms\nforward", "\n+backward", "MB\npeak"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    for previous, r in zip([None, *reports], reports, strict=False):
        if previous is not None and previous.dtype != r.dtype:
            table.add_row()
        table.add_row(
            r.dtype if previous is None or previous.dtype != r.dtype else "",
            f"[bold]{r.kernel}[/bold]" if r.auto else r.kernel,
            _number(r.forward_error, ".0e"), _number(r.backward_error, ".0e"),
            _number(r.forward_ms, ".2f"), _number(r.backward_ms, ".2f"), _number(r.peak_mb, ".1f"),
            _verdict(r),
        )  # fmt: skip
    return table


def _verdict(report: KernelReport) -> str:
    if report.failed:
        return "[red]wrong[/red]"
    if report.forward_error is None:
        return "[dim]unsupported[/dim]"
    auto = {"": "", "forward": ", auto forward", "backward": ", auto backward"}.get(report.auto, ", auto")
    return f"[green]ok[/green]{', no backward' if report.unsupported else ''}[bold]{auto}[/bold]"


def _number(value: float | None, spec: str) -> str:
    return "[dim]–[/dim]" if value is None else format(value, spec)
