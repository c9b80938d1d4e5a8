"""`clearhead data`: list and download the data sets of the catalog."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from clearhead.cli.command import report_errors

if TYPE_CHECKING:
    from rich.console import Console

    from clearhead.data.catalog import Dataset


@report_errors
def data(
    name: Annotated[str | None, typer.Argument(help="Data set to show. Default: list all.")] = None,
    folder: Annotated[
        Path | None, typer.Option("--from", help="Copy the data set from this folder and verify its checksums.")
    ] = None,
    download: Annotated[bool, typer.Option("--fetch", help="Download the data set and verify its checksums.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """List, show, copy or download data sets.

    Data sets are stored in $CLEARHEAD_DATA, or ~/.cache/clearhead/data. A recipe names a file of a data set as
    multi30k:train.en.gz. Data sets of the Hugging Face hub need no copy here: hub:OWNER/NAME in a recipe.

    Example: clearhead data multi30k --fetch
    """
    from rich.console import Console

    from clearhead.data.catalog import DATASETS
    from clearhead.data.datasets import find_dataset, import_files

    if folder is not None and download:
        raise ValueError("--from and --fetch both provide the files: give only one of them")
    if name is None:
        if folder is not None or download:
            raise ValueError(
                "no data set is named: run clearhead data NAME --fetch, or clearhead data NAME --from FOLDER"
            )
        datasets = [describe(dataset) for dataset in DATASETS.values()]
        return typer.echo(json.dumps(datasets)) if as_json else show_all(Console(highlight=False), datasets)
    dataset = find_dataset(name)
    if folder is not None:
        import_files(name, folder)
    if download:
        _fetch(dataset)
    if as_json:
        return typer.echo(json.dumps(describe(dataset)))
    return show(Console(highlight=False), describe(dataset))


def _fetch(dataset: Dataset) -> None:
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn

    from clearhead.data import datasets

    console = Console(stderr=True, highlight=False)
    columns = TextColumn(dataset.name), BarColumn(), DownloadColumn()
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task("", total=dataset.size)
        datasets.fetch(dataset.name, lambda done: progress.update(task, completed=done))


def describe(dataset: Dataset) -> dict[str, Any]:
    """Return a data set, its files and what is stored locally, as JSON values."""
    from clearhead.data.datasets import data_home, files_here

    here = files_here(dataset)
    files = [
        {"name": f.name, "bytes": f.size, "sha256": f.sha256, "url": f.url, "available": here[f.name]}
        for f in dataset.files
    ]
    return {
        "name": dataset.name,
        "title": dataset.title,
        "examples": dataset.examples,
        "license": dataset.license,
        "source": dataset.source,
        "hub_id": dataset.hub_id,
        "about": dataset.about,
        "bytes": dataset.size,
        "available": all(here.values()),
        "folder": str(data_home() / dataset.name),
        "fetchable": all(file.url is not None for file in dataset.files),
        "files": files,
    }


def show_all(console: Console, datasets: list[dict[str, Any]]) -> None:
    from rich.markup import escape
    from rich.table import Table

    from clearhead.data.datasets import data_home

    table = Table(box=None, header_style="bold", pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("name", no_wrap=True)
    table.add_column("content")
    table.add_column("examples", justify="right", no_wrap=True)
    table.add_column("MB", justify="right", no_wrap=True)
    table.add_column("license", no_wrap=True)
    table.add_column("get with", no_wrap=True)
    table.add_column("here", no_wrap=True)
    for d in datasets:
        size = f"{d['bytes'] / 1e6:,.1f}"
        table.add_row(d["name"], d["title"], f"{d['examples']:,}", size, d["license"], _source(d), _yes_no(d))
    console.print(table)
    place = escape(str(data_home()))
    console.print(f"\n[dim]stored in {place}; details: clearhead data NAME[/dim]", soft_wrap=True)


def show(console: Console, dataset: dict[str, Any]) -> None:
    from rich.markup import escape
    from rich.table import Table

    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column(style="dim", no_wrap=True)
    table.add_column()
    table.add_row("name", f"[bold]{dataset['name']}[/bold]: {dataset['title']}")
    table.add_row("examples", f"{dataset['examples']:,}")
    table.add_row("license", dataset["license"])
    table.add_row("source", escape(dataset["source"]))
    if dataset["hub_id"] is not None:
        table.add_row("on the hub", f"hub:{dataset['hub_id']}, whose format and rows may differ from these files")
    table.add_row("about", escape(dataset["about"]))
    table.add_row("here", _location(dataset))
    console.print(table)
    files = Table(box=None, header_style="bold", pad_edge=False, padding=(0, 2, 0, 0))
    files.add_column("file", overflow="fold")
    files.add_column("bytes", justify="right", no_wrap=True)
    files.add_column("SHA-256", no_wrap=True)
    files.add_column("here", no_wrap=True)
    for file in dataset["files"]:
        files.add_row(file["name"], f"{file['bytes']:,}", file["sha256"][:16], _yes_no(file))
    console.print()
    console.print(files)


def _yes_no(item: dict[str, Any]) -> str:
    return "[green]yes[/green]" if item["available"] else "[dim]no[/dim]"


def _source(dataset: dict[str, Any]) -> str:
    """Return how a data set can be had: downloaded as it is, from the hub, or from a copy."""
    options = ["--fetch"] * dataset["fetchable"] + ["hub:"] * (dataset["hub_id"] is not None)
    return ", ".join(options) or "[dim]--from[/dim]"


def _location(dataset: dict[str, Any]) -> str:
    from rich.markup import escape

    if dataset["available"]:
        return f"[green]yes[/green], in {escape(dataset['folder'])}"
    options = ["--fetch"] * dataset["fetchable"] + ["--from FOLDER"]
    return f"no: clearhead data {dataset['name']} {', or '.join(options)}"
