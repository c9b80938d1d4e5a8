"""The server: uvicorn with a clock on every socket, logs as JSON lines, and a way down that loses nobody."""

from __future__ import annotations

import asyncio
import ipaddress
import json
import logging
import socket
import sys
from typing import Any

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from clearhead.serve.guard import Guard

SLOW = 8.0  # seconds in which a request must have come in whole, and in which a reader must read on
BEHIND = 16  # requests that may come in on a connection before the first of them is answered
IDLE = 8  # seconds that a connection may rest between two requests
SWITCH = 2e-4  # seconds that a busy loop may keep the engine from its next operation, of which a token takes a hundred
DRAIN = 30  # seconds that requests have to end when the server goes down


class Timely(HttpToolsProtocol):
    """A connection that is closed when its client sends, or reads, too slowly: uvicorn waits for ever.

    It is closed too when requests pile up on it: uvicorn would take on as many as are sent, and read nothing else
    meanwhile.
    """

    _clock: asyncio.TimerHandle | None = None
    _reading: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._start()

    def data_received(self, data: bytes) -> None:
        rested = self.timeout_keep_alive_task is not None
        super().data_received(data)
        if rested and self.cycle.response_complete:  # blank lines: uvicorn has forgotten that it rests
            self._start()

    def on_message_begin(self) -> None:
        if len(self.pipeline) >= BEHIND:
            self._cut()
            raise ConnectionAbortedError(f"{BEHIND} requests behind one another")  # ends the parsing
        super().on_message_begin()
        self._start()

    def on_message_complete(self) -> None:
        super().on_message_complete()
        self._clock = _stopped(self._clock)

    def pause_writing(self) -> None:
        super().pause_writing()
        if self._reading is None:
            self._reading = self.loop.call_later(SLOW, self._cut)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._reading = _stopped(self._reading)

    def connection_lost(self, exc: Exception | None) -> None:
        self._clock, self._reading = _stopped(self._clock), _stopped(self._reading)
        super().connection_lost(exc)

    def _start(self) -> None:
        if self._clock is None:
            self._clock = self.loop.call_later(SLOW, self._cut)

    def _cut(self) -> None:
        """Close the socket as it is; whoever writes to it learns that nobody reads."""
        cycle: Any = self.cycle  # None before the first request
        if cycle is not None:
            cycle.disconnected = True
            cycle.message_event.set()
        self.flow.resume_writing()
        self.transport.abort()


def _stopped(clock: asyncio.TimerHandle | None) -> None:
    if clock is not None:
        clock.cancel()


class Lines(logging.Formatter):
    """A log entry as one JSON object."""

    def format(self, record: logging.LogRecord) -> str:
        """Time, level, what happened, and the facts of it."""
        told = {"time": round(record.created, 3), "level": record.levelname.lower(), "event": record.getMessage()}
        return json.dumps({**told, **getattr(record, "facts", {})}, ensure_ascii=False)


def set_logs(*, quiet: bool = False) -> None:
    """Our log to stderr itself, a JSON object a line; uvicorn's own says what goes wrong only."""
    handler = logging.StreamHandler(sys.__stderr__)
    handler.setFormatter(Lines())
    log = logging.getLogger("clearhead.serve")
    log.handlers, log.propagate = [handler], False
    log.setLevel(logging.WARNING if quiet else logging.INFO)


def check_open(host: str, keys: object) -> None:
    """ValueError where a server would stand open to the network."""
    try:
        near = ipaddress.ip_address(host).is_loopback
    except ValueError:
        near = host == "localhost"
    if not near and not keys:
        raise ValueError(
            f"{host} can be reached from other machines, and no key is set: anybody could use the models. "
            "Give a file of keys with --keys, or stay on 127.0.0.1"
        )


class Server(uvicorn.Server):
    """A server on one socket; when it is told to end it says so at /ready, answers what it has, and closes."""

    def __init__(self, app: Guard, host: str = "127.0.0.1", port: int = 8000, *, proxies: str = "127.0.0.1") -> None:
        self._app = app
        self.socket = _bound(host, port)
        self.address = f"http://{'[' + host + ']' if ':' in host else host}:{self.socket.getsockname()[1]}/"
        super().__init__(
            uvicorn.Config(
                app, http=Timely, loop="uvloop", ws="none", log_config=None, log_level="warning", access_log=False,
                server_header=False, timeout_keep_alive=IDLE, timeout_graceful_shutdown=DRAIN,
                forwarded_allow_ips=proxies, h11_max_incomplete_event_size=2**16,
            )
        )  # fmt: skip

    def handle_exit(self, sig: int, frame: Any) -> None:
        """Ctrl-C or SIGTERM: not ready any more; a second time, at once."""
        self._app.leave()
        super().handle_exit(sig, frame)

    def serve_here(self) -> None:
        """Serve until it is told to end."""
        sys.setswitchinterval(SWITCH)
        self.run([self.socket])


def _bound(host: str, port: int) -> socket.socket:
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        bound = socket.socket(family)
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(address)
        bound.listen(2048)  # who comes before the models are ready waits
    except (OSError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ValueError(f"{host}:{port} cannot be had ({reason}): give another --host or --port") from None
    return bound
