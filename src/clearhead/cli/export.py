"""`clearhead export`: a model as a folder that another engine opens."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from clearhead.app import load
from clearhead.cli.faults import told
from clearhead.decode import export as export_folder


@told
def export(
    model: Annotated[str, typer.Argument(help="A translator or language model: a folder, or a name on the hub.")],
    to: Annotated[str, typer.Option(help="The engine: ctranslate2.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="The folder to make; it must not hold anything yet.")],
    quantization: Annotated[
        str | None, typer.Option(help="int8, int8_float16, int16, float16, bfloat16 … Default: float32.")
    ] = None,
) -> None:
    """Write a model for CTranslate2, with its tokenizer: a small, fast engine without Python, on a CPU or a GPU.

    Models like Marian, BART and GPT-2 can be exported. What is written is the same as here, in float32 to the token.

    Example: clearhead export en-de --to ctranslate2 --out en-de-int8 --quantization int8
    """
    if to != "ctranslate2":
        raise ValueError(f"there is no export to {to!r}: choose ctranslate2")
    writer = load(model, dtype="float32").writer
    export_folder(writer.model, writer.tokenizer, writer.defaults.rules, out, quantization=quantization)
    size = sum(f.stat().st_size for f in out.iterdir())
    typer.echo(f"{out}: {size / 1e6:,.1f} MB, {quantization or 'float32'}")
