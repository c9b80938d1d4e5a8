"""`clearhead info`: what a model folder holds, and whether its files are intact."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import typer

from clearhead.cli.command import report_errors
from clearhead.cli.options import JsonOption, ModelArgument

if TYPE_CHECKING:
    from rich.console import Console

MAX_LABELS = 8


@report_errors
def info(folder: ModelArgument, as_json: JsonOption = False) -> None:
    """Describe a model folder and verify its files.

    Shows the architecture, the head and its labels, the size and the shape, and compares every file with its checksum.
    Weights are not loaded. The exit code is 1 if the folder is damaged, 2 if it cannot be read.

    Example: clearhead info my-model --json
    """
    from rich.console import Console

    from clearhead.hub.describe import describe

    result = describe(folder)
    if as_json:
        typer.echo(json.dumps(result))
    else:
        show(Console(highlight=False), result)
    if result["intact"] is False:
        raise typer.Exit(1)


def show(console: Console, model: dict[str, Any]) -> None:
    from rich.table import Table

    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column(style="dim", no_wrap=True)
    table.add_column()
    labels = model["labels"]
    layers = [f"{model[f'{s}_layers']} {s} layers" for s in ("encoder", "decoder") if model[f"{s}_layers"]]
    kv_heads = f" ({model['kv_heads']} key/value heads)" if model["kv_heads"] != model["heads"] else ""
    parts = _recurrent(model["recurrent"]) if model["recurrent"] else f"{model['heads']} heads{kv_heads}"
    rows = {
        "model": f"[bold]{model['architecture']}[/bold] ({model['family']})",
        "head": None if model["head"] is None else model["head"] + _label_list(labels),
        "size": f"{model['parameters']:,} parameters, {model['bytes'] / 1e6:,.1f} MB of {', '.join(model['dtypes'])}"
        + (f" in {len(model['files'])} files" if len(model["files"]) > 1 else ""),
        "shape": f"{' and '.join(layers)}, width {model['width']}, {parts}",
        "max length": None if model["max_len"] is None else f"{model['max_len']:,} tokens",
        "tokenizer": model["tokenizer"],
        "embedding": None if model["sentence"] is None else ", ".join(f"{k} {v}" for k, v in model["sentence"].items()),
        "intact": {
            True: f"[green]yes[/green], every file matches its checksum (saved by clearhead {model['saved_by']})",
            None: "unknown: the folder has no manifest (it was not saved by clearhead)",
            False: "[red]no[/red]: " + "; ".join(f"{name} {why}" for name, why in model["problems"].items()),
        }[model["intact"]],
    }
    for name, value in rows.items():
        if value is not None:
            table.add_row(name, value)
    console.print(table)


def _label_list(labels: list[str]) -> str:
    if not labels:
        return ""
    more = f", … ({len(labels)} labels)" if len(labels) > MAX_LABELS else ""
    return f": {', '.join(labels[:MAX_LABELS])}{more}"


def _recurrent(net: dict[str, Any]) -> str:
    direction = "bidirectional " if net["bidirectional"] else ""
    sizes = " and ".join(map(str, dict.fromkeys(net["hidden_size"])))
    attention = "" if net["attention"] == "none" else f", {net['attention']} attention"
    feeding = " with input feeding" if net["input_feeding"] else ""
    return f"{direction}{net['kind']}, hidden size {sizes}{attention}{feeding}"
