"""`clearhead chat`: a conversation with a model, in the terminal or through a pipe."""

from __future__ import annotations

import json
import sys
from typing import Annotated

import typer

from clearhead.app import load
from clearhead.cli.faults import told
from clearhead.cli.pipes import quiet

HELP = "/new begins anew, /undo takes back what was said last, /again asks for another answer, /quit ends"


@told
@quiet
def chat(
    model: Annotated[str, typer.Argument(help="A model folder, or a name on the Hugging Face hub.")],
    max_new: Annotated[int | None, typer.Option(min=1, help="Tokens of an answer at most.")] = None,
    temperature: Annotated[float, typer.Option(min=0, help="0: the likeliest words; 1: as the model says.")] = 0.8,
    top_p: Annotated[float, typer.Option(help="Draw from the words that make up this probability.")] = 0.9,
    top_k: Annotated[int | None, typer.Option(min=0, help="Draw from the so many likeliest; 0: all.")] = None,
    seed: Annotated[int | None, typer.Option(min=0, help="The same seed gives the same conversation.")] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="A line in, a JSON object out: turn, reply, forgotten.")
    ] = False,
    dtype: Annotated[
        str, typer.Option(help="float32, bfloat16, or auto: bfloat16 where this machine computes in it.")
    ] = "auto",
    device: Annotated[str, typer.Option(help="cpu, cuda, cuda:1, mps.")] = "cpu",
) -> None:
    """Talk to a model that was trained on dialogues (`task: converse`), a line a turn; Ctrl-D ends.

    Example: clearhead chat runs/dialogue/model --seed 1
    """
    app = load(model, dtype=dtype, device=device)
    _ = app.writer  # a model that does not write is refused before anybody speaks
    typed = sys.stdin.isatty() and not as_json
    if typed:
        typer.echo(HELP)
    turns: list[str] = []
    count = 0
    while (line := _line(typed)) is not None:
        said = line.strip()
        if said in ("/quit", "/exit"):
            break
        if said in ("/new", "/undo") and not as_json:
            turns = [] if said == "/new" else turns[:-2]
            continue
        if said == "/again" and turns and not as_json:
            said, turns = turns[-2], turns[:-2]
        if not said:
            continue
        turns.append(said)
        chosen = None if seed is None else seed + count
        count += 1
        forgotten, pieces = app.reply(
            turns, max_new=max_new, temperature=temperature, top_p=top_p, top_k=top_k, seed=chosen
        )
        answer = ""
        try:
            for piece in pieces:
                answer += piece.text
                if not as_json:
                    sys.stdout.write(piece.text)
                    sys.stdout.flush()
        except KeyboardInterrupt:  # the answer ends here, the conversation does not
            if not typed:
                raise
        turns.append(answer.strip())
        if as_json:
            typer.echo(json.dumps({"turn": said, "reply": answer.strip(), "forgotten": forgotten}, ensure_ascii=False))
        else:
            typer.echo()
        sys.stdout.flush()
    if typed:
        typer.echo()


def _line(typed: bool) -> str | None:
    """The next line; None at the end."""
    try:
        if typed:
            return input("> ")
        line = sys.stdin.readline()
    except (EOFError, KeyboardInterrupt):
        return None
    return line or None
