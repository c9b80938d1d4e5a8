"""`clearhead convert`: a model whose weights are a pickle, made into one that is safe to open."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from clearhead.models.convert import Conversion
from clearhead.models.convert import convert as convert_folder


def convert(
    old: Annotated[Path, typer.Argument(help="A model folder with pytorch_model.bin, whole or sharded.")],
    new: Annotated[Path, typer.Argument(help="The folder to make; it must not hold anything yet.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of text.")] = False,
) -> None:
    """Make a model folder with safetensors from one whose weights are a pickle.

    The pickle is opened by a process of its own that accepts tensors and nothing else. Code that came with the model
    is not copied. The exit code is 2 if the folder is refused; nothing is left behind then.

    Example: clearhead convert bert-old bert-new
    """
    try:
        done = convert_folder(old, new)
    except (ValueError, OSError) as error:
        if as_json:
            typer.echo(json.dumps({"ok": False, "error": str(error)}))
        typer.echo(f"clearhead convert: {error}", err=True)
        raise typer.Exit(2) from None
    if as_json:
        typer.echo(json.dumps({"ok": True, "new": str(new), **asdict(done)}))
    else:
        show(new, done)


def show(new: Path, done: Conversion) -> None:
    """Print what was done for a person."""
    typer.echo(f"{new}: {done.tensors:,} tensors, {done.bytes / 1e6:,.1f} MB")
    typer.echo(f"files: {_listed(done.files)}")
    for name, kept in done.tied.items():
        typer.echo(f"the same tensor, kept once: {_listed([name])} is {_listed([kept])}")
    if done.left:
        typer.echo(f"left behind: {_listed(done.left)}")


def _listed(names: list[str]) -> str:
    """Names for a terminal: what could steer it is shown as an escape."""
    return ", ".join(name if name.isprintable() else repr(name) for name in names)
