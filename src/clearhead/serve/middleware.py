"""Security middleware: API keys, host names, cross-site requests, body size, response headers, and the request log.

A plain ASGI layer around the application, so that it covers every route.
"""

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

from clearhead.serve.errors import ApiError, error_location, internal_error
from clearhead.serve.prometheus import ServerMetrics

log = logging.getLogger("clearhead.serve")

PUBLIC_PATHS = ("/health",)  # need no key
UNQUEUED_PATHS = ("/reload",)  # do not enter the queue, so a full queue does not refuse them
LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
MIN_KEY_LENGTH = 16
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
class SecurityConfig:
    """Keys, host names and limits that the middleware enforces."""

    keys: Mapping[str, str] = field(default_factory=dict[str, str])  # name of a key: its SHA-256
    hosts: tuple[str, ...] = LOOPBACK  # accepted names in the Host header; ("*",) accepts any
    max_body_bytes: int = 8 * 2**20
    max_requests: int = 512  # at once

    @staticmethod
    def digest(key: str) -> str:
        """Returns the SHA-256 of a key; the key itself is not stored."""
        return hashlib.sha256(key.encode()).hexdigest()


class SecurityMiddleware:
    """Checks every request before the application sees it, and logs it afterwards."""

    def __init__(
        self,
        app: Any,
        config: SecurityConfig,
        metrics: ServerMetrics,
        refuse: Callable[[], ApiError | None] = lambda: None,
    ) -> None:
        self._app, self._config, self._metrics, self._refuse = app, config, metrics, refuse
        self._running = 0
        self.draining = False  # shutting down: /ready answers 503, other routes still work

    def drain(self) -> None:
        """Makes /ready report that the server is shutting down."""
        self.draining = True

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        scope["draining"] = self.draining
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self._app(scope, receive, send)
            return
        start = time.perf_counter()
        request_id = secrets.token_hex(8)
        scope["request_id"] = request_id
        status = 0

        async def send_with_headers(message: Any) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                present = {key.lower() for key, _ in message["headers"]}
                more = [(k.encode(), v.encode()) for k, v in HEADERS.items() if k.encode() not in present]
                message = {**message, "headers": [*message["headers"], *more, (b"x-request-id", request_id.encode())]}
            await send(message)

        self._running += 1
        self._metrics.running.set(self._running)
        try:
            self._check(scope)
            await self._app(scope, _limit_body(receive, self._config.max_body_bytes), send_with_headers)
        except ApiError as error:
            if not status:
                await respond(send_with_headers, error)
        except asyncio.CancelledError:
            raise
        except Exception as error:
            fields = {"id": request_id, "error": type(error).__name__, "location": error_location(error)}
            log.error("failed", extra={"fields": fields})
            if not status:
                await respond(send_with_headers, internal_error())
        finally:
            self._running -= 1
            self._metrics.running.set(self._running)
            self._record(scope, status, time.perf_counter() - start)

    def _check(self, scope: Any) -> None:
        headers = {key: value.decode("latin-1") for key, value in scope["headers"]}
        if self._running > self._config.max_requests:
            self._metrics.refused.labels("running").inc()
            message = f"{self._config.max_requests} requests are in progress, which is the limit: retry later"
            raise ApiError(503, "busy", message, retry_after=1)
        if "*" not in self._config.hosts and _host(headers.get(b"host", "")) not in self._config.hosts:
            message = "the Host header is not a name of this server: add it with --allowed-host of `clearhead serve`"
            raise ApiError(400, "unknown_host", message)
        if scope["path"] not in PUBLIC_PATHS and self._config.keys:
            key_name = self._key_name(headers.get(b"authorization", ""))
            if key_name is None:
                raise ApiError(401, "invalid_key", "no valid API key: send the header `Authorization: Bearer KEY`")
            scope["key_name"] = key_name
        # browsers send this header: the page of another site must not use the access that this browser has
        if headers.get(b"sec-fetch-site", "none") not in ("none", "same-origin"):
            raise ApiError(403, "cross_site", "requests from pages of another site are not allowed")
        if scope["method"] == "POST" and scope["path"] not in UNQUEUED_PATHS:
            error = self._refuse()  # before the body is read
            if error is not None:
                raise error
        length = headers.get(b"content-length", "0")
        if not length.isdigit() or int(length) > self._config.max_body_bytes:
            raise _too_large(self._config.max_body_bytes)

    def _key_name(self, authorization: str) -> str | None:
        """Returns the name of the key that was sent; all keys are compared, so that timing reveals nothing."""
        scheme, _, value = authorization.partition(" ")
        if scheme.lower() == "basic":  # what a browser asks its user for: any name, the key as the password
            try:
                value = base64.b64decode(value, validate=True).decode().partition(":")[2]
            except (binascii.Error, UnicodeDecodeError):
                return None
        elif scheme.lower() != "bearer":
            return None
        digest = SecurityConfig.digest(value.strip())
        names = [name for name, known in self._config.keys.items() if hmac.compare_digest(known, digest)]
        return names[0] if names else None

    def _record(self, scope: Any, status: int, seconds: float) -> None:
        """Updates metrics and writes one log line, without user data: the route's pattern instead of the path."""
        route = getattr(scope.get("route"), "path", None) or ("/see" if scope["path"].startswith("/see/") else "other")
        self._metrics.requests.labels(route, str(status)).inc()
        self._metrics.seconds.labels(route).observe(seconds)
        fields = {"id": scope["request_id"], "route": route, "status": status, "ms": round(1000 * seconds, 1)}
        fields |= scope.get("log_fields", {})
        if "key_name" in scope:
            fields["key"] = scope["key_name"]
        log.info("request", extra={"fields": fields})


async def respond(send: Any, error: ApiError) -> None:
    """Sends an error as a complete ASGI response."""
    headers = [(b"content-type", b"application/json")]
    if error.retry_after is not None:
        headers.append((b"retry-after", str(error.retry_after).encode()))
    if error.status == 401:
        headers.append((b"www-authenticate", b'Basic realm="clearhead", charset="UTF-8"'))
    if error.status == 413:
        headers.append((b"connection", b"close"))
    await send({"type": "http.response.start", "status": error.status, "headers": headers})
    await send({"type": "http.response.body", "body": orjson.dumps(error.body())})


def _limit_body(receive: Any, max_bytes: int) -> Any:
    """Counts the bytes of bodies that are sent without a Content-Length."""
    received = 0

    async def limited() -> Any:
        nonlocal received
        message = await receive()
        received += len(message.get("body", b""))
        if received > max_bytes:
            raise _too_large(max_bytes)
        return message

    return limited


def _too_large(max_bytes: int) -> ApiError:
    return ApiError(413, "too_large", f"the request body exceeds {max_bytes:,} bytes: split the request")


def _host(header: str) -> str:
    """Returns the name in a Host header, without the port."""
    name, colon, port = header.rpartition(":")
    return (name if colon and port.isdigit() else header).lower()


def read_keys(lines: Iterable[str]) -> dict[str, str]:
    """Reads API keys, one per line as `NAME KEY` or `KEY`; returns {name: digest}. `#` begins a comment."""
    keys: dict[str, str] = {}
    for number, line in enumerate(lines, 1):
        text = line.strip()
        if not text or text.startswith("#"):
            continue
        *names, key = text.split()
        if len(key) < MIN_KEY_LENGTH:
            raise ValueError(
                f"the key in line {number} has {len(key)} characters: use at least {MIN_KEY_LENGTH} random ones"
            )
        keys[" ".join(names) or f"key {number}"] = SecurityConfig.digest(key)
    return keys
