"""`clearhead convert`: convert a model folder with pickled weights to safetensors."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from clearhead.cli.options import JsonOption

if TYPE_CHECKING:
    from clearhead.hub.pickle_to_safetensors import Conversion


def convert(
    old: Annotated[Path, typer.Argument(help="Model folder with pytorch_model.bin, in one file or sharded.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder to write; it must be empty or not exist.")],
    as_json: JsonOption = False,
) -> None:
    """Convert pickled weights to safetensors.

    The pickle is loaded in a separate process that accepts tensors only. Code in the folder is not copied. The exit
    code is 2 if the folder is refused; nothing is written then.

    Example: clearhead convert bert-old --out bert-new
    """
    from clearhead.hub.pickle_to_safetensors import convert_pickles

    try:
        result = convert_pickles(old, out)
    except (ValueError, OSError) as error:
        if as_json:
            typer.echo(json.dumps({"ok": False, "error": str(error)}))
        typer.echo(f"clearhead convert: {error}", err=True)
        raise typer.Exit(2) from None
    if as_json:
        typer.echo(json.dumps({"ok": True, "out": str(out), **asdict(result)}))
    else:
        show(out, result)


def show(out: Path, result: Conversion) -> None:
    typer.echo(f"{out}: {result.tensors:,} tensors, {result.bytes / 1e6:,.1f} MB")
    typer.echo(f"files: {_join(result.files)}")
    for name, kept in result.tied.items():
        typer.echo(f"tied weights, stored once: {_join([name])} is {_join([kept])}")
    if result.left:
        typer.echo(f"not copied: {_join(result.left)}")


def _join(names: list[str]) -> str:
    """Join names for a terminal; names with control characters are escaped."""
    return ", ".join(name if name.isprintable() else repr(name) for name in names)
