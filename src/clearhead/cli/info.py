"""`clearhead info`: what is in a model folder, and is it intact?"""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from clearhead.cli.faults import told
from clearhead.models.describe import describe


@told
def info(
    folder: Annotated[str, typer.Argument(help="A model folder, or a name on the Hugging Face hub.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of the table.")] = False,
) -> None:
    """Show what a model folder is, how big, what its head answers, and whether every byte is as it was saved.

    Weights are not loaded. The exit code is 1 if the folder is damaged, 2 if it cannot be read.

    Example: clearhead info my-model --json
    """
    found = describe(folder)
    if as_json:
        typer.echo(json.dumps(found))
    else:
        show(Console(highlight=False), found)
    if found["intact"] is False:
        raise typer.Exit(1)


def show(console: Console, found: dict[str, Any]) -> None:
    """Print it for a person."""
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column(style="dim", no_wrap=True)
    table.add_column()
    labels = found["labels"]
    layers = [f"{found[f'{s}_layers']} {s} layers" for s in ("encoder", "decoder") if found[f"{s}_layers"]]
    shared = f" ({found['kv_heads']} for keys)" if found["kv_heads"] != found["heads"] else ""
    bricks = _recurrent(found["recurrent"]) if found["recurrent"] else f"{found['heads']} heads{shared}"
    rows = {
        "model": f"[bold]{found['architecture']}[/bold], a {found['family']}",
        "head": None if found["head"] is None else found["head"] + (f": {', '.join(labels[:8])}" if labels else ""),
        "size": f"{found['parameters']:,} parameters, {found['bytes'] / 1e6:,.1f} MB of {', '.join(found['dtypes'])}"
        + (f" in {len(found['files'])} files" if len(found["files"]) > 1 else ""),
        "shape": f"{' and '.join(layers)}, width {found['width']}, {bricks}",
        "reads": None if found["max_len"] is None else f"up to {found['max_len']:,} tokens",
        "tokenizer": found["tokenizer"],
        "sentences": None if found["sentence"] is None else ", ".join(f"{k} {v}" for k, v in found["sentence"].items()),
        "intact": {
            True: f"[green]yes[/green], every byte as clearhead {found['saved_by']} saved it",
            None: "not known: the folder has no manifest (clearhead did not save it)",
            False: "[red]no[/red]: " + "; ".join(f"{name} {why}" for name, why in found["problems"].items()),
        }[found["intact"]],
    }
    for name, value in rows.items():
        if value is not None:
            table.add_row(name, value)
    console.print(table)


def _recurrent(net: dict[str, Any]) -> str:
    both = "bidirectional " if net["bidirectional"] else ""
    states = " and ".join(map(str, dict.fromkeys(net["hidden"])))
    attention = "" if net["attention"] == "none" else f", {net['attention']} attention{' fed back' * net['feed']}"
    return f"{both}{net['kind']} with states of {states}{attention}"
