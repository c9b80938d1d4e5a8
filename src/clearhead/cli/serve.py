"""`clearhead serve`: models behind an HTTP API, on this machine or for others."""

from __future__ import annotations

import json
import os
import sys
from contextlib import redirect_stdout
from pathlib import Path
from typing import Annotated, Any

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
    on: Annotated[str, typer.Option(help="local: one process. ray: replicas on Ray Serve.")] = "local",
    replicas: Annotated[str, typer.Option(help="On Ray: how many, or from how few to how many, as in 1-4.")] = "1",
    cores_per_replica: Annotated[
        int | None, typer.Option(min=1, help="On Ray. Default: those of this machine, shared out.")
    ] = None,
    ray_address: Annotated[
        str | None, typer.Option(help="On Ray: a cluster to join, HOST:PORT. Default: one for this command alone.")
    ] = None,
    patience: Annotated[
        float, typer.Option(min=1, max=3600, help="On Ray: seconds a batch may take before its replica is replaced.")
    ] = 10.0,
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
    if on not in ("local", "ray"):
        raise ValueError(f"--on {on} is not known: local or ray")
    sources = named(models)
    if threads is not None:
        torch.set_num_threads(threads)
    set_logs(quiet=quiet)
    rules = Rules(keys=found, hosts=(*LOOPBACK, host.lower(), *(name.lower() for name in host_name or [])))
    limits = Limits(tokens=tokens, window=window / 1000, deadline=deadline, rows=rows)
    if on == "ray":
        from clearhead.serve.cluster import Where, count_of, on_ray, wait
        from clearhead.serve.replica import Plan

        plan = Plan(
            sources=sources, dtype=dtype, device=device, limits=limits, rules=rules, patience=patience, quiet=quiet
        )
        where = Where(
            host=host, port=port, replicas=count_of(replicas), cores=cores_per_replica or 0, join=ray_address
        )  # fmt: skip
        out = sys.stdout
        with redirect_stdout(sys.stderr), on_ray(plan, where) as up:  # Ray prints what it likes
            with redirect_stdout(out):
                _tell(up.address, up.models, as_json=as_json, proxy=up.proxy)
            wait()
        return
    shelf = Shelf(sources, dtype=dtype, device=device)
    server = Server(make_app(shelf, limits=limits, rules=rules), host, port)
    _tell(server.address, [{"name": one.name, "tasks": list(one.tasks)} for one in shelf.all()], as_json=as_json)
    server.serve_here()


def _tell(address: str, models: list[dict[str, Any]], *, as_json: bool, proxy: str | None = None) -> None:
    """What is served, and where."""
    if as_json:
        more = {} if proxy is None else {"proxy": proxy}
        typer.echo(json.dumps({"address": address, "models": models, **more}))
        return
    screen = Console(stderr=True, highlight=False, soft_wrap=True)
    for one in models:
        screen.print(f"  {one['name']}: {', '.join(one['tasks'])}", markup=False)
    if proxy == "ray":
        screen.print("There is no HAProxy here: Ray's own proxy takes requests in, a few ms slower", markup=False)
    screen.print(f"{address} is up; Ctrl-C ends it. Try it there, or read {address}docs", markup=False)
