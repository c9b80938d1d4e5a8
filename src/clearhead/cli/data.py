"""`clearhead data`: the data sets that have names, and the way to get them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn
from rich.table import Table

from clearhead.cli.faults import told
from clearhead.data.catalogue import SETS, DataSet
from clearhead.data.sets import data_home, data_set, fetch, files_here, take


@told
def data(
    name: Annotated[str | None, typer.Argument(help="A data set; without one, all are listed.")] = None,
    folder: Annotated[
        Path | None, typer.Option("--from", help="Copy the data set from this folder, every byte checked.")
    ] = None,
    download: Annotated[bool, typer.Option("--fetch", help="Download the data set, every byte checked.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of the table.")] = False,
) -> None:
    """List the data sets that recipes can name, or show, copy or download one of them.

    They are kept in $CLEARHEAD_DATA, or ~/.cache/clearhead/data. A recipe names a file as multi30k:train.en.gz.

    Example: clearhead data multi30k --fetch
    """
    if folder is not None and download:
        raise ValueError("--from and --fetch are two ways to the same files: give one of them")
    if name is None:
        if folder is not None or download:
            raise ValueError("which data set? Name it: clearhead data NAME --fetch, or --from FOLDER")
        found = [facts(wanted) for wanted in SETS.values()]
        return typer.echo(json.dumps(found)) if as_json else show_all(Console(highlight=False), found)
    wanted = data_set(name)
    if folder is not None:
        take(name, folder)
    if download:
        _fetch(wanted)
    if as_json:
        return typer.echo(json.dumps(facts(wanted)))
    return show(Console(highlight=False), facts(wanted))


def _fetch(wanted: DataSet) -> None:
    screen = Console(stderr=True, highlight=False)
    columns = TextColumn(wanted.name), BarColumn(), DownloadColumn()
    with Progress(*columns, console=screen, transient=True, disable=not screen.is_terminal) as progress:
        task = progress.add_task("", total=wanted.size)
        fetch(wanted.name, lambda done: progress.update(task, completed=done))


def facts(wanted: DataSet) -> dict[str, Any]:
    """What there is to tell of a data set, as JSON has it."""
    here = files_here(wanted)
    return {
        "name": wanted.name,
        "title": wanted.title,
        "examples": wanted.examples,
        "licence": wanted.licence,
        "source": wanted.source,
        "about": wanted.about,
        "bytes": wanted.size,
        "here": all(here.values()),
        "folder": str(data_home() / wanted.name),
        "fetchable": all(file.url is not None for file in wanted.files),
        "files": [
            {"name": file.name, "bytes": file.size, "sha256": file.sha256, "url": file.url, "here": here[file.name]}
            for file in wanted.files
        ],
    }


def show_all(console: Console, found: list[dict[str, Any]]) -> None:
    """Print all data sets for a person."""
    table = Table(box=None, header_style="bold", pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("name", no_wrap=True)
    table.add_column("what")
    table.add_column("examples", justify="right", no_wrap=True)
    table.add_column("MB", justify="right", no_wrap=True)
    table.add_column("licence", no_wrap=True)
    table.add_column("here", no_wrap=True)
    for one in found:
        table.add_row(
            one["name"], one["title"], f"{one['examples']:,}", f"{one['bytes'] / 1e6:,.1f}", one["licence"], _mark(one)
        )
    console.print(table)
    console.print(f"\n[dim]kept in {escape(str(data_home()))}; more of one: clearhead data NAME[/dim]", soft_wrap=True)


def show(console: Console, one: dict[str, Any]) -> None:
    """Print one data set for a person."""
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column(style="dim", no_wrap=True)
    table.add_column()
    table.add_row("name", f"[bold]{one['name']}[/bold]: {one['title']}")
    table.add_row("examples", f"{one['examples']:,}")
    table.add_row("licence", one["licence"])
    table.add_row("source", escape(one["source"]))
    table.add_row("about", escape(one["about"]))
    table.add_row("here", _state(one))
    console.print(table)
    files = Table(box=None, header_style="bold", pad_edge=False, padding=(0, 2, 0, 0))
    files.add_column("file", overflow="fold")
    files.add_column("bytes", justify="right", no_wrap=True)
    files.add_column("SHA-256", no_wrap=True)
    files.add_column("here", no_wrap=True)
    for file in one["files"]:
        files.add_row(file["name"], f"{file['bytes']:,}", file["sha256"][:16], _mark(file))
    console.print()
    console.print(files)


def _mark(one: dict[str, Any]) -> str:
    return "[green]yes[/green]" if one["here"] else "[dim]no[/dim]"


def _state(one: dict[str, Any]) -> str:
    if one["here"]:
        return f"[green]yes[/green], in {escape(one['folder'])}"
    ways = ["--fetch"] * one["fetchable"] + ["--from FOLDER"]
    return f"no: clearhead data {one['name']} {', or '.join(ways)}"
