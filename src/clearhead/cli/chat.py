"""`clearhead chat`: chat with a model, in the terminal or through a pipe."""

import json
import sys
from typing import Annotated

import typer

from clearhead.cli.command import ignore_broken_pipe, report_errors
from clearhead.cli.options import DeviceOption, DtypeOption, ModelArgument, SeedOption, TopKOption

COMMANDS_HELP = "/new: new conversation, /undo: remove the last turn, /again: another reply, /quit: exit"


@report_errors
@ignore_broken_pipe
def chat(
    model: ModelArgument,
    max_new_tokens: Annotated[int | None, typer.Option(min=1, help="Maximum number of tokens per reply.")] = None,
    temperature: Annotated[float, typer.Option(min=0, help="Sampling temperature; 0 is greedy.")] = 0.8,
    top_p: Annotated[float, typer.Option(help="Sample from the smallest set of tokens with this probability.")] = 0.9,
    top_k: TopKOption = None,
    seed: SeedOption = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object per turn: turn, reply, dropped_turns.")
    ] = False,
    dtype: DtypeOption = "auto",
    device: DeviceOption = "auto",
) -> None:
    """Chat with a dialogue model in the terminal.

    The model is trained with `task: dialogue`. Each line of input is a turn; Ctrl-D exits. Turns that do not fit into
    the model are dropped, the oldest first.

    Example: clearhead chat runs/dialogue/model --seed 1
    """
    from clearhead.pipeline import load

    pipeline = load(model, dtype=dtype, device=device)
    _ = pipeline.generator  # refuse a model that cannot generate before the first turn
    interactive = sys.stdin.isatty() and not as_json
    if interactive:
        typer.echo(COMMANDS_HELP)
    turns: list[str] = []
    count = 0
    while (line := _read_line(interactive)) is not None:
        turn = line.strip()
        if turn in ("/quit", "/exit"):
            break
        if turn in ("/new", "/undo") and not as_json:
            turns = [] if turn == "/new" else turns[:-2]
            continue
        if turn == "/again" and turns and not as_json:
            turn, turns = turns[-2], turns[:-2]
        if not turn:
            continue
        turns.append(turn)
        turn_seed = None if seed is None else seed + count
        count += 1
        dropped_turns, chunks = pipeline.chat(
            turns, max_new_tokens=max_new_tokens, temperature=temperature, top_p=top_p, top_k=top_k, seed=turn_seed
        )
        reply = ""
        try:
            for chunk in chunks:
                reply += chunk.text
                if not as_json:
                    sys.stdout.write(chunk.text)
                    sys.stdout.flush()
        except KeyboardInterrupt:  # ends the reply, not the conversation
            if not interactive:
                raise
        turns.append(reply.strip())
        if as_json:
            result = {"turn": turn, "reply": reply.strip(), "dropped_turns": dropped_turns}
            typer.echo(json.dumps(result, ensure_ascii=False))
        else:
            typer.echo()
        sys.stdout.flush()
    if interactive:
        typer.echo()


def _read_line(interactive: bool) -> str | None:
    try:
        if interactive:
            return input("> ")
        line = sys.stdin.readline()
    except (EOFError, KeyboardInterrupt):
        return None
    return line or None
