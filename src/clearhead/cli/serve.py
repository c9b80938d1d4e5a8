"""`clearhead serve`: serve models over HTTP, on this machine or on a Ray cluster."""

import json
import os
import sys
from contextlib import redirect_stdout
from pathlib import Path
from typing import Annotated, Any

import typer

from clearhead.cli.command import report_errors
from clearhead.cli.options import DeviceOption, DtypeOption, EngineOption, TranslatorOption, is_index_address

KEYS_VARIABLE = "CLEARHEAD_KEYS"


@report_errors
def serve(
    models: Annotated[
        list[str], typer.Argument(help="Model folders, each as FOLDER or NAME=FOLDER; or one index of documents.")
    ],
    host: Annotated[str, typer.Option(help="Address to listen on; any but loopback needs --api-keys.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port to listen on; 0: any free port.")] = 8000,
    api_keys: Annotated[
        Path | None,
        typer.Option(help=f"File of API keys, one `NAME KEY` per line. Or ${KEYS_VARIABLE}, comma-separated."),
    ] = None,
    allowed_host: Annotated[
        list[str] | None,
        typer.Option(help="Host name that browsers may use, e.g. api.example.org; *: any. Repeatable."),
    ] = None,
    batch_tokens: Annotated[int, typer.Option(min=64, max=2**20, help="Maximum tokens per batch.")] = 4096,
    batch_wait_ms: Annotated[
        float, typer.Option(min=0, max=1000, help="How long an idle engine waits for more requests to batch.")
    ] = 2.0,
    timeout: Annotated[float, typer.Option(min=0.1, max=3600, help="Timeout of a request in seconds.")] = 60.0,
    max_num_seqs: Annotated[
        int, typer.Option(min=1, max=1024, help="Maximum number of sequences that a model generates at once.")
    ] = 64,
    threads: Annotated[
        int | None, typer.Option(min=1, help="Number of PyTorch threads. Default: one per core.")
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="Log errors only, not every request.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the address as JSON on stdout.")] = False,
    reader: Annotated[str | None, typer.Option(help="Index: another reader than its own.")] = None,
    feedback: Annotated[
        Path | None, typer.Option(help="Index: JSONL file to which feedback of the page is appended, to train on.")
    ] = None,
    translator: TranslatorOption = None,
    dtype: DtypeOption = "auto",
    device: DeviceOption = "auto",
    engine: EngineOption = "auto",
    on: Annotated[str, typer.Option(help="local: one process. ray: replicas on Ray Serve.")] = "local",
    replicas: Annotated[str, typer.Option(help="Ray: number of replicas, or a range to scale in, e.g. 1-4.")] = "1",
    cores_per_replica: Annotated[
        int | None, typer.Option(min=1, help="Ray: cores per replica. Default: this machine's, divided equally.")
    ] = None,
    ray_address: Annotated[
        str | None, typer.Option(help="Ray: cluster to join, HOST:PORT. Default: start a local one.")
    ] = None,
    health_timeout: Annotated[
        float,
        typer.Option(min=1, max=3600, help="Ray: seconds without a response before a replica is replaced."),
    ] = 10.0,
) -> None:
    """Serve models over HTTP.

    Provides every task, OpenAI-compatible routes and a web page to try them, at http://127.0.0.1:8000/. An index of
    documents is served alone, with /search, /ask and a page for questions. Requests of any length share batches without
    padding; text generation uses continuous batching. Ctrl-C or SIGTERM shuts down after running requests are answered.
    The log is JSON lines on stderr and contains no user texts.

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
    if api_keys is not None:
        lines = api_keys.read_text(encoding="utf-8").split("\n")
    else:
        lines = os.environ.get(KEYS_VARIABLE, "").split(",")
    keys = read_keys(lines)
    if api_keys is not None and not keys:
        raise ValueError(f"{api_keys} contains no key: write one `NAME KEY` per line")
    check_exposure(host, keys)
    if on not in ("local", "ray"):
        raise ValueError(f"--on {on} is unknown: choose local or ray")
    indexes = [name for name in models if is_index_address(name)]
    if indexes and (len(models) > 1 or on != "local"):
        raise ValueError(f"{indexes[0]} is an index: serve it alone and with --on local")
    if threads is not None:
        torch.set_num_threads(threads)
    set_logs(quiet=quiet)
    hosts = (*LOOPBACK, host.lower(), *(name.lower() for name in allowed_host or []))
    security = SecurityConfig(keys=keys, hosts=hosts)
    limits = EngineLimits(
        batch_tokens=batch_tokens, batch_window_s=batch_wait_ms / 1000, deadline_s=timeout, max_sequences=max_num_seqs
    )
    if indexes:
        from clearhead.search import Answerer, Index
        from clearhead.serve.search_app import SearchService, make_search_app

        index = Index.open(indexes[0])
        answerer = Answerer.find(index, reader)
        app = make_search_app(SearchService(index, answerer, feedback, translator), security=security)
        server = Server(app, host, port)
        tasks = ["search"] if answerer is None else ["search", "ask"]
        _print_address(server.address, [{"name": indexes[0], "tasks": tasks}], as_json=as_json)
        server.serve_here()
        return
    sources = named_models(models)
    if on == "ray":
        from clearhead.serve.ray_serve import RayConfig, parse_count, run_on_ray, wait
        from clearhead.serve.replica import ReplicaConfig

        replica = ReplicaConfig(
            sources=sources,
            dtype=dtype,
            device=device,
            engine=engine,
            limits=limits,
            security=security,
            health_timeout_s=health_timeout,
            quiet=quiet,
        )
        cluster = RayConfig(
            host=host,
            port=port,
            replicas=parse_count(replicas),
            cores=cores_per_replica or 0,
            cluster_address=ray_address,
        )
        stdout = sys.stdout
        with redirect_stdout(sys.stderr), run_on_ray(replica, cluster) as service:  # Ray prints to stdout
            with redirect_stdout(stdout):
                _print_address(service.address, service.models, as_json=as_json, proxy=service.proxy)
            wait()
        return
    registry = ModelRegistry(sources, dtype=dtype, device=device, engine=engine)
    server = Server(make_app(registry, limits=limits, security=security), host, port)
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
