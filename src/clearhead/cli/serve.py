"""`clearhead serve`: serve models over HTTP, on this machine or on a Ray cluster."""

import json
import os
import sys
from contextlib import redirect_stdout
from pathlib import Path
from typing import Annotated, Any

import typer

from clearhead.cli.command import report_errors
from clearhead.cli.options import DeviceOption, DtypeOption

KEYS_VARIABLE = "CLEARHEAD_KEYS"


@report_errors
def serve(
    models: Annotated[list[str], typer.Argument(help="Model folders, each as FOLDER or NAME=FOLDER.")],
    host: Annotated[str, typer.Option(help="Address to listen on; any but loopback needs --keys.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port to listen on; 0: any free port.")] = 8000,
    keys: Annotated[
        Path | None,
        typer.Option(help=f"File of API keys, one `NAME KEY` per line. Or ${KEYS_VARIABLE}, comma-separated."),
    ] = None,
    host_name: Annotated[
        list[str] | None,
        typer.Option(help="Host name that browsers may use, e.g. api.example.org; *: any. Repeatable."),
    ] = None,
    tokens: Annotated[int, typer.Option(min=64, max=2**20, help="Maximum tokens per batch.")] = 4096,
    window: Annotated[
        float, typer.Option(min=0, max=1000, help="Milliseconds that an idle engine waits for more requests to batch.")
    ] = 2.0,
    deadline: Annotated[float, typer.Option(min=0.1, max=3600, help="Timeout of a request in seconds.")] = 60.0,
    rows: Annotated[int, typer.Option(min=1, max=1024, help="Maximum texts that a model generates at once.")] = 64,
    threads: Annotated[int | None, typer.Option(min=1, help="PyTorch threads. Default: one per core.")] = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="Log errors only, not every request.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the address as JSON on stdout.")] = False,
    dtype: DtypeOption = "auto",
    device: DeviceOption = "cpu",
    on: Annotated[str, typer.Option(help="local: one process. ray: replicas on Ray Serve.")] = "local",
    replicas: Annotated[str, typer.Option(help="Ray: number of replicas, or a range to scale in, e.g. 1-4.")] = "1",
    cores_per_replica: Annotated[
        int | None, typer.Option(min=1, help="Ray: cores per replica. Default: this machine's, divided equally.")
    ] = None,
    ray_address: Annotated[
        str | None, typer.Option(help="Ray: cluster to join, HOST:PORT. Default: start a local one.")
    ] = None,
    patience: Annotated[
        float, typer.Option(min=1, max=3600, help="Ray: seconds without a response before a replica is replaced.")
    ] = 10.0,
) -> None:
    """Serve models over HTTP.

    Provides every task, OpenAI-compatible routes and a web page to try them, at http://127.0.0.1:8000/. Requests of any
    length share batches without padding; text generation uses continuous batching. Ctrl-C or SIGTERM shuts down after
    running requests are answered. The log is JSON lines on stderr and contains no user texts.

    Example: clearhead serve runs/sst2/model minilm=models/all-MiniLM-L6-v2 --port 8080
    """
    import torch

    try:
        from clearhead.serve.app import make_app
        from clearhead.serve.engine import EngineLimits
        from clearhead.serve.middleware import LOOPBACK, SecurityConfig, read_keys
        from clearhead.serve.model_registry import ModelRegistry, named_models
        from clearhead.serve.server import Server, check_exposure, set_logs
    except ImportError as error:
        raise ValueError(f"serving needs {error.name}: pip install 'clearhead[serve]'") from None
    if keys is not None:
        lines = keys.read_text(encoding="utf-8").split("\n")
    else:
        lines = os.environ.get(KEYS_VARIABLE, "").split(",")
    api_keys = read_keys(lines)
    if keys is not None and not api_keys:
        raise ValueError(f"{keys} contains no key: write one `NAME KEY` per line")
    check_exposure(host, api_keys)
    if on not in ("local", "ray"):
        raise ValueError(f"--on {on} is unknown: choose local or ray")
    sources = named_models(models)
    if threads is not None:
        torch.set_num_threads(threads)
    set_logs(quiet=quiet)
    hosts = (*LOOPBACK, host.lower(), *(name.lower() for name in host_name or []))
    security = SecurityConfig(keys=api_keys, hosts=hosts)
    limits = EngineLimits(batch_tokens=tokens, batch_window_s=window / 1000, deadline_s=deadline, max_sequences=rows)
    if on == "ray":
        from clearhead.serve.ray_serve import RayConfig, parse_count, run_on_ray, wait
        from clearhead.serve.replica import ReplicaConfig

        replica = ReplicaConfig(
            sources=sources, dtype=dtype, device=device, limits=limits, rules=security, patience=patience, quiet=quiet
        )
        count, cores = parse_count(replicas), cores_per_replica or 0
        cluster = RayConfig(host=host, port=port, replicas=count, cores=cores, join=ray_address)
        stdout = sys.stdout
        with redirect_stdout(sys.stderr), run_on_ray(replica, cluster) as service:  # Ray prints to stdout
            with redirect_stdout(stdout):
                _print_address(service.address, service.models, as_json=as_json, proxy=service.proxy)
            wait()
        return
    registry = ModelRegistry(sources, dtype=dtype, device=device)
    server = Server(make_app(registry, limits=limits, rules=security), host, port)
    served = [{"name": model.name, "tasks": list(model.tasks)} for model in registry.all()]
    _print_address(server.address, served, as_json=as_json)
    server.serve_here()


def _print_address(address: str, models: list[dict[str, Any]], *, as_json: bool, proxy: str | None = None) -> None:
    from rich.console import Console

    if as_json:
        extra = {} if proxy is None else {"proxy": proxy}
        typer.echo(json.dumps({"address": address, "models": models, **extra}))
        return
    console = Console(stderr=True, highlight=False, soft_wrap=True)
    for model in models:
        console.print(f"  {model['name']}: {', '.join(model['tasks'])}", markup=False)
    if proxy == "ray":
        console.print("HAProxy is not installed: using Ray's proxy, which adds a few ms per request", markup=False)
    console.print(f"Serving on {address} (Ctrl-C to stop). API reference: {address}docs", markup=False)
