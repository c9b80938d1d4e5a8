"""`clearhead serve`: models behind an HTTP API, on this machine or for others."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from clearhead.cli.faults import told

KEYS = "CLEARHEAD_KEYS"


@told
def serve(
    models: Annotated[list[str], typer.Argument(help="Model folders, each as FOLDER or NAME=FOLDER.")],
    host: Annotated[str, typer.Option(help="Where to listen; anything but loopback needs --keys.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 is any that is free.")] = 8000,
    keys: Annotated[
        Path | None, typer.Option(help=f"A file of keys, one a line, `NAME KEY`. Or in ${KEYS}, apart by commas.")
    ] = None,
    host_name: Annotated[
        list[str] | None, typer.Option(help="A name under which browsers reach it, such as api.example.org; * for any.")
    ] = None,
    tokens: Annotated[int, typer.Option(min=64, max=2**20, help="Of a batch.")] = 4096,
    window: Annotated[
        float, typer.Option(min=0, max=1000, help="Milliseconds that an idle engine waits for a batch to fill.")
    ] = 2.0,
    deadline: Annotated[float, typer.Option(min=0.1, max=3600, help="Seconds that a request has.")] = 60.0,
    rows: Annotated[int, typer.Option(min=1, max=1024, help="Texts that a model writes at once.")] = 64,
    threads: Annotated[int | None, typer.Option(min=1, help="Of torch. Default: one for each core.")] = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="Log faults only, no line for every request.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Tell the address as JSON on stdout.")] = False,
    dtype: Annotated[
        str, typer.Option(help="float32, bfloat16, or auto: bfloat16 where this machine computes in it.")
    ] = "auto",
    device: Annotated[str, typer.Option(help="cpu, cuda, cuda:1, mps.")] = "cpu",
) -> None:
    """Serve models: every task, OpenAI's routes, and a page to try them on, at http://127.0.0.1:8000/.

    Requests of any length join one batch without padding; texts that are being written are joined between two tokens.
    Ctrl-C or SIGTERM ends it when what was asked is answered. The log is JSON lines on stderr, without users' texts.

    Example: clearhead serve runs/sst2/model minilm=models/all-MiniLM-L6-v2 --port 8080
    """
    import torch

    try:
        from clearhead.serve.app import make_app
        from clearhead.serve.engine import Limits
        from clearhead.serve.guard import LOOPBACK, Rules, keys_of
        from clearhead.serve.server import Server, check_open, set_logs
        from clearhead.serve.shelf import Shelf, named
    except ImportError as error:
        raise ValueError(f"serving needs {error.name}: pip install 'clearhead[serve]'") from None
    lines = keys.read_text(encoding="utf-8").split("\n") if keys is not None else os.environ.get(KEYS, "").split(",")
    found = keys_of(lines)
    if keys is not None and not found:
        raise ValueError(f"{keys} has no key in it: write one a line, `NAME KEY`")
    check_open(host, found)
    sources = named(models)
    if threads is not None:
        torch.set_num_threads(threads)
    set_logs(quiet=quiet)
    rules = Rules(keys=found, hosts=(*LOOPBACK, host.lower(), *(name.lower() for name in host_name or [])))
    limits = Limits(tokens=tokens, window=window / 1000, deadline=deadline, rows=rows)
    shelf = Shelf(sources, dtype=dtype, device=device)
    server = Server(make_app(shelf, limits=limits, rules=rules), host, port)
    screen = Console(stderr=True, highlight=False)
    served = [{"name": one.name, "tasks": list(one.tasks)} for one in shelf.all()]
    if as_json:
        typer.echo(json.dumps({"address": server.address, "models": served}))
    else:
        for one in shelf.all():
            screen.print(f"  {one.name}: {', '.join(one.tasks)}", markup=False)
        screen.print(
            f"{server.address} is up; Ctrl-C ends it. Try it there, or read {server.address}docs", markup=False
        )
    server.serve_here()
