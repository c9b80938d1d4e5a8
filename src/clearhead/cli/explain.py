"""`clearhead explain`: what each token adds to the similarity or relevance of two texts."""

import json
from pathlib import Path
from typing import Annotated

import typer

from clearhead.cli.command import report_errors
from clearhead.cli.options import DeviceOption, DtypeOption, JsonOption, ModelArgument


@report_errors
def explain(
    model: ModelArgument,
    first: Annotated[str, typer.Argument(help="A text, or the query of a reranker.")],
    second: Annotated[str, typer.Argument(help="Another text, or the document.")],
    out: Annotated[Path | None, typer.Option(help="Write a page with both texts, shaded by token.")] = None,
    top: Annotated[int, typer.Option(min=1, help="Rows of the table.")] = 10,
    as_json: JsonOption = False,
    dtype: DtypeOption = "auto",
    device: DeviceOption = "auto",
) -> None:
    """Explain the similarity of two texts by their tokens.

    The cosine of an embedding model is a sum over pairs of tokens. For a reranker, integrated gradients divide the
    relevance among the tokens.

    Example: clearhead explain my-model "Where does it rain?" "The coast is wet in winter." --out why.html
    """
    from rich.console import Console
    from rich.table import Table

    from clearhead.files import write_atomic
    from clearhead.pipeline import load
    from clearhead.viz.vector_page import explanation_data, explanation_page

    found = load(model, dtype=dtype, device=device).explain(first, second)
    if out is not None:
        write_atomic(out, explanation_page(found).encode())
        typer.echo(out, err=True)
    if as_json:
        typer.echo(json.dumps(explanation_data(found), ensure_ascii=False))
        return
    console = Console(highlight=False)
    table = Table(box=None, pad_edge=False)
    if found.pairs is not None:
        console.print(f"cosine {found.score:.4f}, the sum over {found.pairs.numel():,} pairs of tokens")
        for name in ("first text", "second text"):
            table.add_column(name)
        table.add_column("adds", justify="right")
        for a, b, value in found.top(top):
            table.add_row(a, b, f"{value:.4f}")
    else:
        console.print(f"relevance {found.score:.4f}; {found.baseline:.4f} with all tokens masked")
        table.add_column("token")
        table.add_column("text")
        table.add_column("adds", justify="right")
        sides = (("query", found.first, found.first_values), ("document", found.second, found.second_values))
        tokens = [
            (word, side, value)
            for side, words, values in sides
            for word, value in zip(words, values.tolist(), strict=True)
        ]
        for word, side, value in sorted(tokens, key=lambda item: -abs(item[2]))[:top]:
            table.add_row(word, side, f"{value:+.4f}")
    console.print(table)
