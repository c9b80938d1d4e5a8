"""`clearhead errors`: the worst mistakes of a trained model, and where it looked."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import torch
import typer
from rich.console import Console

from clearhead.app import load
from clearhead.cli.answers import columns_named, rows_for
from clearhead.cli.faults import told
from clearhead.models.store import Opened
from clearhead.see import scene_of, show
from clearhead.tasks.answering import task_of
from clearhead.tasks.mistakes import Mistake, mistakes

LOOKED = 5  # words that are named
LONG = 90  # characters of a text that are shown


@told
def errors(
    model: Annotated[str, typer.Argument(help="A folder of a trained classifier, tagger or reader.")],
    file: Annotated[Path, typer.Argument(help="Labelled rows, in any format that it could be trained on.")],
    count: Annotated[int, typer.Option("--count", "-n", min=1, help="How many mistakes.")] = 20,
    column: Annotated[
        list[str] | None, typer.Option(help="Which column is which: --column text=review. May be repeated.")
    ] = None,
    page: Annotated[
        Path | None, typer.Option(help="Write them as a page, with every head of every layer, to this file.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object a line.")] = False,
    device: Annotated[str, typer.Option(help="cpu, cuda, cuda:1, mps.")] = "cpu",
) -> None:
    """List the mistakes of which a model was surest: what was due, what it said, and the words it looked at most.

    The words are those with most of the last layer's attention, all heads together, from the token that answers. They
    tell where it read, not why it erred.

    Example: clearhead errors runs/recipe/model test.csv -n 10 --page errors.html
    """
    app = load(model, device=device)
    task = task_of(app.opened)
    rows = rows_for(task, app.opened, file, columns_named(column), labelled=True)
    found = mistakes(task, app.opened, rows, count)
    screen = Console(highlight=False)
    for mistake in found:
        words = looked_at(app.opened, mistake)
        if as_json:
            typer.echo(json.dumps({**asdict(mistake), "looked": words}, ensure_ascii=False))
            continue
        screen.print(
            f"[bold]{Path(mistake.file).name}:{mistake.line}[/bold]  due [green]{_plain(mistake.due)}[/green]  "
            f"said [red]{_plain(mistake.said)}[/red]  {mistake.sure:.3f}"
        )
        screen.print("    " + " / ".join(_short(text) for text in mistake.texts), markup=False)
        screen.print("    looked at " + ", ".join(f"{word} {share:.2f}" for word, share in words), markup=False)
    if not found and not as_json:
        screen.print("no mistake in it")
    if page is not None and found:
        texts = [_short(mistake.texts[0], 2000) for mistake in found]
        seconds = [_short(mistake.texts[1], 2000) if len(mistake.texts) > 1 else None for mistake in found]
        show(scene_of(app.opened, texts, seconds, title=f"Mistakes in {file.name}", answers=False), page)
        typer.echo(f"{page} written", err=True)


def looked_at(opened: Opened, mistake: Mistake) -> list[tuple[str, float]]:
    """The words with most of the last layer's attention, from the first token, or from the one that is told wrong."""
    if not hasattr(opened.config.stack, "num_heads"):
        return []  # a recurrent encoder does not attend
    text, *second = mistake.texts
    scene = scene_of(opened, [text], second or None, answers=False)
    given = scene.inputs[0]
    record, names = given.layers[-1].record, given.axes[0].names
    row = 0
    if mistake.at is not None:
        tokens = opened.words(text, max_len=opened.max_len)
        assert tokens.offsets is not None
        places = ((tokens.offsets[:, 0] == mistake.at) & (tokens.parts == 0)).nonzero()[:, 0]
        row = int(places[0]) if len(places) else 0
    size = 1, record.shape[1]
    weights = torch.stack(
        [record.tile(h, slice(row, row + 1), slice(None), size, "max")[0] for h in range(record.num_heads)]
    )
    shares = weights.mean(0)
    shares[torch.tensor(names.special)] = 0.0
    top = shares.topk(min(LOOKED, len(shares)))
    return [(names.words[i], share) for share, i in zip(top.values.tolist(), top.indices.tolist(), strict=True)]


def _short(text: str, most: int = LONG) -> str:
    text = " ".join(text.split())
    return text if len(text) <= most else text[: most - 1] + "…"


def _plain(text: str) -> str:
    return _short(text, 40).replace("[", "\\[")
