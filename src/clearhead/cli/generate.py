"""`clearhead generate`: generate text from a prompt."""

import json
import sys
from dataclasses import asdict
from typing import Annotated

import typer

from clearhead.cli.command import ignore_broken_pipe, report_errors
from clearhead.cli.options import DeviceOption, DtypeOption, ModelArgument, SeedOption, TopKOption


@report_errors
@ignore_broken_pipe
def generate(
    model: ModelArgument,
    prompt: Annotated[str, typer.Argument(help="Prompt; - reads it from standard input.")],
    max_new_tokens: Annotated[
        int | None, typer.Option(min=1, help="Maximum number of tokens to generate. Default: the model's, or 64.")
    ] = None,
    temperature: Annotated[float | None, typer.Option(min=0, help="Sampling temperature; 0 is greedy.")] = None,
    top_k: TopKOption = None,
    top_p: Annotated[float | None, typer.Option(help="Sample from the fewest tokens with this probability.")] = None,
    seed: SeedOption = None,
    beam: Annotated[int, typer.Option(min=1, help="Number of beams of beam search, without sampling.")] = 1,
    stream: Annotated[bool, typer.Option(help="Print the text while it is generated.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object: text, score, seed.")] = False,
    dtype: DtypeOption = "auto",
    device: DeviceOption = "auto",
) -> None:
    """Generate text from a prompt, greedily or by sampling.

    Example: clearhead generate my-gpt "The old man" --temperature 0.8 --top-p 0.95 --seed 7 --stream
    """
    if stream and (as_json or beam > 1):
        raise ValueError("--stream cannot be combined with --json or --beam: it prints tokens as they are generated")
    from clearhead.pipeline import load

    text = sys.stdin.read() if prompt == "-" else prompt
    pipeline = load(model, dtype=dtype, device=device)
    try:
        if stream:
            typer.echo(text, nl=False)
            for chunk in pipeline.stream(
                text, max_new_tokens=max_new_tokens, temperature=temperature, top_k=top_k, top_p=top_p, seed=seed
            ):
                sys.stdout.write(chunk.text)
                sys.stdout.flush()
            typer.echo()
            return
        result = pipeline.generate(
            text, max_new_tokens=max_new_tokens, temperature=temperature, top_k=top_k, top_p=top_p, seed=seed, beam=beam
        )
    except KeyboardInterrupt:
        typer.echo()
        raise typer.Exit(130) from None
    typer.echo(json.dumps(asdict(result), ensure_ascii=False) if as_json else text + result.text)
