"""The guard: who may come in, how large and how slow a request may be, what browsers are told, and what is logged.

A plain ASGI layer around the whole application, so that no route can be forgotten.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import hashlib
import hmac
import logging
import secrets
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson

from clearhead.serve.faults import Fault, broken, where
from clearhead.serve.metrics import Metrics

log = logging.getLogger("clearhead.serve")

OPEN = ("/health",)  # answers without a key
LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; connect-src 'self'; "
    "frame-src 'self'; frame-ancestors 'self'; base-uri 'none'; form-action 'none'"
)
HEADERS = {
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "content-security-policy": POLICY,
    "cache-control": "no-store",
}


@dataclass(frozen=True, kw_only=True)
class Rules:
    """What the guard keeps."""

    keys: Mapping[str, str] = field(default_factory=dict[str, str])  # name of the key: its SHA-256
    hosts: tuple[str, ...] = LOOPBACK  # names under which a browser may ask; ("*",) for any
    largest: int = 8 * 2**20  # bytes of a body
    running: int = 512  # requests at once

    @staticmethod
    def digest(key: str) -> str:
        """What is kept of a key."""
        return hashlib.sha256(key.encode()).hexdigest()


class Guard:
    """Around an application."""

    def __init__(
        self, inside: Any, rules: Rules, metrics: Metrics, refuse: Callable[[], Fault | None] = lambda: None
    ) -> None:
        self._inside, self._rules, self._metrics, self._refuse = inside, rules, metrics, refuse
        self._running = 0
        self.leaving = False  # the server goes down: it answers, but more should not be sent here

    def leave(self) -> None:
        """Say at /ready that the server goes down."""
        self.leaving = True

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        scope["leaving"] = self.leaving
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self._inside(scope, receive, send)
            return
        began = time.perf_counter()
        name = secrets.token_hex(8)
        scope["request_id"] = name
        told: dict[str, Any] = {"status": 0}

        async def answer(message: Any) -> None:
            if message["type"] == "http.response.start":
                told["status"] = message["status"]
                there = {key.lower() for key, _ in message["headers"]}
                more = [(k.encode(), v.encode()) for k, v in HEADERS.items() if k.encode() not in there]
                message = {**message, "headers": [*message["headers"], *more, (b"x-request-id", name.encode())]}
            await send(message)

        self._running += 1
        self._metrics.running.set(self._running)
        try:
            self._check(scope)
            await self._inside(scope, _bounded(receive, self._rules.largest), answer)
        except Fault as fault:
            if not told["status"]:
                await respond(answer, fault)
        except asyncio.CancelledError:
            raise
        except Exception as error:
            log.error("failed", extra={"facts": {"id": name, "error": type(error).__name__, "where": where(error)}})
            if not told["status"]:
                await respond(answer, broken())
        finally:
            self._running -= 1
            self._metrics.running.set(self._running)
            self._note(scope, told["status"], time.perf_counter() - began)

    def _check(self, scope: Any) -> None:
        """A fault where this request may not go on."""
        headers = {key: value.decode("latin-1") for key, value in scope["headers"]}
        if self._running > self._rules.running:
            self._metrics.refused.labels("running").inc()
            message = f"{self._rules.running} requests are being answered already: ask again later"
            raise Fault(503, "busy", message, retry_after=1)
        if "*" not in self._rules.hosts and _host(headers.get(b"host", "")) not in self._rules.hosts:
            raise Fault(400, "host", "this server is not known under that name: see --host-name of `clearhead serve`")
        if scope["path"] not in OPEN and self._rules.keys:
            caller = self._caller(headers.get(b"authorization", ""))
            if caller is None:
                raise Fault(401, "key", "send a key: `Authorization: Bearer KEY`")
            scope["caller"] = caller
        # a page of somebody else's must not use what this browser may: its scripts ask with this header
        if headers.get(b"sec-fetch-site", "none") not in ("none", "same-origin"):
            raise Fault(403, "cross_site", "a page of another site may not ask here")
        if scope["method"] == "POST" and (refused := self._refuse()) is not None:  # before anything is read of it
            raise refused
        length = headers.get(b"content-length", "0")
        if not length.isdigit() or int(length) > self._rules.largest:
            raise _too_large(self._rules.largest)

    def _caller(self, given: str) -> str | None:
        """The name of the key that was sent; each is compared, so that time tells nothing."""
        kind, _, value = given.partition(" ")
        if kind.lower() == "basic":  # what a browser asks its user for: any name, the key as the password
            try:
                value = base64.b64decode(value, validate=True).decode().partition(":")[2]
            except (binascii.Error, UnicodeDecodeError):
                return None
        elif kind.lower() != "bearer":
            return None
        digest = Rules.digest(value.strip())
        found = [name for name, held in self._rules.keys.items() if hmac.compare_digest(held, digest)]
        return found[0] if found else None

    def _note(self, scope: Any, status: int, seconds: float) -> None:
        """One line of the log, without a word of the user's: not the path, but the route that took it."""
        route = getattr(scope.get("route"), "path", None) or ("/see" if scope["path"].startswith("/see/") else "other")
        self._metrics.requests.labels(route, str(status)).inc()
        self._metrics.seconds.labels(route).observe(seconds)
        facts = {"id": scope["request_id"], "route": route, "status": status, "ms": round(1000 * seconds, 1)}
        facts |= scope.get("noted", {})
        if "caller" in scope:
            facts["key"] = scope["caller"]
        log.info("request", extra={"facts": facts})


async def respond(send: Any, fault: Fault) -> None:
    """A fault as an answer."""
    headers = [(b"content-type", b"application/json")]
    if fault.retry_after is not None:
        headers.append((b"retry-after", str(fault.retry_after).encode()))
    if fault.status == 401:
        headers.append((b"www-authenticate", b'Basic realm="clearhead", charset="UTF-8"'))
    if fault.status == 413:
        headers.append((b"connection", b"close"))
    await send({"type": "http.response.start", "status": fault.status, "headers": headers})
    await send({"type": "http.response.body", "body": orjson.dumps(fault.body())})


def _bounded(receive: Any, largest: int) -> Any:
    """Bodies that say nothing of their size are counted."""
    seen = 0

    async def bounded() -> Any:
        nonlocal seen
        message = await receive()
        seen += len(message.get("body", b""))
        if seen > largest:
            raise _too_large(largest)
        return message

    return bounded


def _too_large(largest: int) -> Fault:
    return Fault(413, "too_large", f"a request has at most {largest:,} bytes: send it in parts")


def _host(header: str) -> str:
    """The name in a Host header, without the port."""
    name, colon, port = header.rpartition(":")
    return (name if colon and port.isdigit() else header).lower()


def keys_of(lines: Iterable[str]) -> dict[str, str]:
    """Keys, one a line, each behind a name where it has one: `NAME KEY`; what is kept of them are their digests."""
    found: dict[str, str] = {}
    for number, line in enumerate(lines, 1):
        text = line.strip()
        if not text or text.startswith("#"):
            continue
        *names, key = text.split()
        if len(key) < 16:
            raise ValueError(
                f"the key in line {number} has {len(key)} characters: take at least 16, all of them random"
            )
        found[" ".join(names) or f"key {number}"] = Rules.digest(key)
    return found
