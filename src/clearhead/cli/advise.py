"""`clearhead advise`: the attention of each layer that reads long texts fastest within an error."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Annotated

import typer

from clearhead.cli.command import report_errors
from clearhead.cli.options import JsonOption, ModelArgument

UNITS = {"K": 2.0**-10, "M": 1.0, "G": 2.0**10, "T": 2.0**20}  # in megabytes


@report_errors
def advise(
    model: ModelArgument,
    text: Annotated[Path, typer.Argument(help="A text like those the model will read, on which errors are measured.")],
    length: Annotated[int, typer.Option(min=256, help="Tokens of the texts to be read.")] = 16_384,
    memory: Annotated[str, typer.Option(help="Memory that the attention of one layer may use, e.g. 4GB.")] = "4GB",
    max_error: Annotated[
        float, typer.Option(min=0.0, help="Largest relative error of the output of a layer's attention.")
    ] = 0.1,
    as_json: JsonOption = False,
) -> None:
    """Measure efficient attention in a model, and advise one for each layer.

    Times and memory are measured on this machine at the length asked for, errors in the model on the text. A layer
    whose heads are local anyway gets a window; one that needs all keys keeps exact attention. The last lines are the
    `model.attention` of a recipe.

    Example: clearhead advise minilm article.txt --length 16384 --memory 4GB
    """
    from rich.console import Console
    from rich.table import Table

    from clearhead.analysis.attention_advice import advise_attention
    from clearhead.cli.progress import show_progress
    from clearhead.pipeline import load

    if not text.is_file():
        raise ValueError(f"{text} does not exist or is not a file")
    limit = _megabytes(memory)
    with show_progress() as on_progress:
        advice = advise_attention(
            load(model).loaded, text.read_text(encoding="utf-8"), length=length, max_error=max_error,
            max_megabytes=limit, on_progress=on_progress,
        )  # fmt: skip
    summary = {
        "length": length, "measured_on_tokens": advice.tokens, "attention": advice.attention,
        "layers": [{"method": c.name, "error": c.errors[i], "seconds": c.seconds} for i, c in enumerate(advice.layers)],
        "exact_seconds_per_layer": advice.exact_seconds, "speedup": advice.speedup, "error": advice.error,
        "megabytes_per_layer": advice.megabytes,
    }  # fmt: skip
    if as_json:
        return typer.echo(json.dumps(summary))
    console = Console(highlight=False)
    table = Table(box=None, header_style="bold", pad_edge=False, padding=(0, 2, 0, 0))
    for title in ("layer", "attention", "error", "seconds"):
        table.add_column(title, justify="left" if title == "attention" else "right")
    for layer, choice in enumerate(advice.layers):
        table.add_row(str(layer), choice.name, f"{choice.errors[layer]:.3f}", f"{choice.seconds:.2f}")
    console.print(table)
    console.print(
        f"attention of all layers at {length:,} tokens: {advice.speedup:.1f} times as fast as exact, at most "
        f"{advice.megabytes:,.0f} MB for a layer; error of the hidden states on {advice.tokens:,} tokens: "
        f"{advice.error:.3f}"
    )
    if advice.tokens < length:
        console.print(f"errors are those of {advice.tokens:,} tokens with the same share of keys read")
    if not advice.attention:
        return console.print(f"no method is faster with an error of at most {max_error}: keep exact attention")
    console.print("\nmodel:\n  attention:", markup=False)
    for entry in advice.attention:
        console.print(f"    - {json.dumps(entry).replace(chr(34), '')}", markup=False, soft_wrap=True)
    return None


def _megabytes(text: str) -> float:
    match = re.fullmatch(r"(\d+(?:\.\d+)?) ?([KMGT])B?", text.strip().upper())
    if match is None:
        raise ValueError(f"--memory {text}: write a size such as 500MB or 4GB")
    return float(match[1]) * UNITS[match[2]]
