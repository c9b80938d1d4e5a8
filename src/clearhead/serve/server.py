"""The server: uvicorn with timeouts, JSON logs and a graceful shutdown."""

import ipaddress
import json
import logging
import socket
import sys
from typing import Any

import uvicorn

from clearhead.serve.middleware import SecurityMiddleware
from clearhead.serve.uvicorn_protocol import TimeoutProtocol

KEEP_ALIVE_S = 8  # that a connection may be idle between two requests
SWITCH_INTERVAL_S = 2e-4  # how long a busy event loop may keep the GIL from the engine, which needs it ~100x per token
DRAIN_TIMEOUT_S = 30  # for requests in progress when the server shuts down
BACKLOG = 2048  # connections that may wait while the models are loading


class JsonFormatter(logging.Formatter):
    """Formats a log record as one JSON object per line."""

    def format(self, record: logging.LogRecord) -> str:
        entry = {"time": round(record.created, 3), "level": record.levelname.lower(), "event": record.getMessage()}
        return json.dumps({**entry, **getattr(record, "fields", {})}, ensure_ascii=False)


def set_logs(*, quiet: bool = False) -> None:
    """Logs to stderr as JSON lines; `quiet` logs warnings and errors only."""
    handler = logging.StreamHandler(sys.__stderr__)
    handler.setFormatter(JsonFormatter())
    log = logging.getLogger("clearhead.serve")
    log.handlers, log.propagate = [handler], False
    log.setLevel(logging.WARNING if quiet else logging.INFO)


def check_exposure(host: str, keys: object) -> None:
    """Raises a ValueError if a server without keys would be reachable from other machines."""
    try:
        is_loopback = ipaddress.ip_address(host).is_loopback
    except ValueError:
        is_loopback = host == "localhost"
    if not is_loopback and not keys:
        raise ValueError(
            f"{host} is reachable from other machines and no key is set, so anyone could use the models: "
            "give a file of keys with --api-keys, or listen on 127.0.0.1"
        )


class Server(uvicorn.Server):
    """A server on one socket. On SIGTERM /ready answers 503, requests in progress finish, then it stops."""

    def __init__(
        self, app: SecurityMiddleware, host: str = "127.0.0.1", port: int = 8000, *, proxies: str = "127.0.0.1"
    ) -> None:
        self._app = app
        self.socket = bind_socket(host, port)
        self.address = f"http://{'[' + host + ']' if ':' in host else host}:{self.socket.getsockname()[1]}/"
        super().__init__(
            uvicorn.Config(
                app, http=TimeoutProtocol, loop="uvloop", ws="none", log_config=None, log_level="warning",
                access_log=False, server_header=False, timeout_keep_alive=KEEP_ALIVE_S,
                timeout_graceful_shutdown=DRAIN_TIMEOUT_S, forwarded_allow_ips=proxies,
                h11_max_incomplete_event_size=2**16,
            )
        )  # fmt: skip

    def handle_exit(self, sig: int, frame: Any) -> None:
        """Handles Ctrl-C and SIGTERM: the first starts the graceful shutdown, the second stops at once."""
        self._app.drain()
        super().handle_exit(sig, frame)

    def serve_here(self) -> None:
        sys.setswitchinterval(SWITCH_INTERVAL_S)
        self.run([self.socket])


def bind_socket(host: str, port: int) -> socket.socket:
    """Returns a listening socket; raises a ValueError if the address is not available."""
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        bound = socket.socket(family)
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(address)
        bound.listen(BACKLOG)
    except (OSError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ValueError(f"cannot listen on {host}:{port} ({reason}): give another --host or --port") from None
    return bound
