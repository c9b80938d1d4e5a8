"""`clearhead see`: the attention of a model, as a page, a figure or a live page."""

import json
import sys
import webbrowser
from pathlib import Path
from typing import Annotated

import typer

from clearhead.cli.command import report_errors
from clearhead.cli.options import JsonOption, ModelArgument


@report_errors
def see(
    model: ModelArgument,
    texts: Annotated[list[str] | None, typer.Argument(help="Texts. Default: one per line of standard input.")] = None,
    pair: Annotated[
        list[str] | None,
        typer.Option(help="Second text of each text: a translation, or a second sentence. Once per text."),
    ] = None,
    file: Annotated[Path | None, typer.Option(help="File of texts, one per line; a tab separates a pair.")] = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Output file. Default: attention.html, or the kind of figure.")
    ] = None,
    plot_as: Annotated[
        str | None,
        typer.Option("--plot", help="Draw a figure instead: alignment, heads, model, word, head_stats or rollout."),
    ] = None,
    method: Annotated[
        list[str] | None,
        typer.Option(help="Attention method shown beside the exact weights, e.g. bigbird; repeatable, for one text."),
    ] = None,
    layer: Annotated[
        str | None, typer.Option(help="Layer of the figure, or of --method, e.g. encoder.3 or decoder.2.cross.")
    ] = None,
    head: Annotated[int | None, typer.Option(help="Head of the figure. Default: the mean of all heads.")] = None,
    word: Annotated[str | None, typer.Option(help="Word whose attention the figure `word` shows.")] = None,
    dark: Annotated[bool, typer.Option(help="Draw the figure on a dark background.")] = False,
    live: Annotated[bool, typer.Option(help="Serve a live page, on which heads can be ablated.")] = False,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port of the live page; 0: any free port.")] = 0,
    open_it: Annotated[bool, typer.Option("--open/--no-open", help="Open the page in a browser.")] = True,
    as_json: JsonOption = False,
) -> None:
    """Show the attention of a model as a page or a figure.

    The weights of every layer and head are exact, for texts of up to 32,000 tokens. The page is one file that works
    offline. Long texts, and --live, are served on the loopback interface until Ctrl-C.

    Example: clearhead see en-de "A dog runs across the grass." --out dog.html
    """
    from clearhead.pipeline import load
    from clearhead.viz.captured_run import MAX_PAGE_TOKENS, show
    from clearhead.viz.figures import plot
    from clearhead.viz.live_server import LiveServer
    from clearhead.viz.method_scene import method_scene
    from clearhead.viz.record_scene import record_scene
    from clearhead.viz.style import DARK, LIGHT, save

    inputs, pairs = _read_inputs(texts, pair, file)
    loaded = load(model).loaded
    if method:
        if len(inputs) != 1 or pairs is not None:
            raise ValueError("--method compares the methods on one text: give one, and no second text")
        scene = method_scene(loaded, inputs[0], method, layers=None if layer is None else [layer])
    else:
        scene = record_scene(loaded, inputs, pairs, title=inputs[0] if len(inputs) == 1 else "", answers=live)
    if plot_as is not None:
        figure = plot(scene, plot_as, layer=layer, head=head, word=word, theme=DARK if dark else LIGHT)
        written = save(figure, (out or Path(plot_as)).with_suffix(""))
        _print_result(as_json, {"files": [str(path) for path in written]}, f"{written[0]} and {written[1].name}")
        return
    if not live and scene.longest <= MAX_PAGE_TOKENS:
        address = show(scene, out or Path("attention.html"))
        if open_it:
            webbrowser.open(address)
        _print_result(as_json, {"address": address}, address)
        return
    if out is not None:
        raise ValueError(
            "--live serves the page and writes no file: remove --out"
            if live
            else f"{scene.longest:,} tokens are too many for a file: remove --out to serve the page live"
        )
    server = LiveServer(scene, port)
    _print_result(as_json, {"address": server.address}, server.address)
    if open_it:
        webbrowser.open(server.address)
    typer.echo("Press Ctrl-C to stop.", err=True)
    try:
        server.wait()
    except KeyboardInterrupt:
        server.stop()


def _read_inputs(
    texts: list[str] | None, pairs: list[str] | None, file: Path | None
) -> tuple[list[str], list[str | None] | None]:
    if texts:
        if pairs and len(pairs) != len(texts):
            raise ValueError(f"{len(texts)} texts but {len(pairs)} second texts: give --pair once per text")
        return texts, list(pairs) if pairs else None
    content = file.read_text(encoding="utf-8") if file is not None else sys.stdin.read()
    lines = [line for line in content.split("\n") if line.strip()]
    if not lines:
        raise ValueError("no text: give one as an argument, a file with --file, or lines on standard input")
    parts = [line.split("\t", 1) for line in lines]
    if any(len(p) > 1 for p in parts):
        return [p[0] for p in parts], [p[1] if len(p) > 1 else None for p in parts]
    return lines, None


def _print_result(as_json: bool, result: dict[str, object], text: str) -> None:
    typer.echo(json.dumps(result) if as_json else text)
