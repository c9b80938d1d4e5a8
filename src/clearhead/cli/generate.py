"""`clearhead generate`: what a language model writes after a prompt."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from typing import Annotated

import typer

from clearhead.app import load
from clearhead.cli.faults import told
from clearhead.cli.pipes import quiet


@told
@quiet
def generate(
    model: Annotated[str, typer.Argument(help="A model folder, or a name on the Hugging Face hub.")],
    prompt: Annotated[str, typer.Argument(help="What to go on from; - reads it from standard input.")],
    max_new: Annotated[
        int | None, typer.Option(min=1, help="Tokens to write at most. Default: the folder's, or 64.")
    ] = None,
    temperature: Annotated[
        float | None, typer.Option(min=0, help="0: the likeliest token; 1: as likely as the model says.")
    ] = None,
    top_k: Annotated[int | None, typer.Option(min=0, help="Draw from the so many likeliest tokens; 0: all.")] = None,
    top_p: Annotated[float | None, typer.Option(help="Draw from the tokens that make up this probability.")] = None,
    seed: Annotated[int | None, typer.Option(min=0, help="The same seed gives the same text.")] = None,
    beam: Annotated[int, typer.Option(min=1, help="Beam search, where nothing is drawn.")] = 1,
    stream: Annotated[bool, typer.Option(help="Show the text while it is written.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object: text, score, seed.")] = False,
    dtype: Annotated[
        str, typer.Option(help="float32, bfloat16, or auto: bfloat16 where this machine computes in it.")
    ] = "auto",
    device: Annotated[str, typer.Option(help="cpu, cuda, cuda:1, mps.")] = "cpu",
) -> None:
    """Write on after a prompt: the likeliest text, or one that is drawn.

    Example: clearhead generate my-gpt "The old man" --temperature 0.8 --top-p 0.95 --seed 7 --stream
    """
    if stream and (as_json or beam > 1):
        raise ValueError("--stream shows tokens as they are written: it goes with neither --json nor --beam")
    text = sys.stdin.read() if prompt == "-" else prompt
    app = load(model, dtype=dtype, device=device)
    try:
        if stream:
            typer.echo(text, nl=False)
            for piece in app.pieces(
                text, max_new=max_new, temperature=temperature, top_k=top_k, top_p=top_p, seed=seed
            ):
                sys.stdout.write(piece.text)
                sys.stdout.flush()
            typer.echo()
            return
        result = app.generate(
            text, max_new=max_new, temperature=temperature, top_k=top_k, top_p=top_p, seed=seed, beam=beam
        )
    except KeyboardInterrupt:
        typer.echo()
        raise typer.Exit(130) from None
    typer.echo(json.dumps(asdict(result), ensure_ascii=False) if as_json else text + result.text)
