"""Serving on Ray Serve: replicas of the same application, with autoscaling and replacement of failed replicas.

Ray reads most of its settings from the environment when it is imported, so it is imported late. Our own cluster listens
on loopback and requires a token; a cluster that is joined must require a token too.
"""

import atexit
import importlib.util
import ipaddress
import json
import logging
import os
import re
import secrets
import shutil
import signal
import socket
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from clearhead.serve import ray_private
from clearhead.serve.haproxy import write_wrapper
from clearhead.serve.middleware import SecurityConfig
from clearhead.serve.replica import Replica, ReplicaConfig
from clearhead.serve.server import DRAIN_TIMEOUT_S, bind_socket, check_exposure

NAME = "clearhead"
LOCAL_ADDRESS = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # how a server on all interfaces is reached from this machine
START_TIMEOUT_S = 120  # until the new server answers; on an idle machine it takes a second
TARGET_ONGOING_REQUESTS = 8  # per replica on average, before another one is started
MAX_REPLICAS = 1000
OBJECT_STORE_BYTES = 80 * 2**20


@dataclass(frozen=True, kw_only=True)
class RayConfig:
    """Address of the service, number of replicas, and the cluster that they run on."""

    host: str = "127.0.0.1"
    port: int = 8000
    replicas: tuple[int, int] = (1, 1)  # minimum, maximum
    cores: int = 0  # per replica; 0 divides the cores of this machine
    cluster_address: str | None = None  # address of an existing cluster


@dataclass(frozen=True, kw_only=True)
class RunningService:
    """Address, models and proxy of a service that was started."""

    address: str
    models: list[dict[str, Any]]
    proxy: str  # haproxy or ray


def parse_count(text: str) -> tuple[int, int]:
    match = re.fullmatch(r"(\d+)(?:-(\d+))?", text.strip())
    minimum, maximum = (int(match[1]), int(match[2] or match[1])) if match else (0, 0)
    if not 1 <= minimum <= maximum <= MAX_REPLICAS:
        raise ValueError(f"{text!r} is not a number of replicas: give a number, or minimum and maximum as in 1-4")
    return minimum, maximum


@contextmanager
def run_on_ray(plan: ReplicaConfig, where: RayConfig) -> Generator[RunningService]:
    """Serves while the context is open; on exit the service ends, and the cluster if it is our own."""
    check_exposure(where.host, plan.security.keys)
    cores = where.cores or max(1, (os.cpu_count() or 1) // where.replicas[1])
    sources = {n: str(Path(s).resolve()) if Path(s).exists() else s for n, s in plan.sources.items()}
    plan = replace(plan, local=where.cluster_address is None, threads=cores, sources=sources)
    own_key = secrets.token_hex(32)  # with which this process checks that the service is up
    if plan.security.keys:
        keys = {**plan.security.keys, "clearhead serve": SecurityConfig.digest(own_key)}
        plan = replace(plan, security=replace(plan.security, keys=keys))
    for name in ("ray", "grpc_reflection"):  # grpc_reflection is installed with ray[serve] only
        if importlib.util.find_spec(name) is None:
            raise ValueError(f"--on ray needs {name}: pip install 'clearhead[cluster]'")
    folder = Path(tempfile.mkdtemp(prefix="ch-"))  # private; a short path, because paths of sockets are limited
    atexit.register(shutil.rmtree, folder, ignore_errors=True)  # after Ray's own exit handler, which still writes there
    try:
        port = where.port or _free_ports(1)[0]
        bind_socket(where.host, port).close()  # fails here with a clear message instead of in a log of Ray's
        if where.cluster_address is None:
            system = os.environ.get(ray_private.HAPROXY_BINARY) or shutil.which("haproxy")
            binary = ray_private.bundled_haproxy() if system is None else system
            _prepare_cluster(folder, binary, where.host, port, plan.security.max_body_bytes)
        else:
            binary = None
            ray_private.use_token()
            ray_private.check_requires_token(where.cluster_address)
        import ray

        try:
            _connect(ray, folder, where, cores)
            if where.cluster_address is not None:
                _check_nodes(ray, plan.security.keys)
            _deploy(plan, where, cores, port, binary)
            local = f"http://{_bracketed(LOCAL_ADDRESS.get(where.host, where.host))}:{port}/"
            models, proxy = _wait_for_models(local, own_key), "ray" if binary is None else "haproxy"
            yield RunningService(address=f"http://{_bracketed(where.host)}:{port}/", models=models, proxy=proxy)
        finally:
            _shut_down(ray, own=where.cluster_address is None)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def wait() -> None:
    """Blocks until Ctrl-C or SIGTERM; a second signal ends the process at once."""
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    while not stop.wait(1):  # a wait without a timeout would not be interrupted by the signal
        pass
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)


def _prepare_cluster(folder: Path, binary: str | None, host: str, port: int, max_body_bytes: int) -> None:
    """Sets the environment of a cluster on this machine: loopback, a token, all files in this folder."""
    token = folder / "token"
    with os.fdopen(os.open(token, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "w") as file:
        file.write(secrets.token_hex(32))
    metrics, stats, http, grpc, autoscaler, dashboard = _free_ports(6)
    ray_private.use_token(token)
    os.environ |= ray_private.cluster_environment(
        token, use_haproxy=binary is not None, autoscaler_port=autoscaler, dashboard_port=dashboard
    )
    if binary is None:
        return
    ports = {"port": port, "metrics": metrics, "stats": stats}
    program = write_wrapper(folder, binary, max_body_bytes=max_body_bytes, host=_bracketed(host), **ports)
    os.environ |= ray_private.haproxy_environment(
        folder, program, metrics_port=metrics, stats_port=stats, http_port=http, grpc_port=grpc
    )


def _connect(ray: Any, folder: Path, where: RayConfig, cores: int) -> None:
    if where.cluster_address is not None:
        try:
            ray.init(address=where.cluster_address, log_to_driver=True)
        except Exception as error:
            raise ValueError(
                f"the Ray cluster at {where.cluster_address} refuses the connection "
                f"({str(error).splitlines()[0][:200]}): put its token into ~/.ray/auth_token, "
                "or into a file that RAY_AUTH_TOKEN_PATH names"
            ) from None
        return
    try:
        num_cpus, temp_dir = cores * (where.replicas[1] + 1), folder / "ray"
        ray_private.start_local(ray, num_cpus=num_cpus, temp_dir=temp_dir, object_store_bytes=OBJECT_STORE_BYTES)
    except Exception as error:  # Ray raises plain exceptions here
        raise ValueError(f"Ray could not start: {str(error).splitlines()[0][:300]}") from None


def _check_nodes(ray: Any, keys: object) -> None:
    """Requires a key if replicas run on other machines, since they are reached over the network."""
    for node in ray.nodes():
        if node["Alive"] and not ipaddress.ip_address(node["NodeManagerAddress"]).is_loopback:
            check_exposure(node["NodeManagerAddress"], keys)


def _deploy(plan: ReplicaConfig, where: RayConfig, cores: int, port: int, binary: str | None) -> None:
    from ray import serve
    from ray.exceptions import RayError
    from ray.serve.config import AutoscalingConfig, HTTPOptions
    from ray.serve.schema import LoggingConfig

    logging.getLogger("ray.serve").setLevel(logging.CRITICAL)  # failures are raised
    # HAProxy listens on the address in its hardened configuration, and the replicas behind it on loopback
    host = where.host if binary is None else "127.0.0.1"
    try:
        with suppress(TimeoutError):  # after a minute; on a busy machine it comes later, and `_wait_for_models` waits
            serve.start(http_options=HTTPOptions(host=host, port=port), logging_config=LoggingConfig(log_level="ERROR"))
    except RayError as error:
        reason = str(error).strip().splitlines()[-1][:300]
        raise ValueError(f"Ray's proxy did not start: {reason}") from None
    minimum, maximum = where.replicas
    scale = AutoscalingConfig(
        min_replicas=minimum, max_replicas=maximum, target_ongoing_requests=TARGET_ONGOING_REQUESTS
    )
    deployment = serve.deployment(
        name="replica",
        num_replicas=minimum if minimum == maximum else None,
        autoscaling_config=None if minimum == maximum else scale,
        ray_actor_options={"num_cpus": cores},
        max_ongoing_requests=2 * plan.security.max_requests,  # the middleware refuses first, with a message
        max_constructor_retry_count=2,
        health_check_period_s=3,
        health_check_timeout_s=5,
        graceful_shutdown_timeout_s=DRAIN_TIMEOUT_S,
        logging_config=LoggingConfig(log_level="ERROR", enable_access_log=False),
    )(serve.ingress()(Replica))
    try:
        with suppress(TimeoutError):
            serve.run(deployment.bind(plan), name=NAME, route_prefix="/")
    except RuntimeError as error:
        lines = [line.strip() for line in str(error).splitlines() if re.match(r"\s*\w*(Error|Exception): ", line)]
        raise ValueError(f"a replica could not start: {(lines or str(error).splitlines() or ['?'])[-1]}") from None


def _wait_for_models(address: str, key: str) -> list[dict[str, Any]]:
    """Waits until the new server answers, and returns the models that it serves."""
    request = urllib.request.Request(f"{address}models", headers={"authorization": f"Bearer {key}"})
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    deadline = time.monotonic() + START_TIMEOUT_S
    while True:
        try:
            with opener.open(request, timeout=10) as response:
                models = json.load(response)["models"]
                return [{"name": model["name"], "tasks": model["tasks"]} for model in models]
        except OSError as error:
            if time.monotonic() > deadline:
                raise ValueError(f"{address} does not answer after {START_TIMEOUT_S} seconds: {error}") from None
            time.sleep(0.5)


def _shut_down(ray: Any, *, own: bool) -> None:
    if not ray.is_initialized():
        return
    from ray import serve

    try:
        serve.delete(NAME)
        if own:
            serve.shutdown()
    except Exception as error:  # it ends with the cluster
        print(f"clearhead: {error}", file=sys.stderr)
    ray.shutdown()


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _free_ports(count: int) -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports
