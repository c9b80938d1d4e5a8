"""`clearhead see`: where a model looks, as a page, a figure or a live page."""

from __future__ import annotations

import json
import sys
import webbrowser
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from clearhead.app import load
from clearhead.cli.faults import told
from clearhead.see.figures import plot
from clearhead.see.live import Served
from clearhead.see.paper import DARK, LIGHT, save
from clearhead.see.run import scene_of
from clearhead.see.sight import WHOLE, show


@told
def see(
    model: Annotated[str, typer.Argument(help="A model folder, or a name on the Hugging Face hub.")],
    texts: Annotated[list[str] | None, typer.Argument(help="Texts; without any, one a line of standard input.")] = None,
    pair: Annotated[
        list[str] | None,
        typer.Option(help="The second text of each: a translation, or a second sentence. Once for every text."),
    ] = None,
    file: Annotated[Path | None, typer.Option(help="A file of texts, one a line; with a tab, a pair.")] = None,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Where to write the page, or the figure.")] = None,
    plot_as: Annotated[
        str | None, typer.Option("--plot", help="A figure instead: alignment, heads, model, word, facts or rollout.")
    ] = None,
    layer: Annotated[str | None, typer.Option(help="Of the figure, such as encoder.3 or decoder.2.cross.")] = None,
    head: Annotated[int | None, typer.Option(help="Of the figure. Default: the mean of all heads.")] = None,
    word: Annotated[str | None, typer.Option(help="Of the figure `word`: whose attention.")] = None,
    dark: Annotated[bool, typer.Option(help="The figure on dark paper.")] = False,
    live: Annotated[
        bool, typer.Option(help="Serve the page on this machine, where heads can be switched off.")
    ] = False,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Of the live page; 0 is any that is free.")] = 0,
    open_it: Annotated[bool, typer.Option("--open/--no-open", help="Open it in a browser.")] = True,
    as_json: Annotated[bool, typer.Option("--json", help="Write what was made as JSON.")] = False,
) -> None:
    """Look into a model: words, lines, every head, exactly, from three words to 32,000 tokens.

    The page is one file that works without a network. Long texts, and --live, are served on loopback until Ctrl-C.

    Example: clearhead see en-de "A dog runs across the grass." --out dog.html
    """
    screen = Console(stderr=True, highlight=False)
    read, seconds = _texts(texts, pair, file)
    app = load(model)
    scene = scene_of(app.opened, read, seconds, title=read[0] if len(read) == 1 else "", answers=live)
    if plot_as is not None:
        figure = plot(scene, plot_as, layer=layer, head=head, word=word, theme=DARK if dark else LIGHT)
        written = save(figure, (out or Path(plot_as)).with_suffix(""))
        _tell(as_json, {"files": [str(path) for path in written]}, f"{written[0]} and {written[1].name}")
        return
    if not live and scene.longest <= WHOLE:
        address = show(scene, out or Path("attention.html"))
        if open_it:
            webbrowser.open(address)
        _tell(as_json, {"address": address}, address)
        return
    if out is not None:
        raise ValueError(
            "a live page is no file: leave --out"
            if live
            else f"{scene.longest:,} tokens are too many for a file: leave --out, and the page is served live"
        )
    served = Served(scene, port)
    _tell(as_json, {"address": served.address}, served.address)
    if open_it:
        webbrowser.open(served.address)
    screen.print("Ctrl-C ends it.")
    try:
        served.wait()
    except KeyboardInterrupt:
        served.stop()


def _texts(
    texts: list[str] | None, pairs: list[str] | None, file: Path | None
) -> tuple[list[str], list[str | None] | None]:
    if texts:
        if pairs and len(pairs) != len(texts):
            raise ValueError(f"{len(texts)} texts and {len(pairs)} second ones: give --pair once for every text")
        return texts, list(pairs) if pairs else None
    content = file.read_text(encoding="utf-8") if file is not None else sys.stdin.read()
    lines = [line for line in content.split("\n") if line.strip()]
    if not lines:
        raise ValueError("no text: give one, or a file with --file, or lines on standard input")
    parts = [line.split("\t", 1) for line in lines]
    if any(len(p) > 1 for p in parts):
        return [p[0] for p in parts], [p[1] if len(p) > 1 else None for p in parts]
    return lines, None


def _tell(as_json: bool, facts: dict[str, object], text: str) -> None:
    typer.echo(json.dumps(facts) if as_json else text)
